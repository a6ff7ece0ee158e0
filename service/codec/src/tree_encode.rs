//! How do a column's values become the nodes and sections of a tree?
//!
//! A pure function of values, tree and keys: the same input gives the same bytes on every machine
//! (FORMAT.md, section 6, "writer"). A tree that cannot hold the values, or that the format does
//! not allow, does not apply; the caller keeps `raw` then.

use crate::column::ValueType;
use crate::encoding::Encoding;
use crate::grouping::{Grouping, Heads};
use crate::plan::{Plan, PlanNode};
use crate::tile::TileCounts;
use crate::tree::Tree;
use crate::word::Word;
use crate::{
    afl, constant, delta, delta_of_delta, dict, divisor, float_to_int, gfc, keyed_delta,
    keyed_delta_of_delta, patch, raw, rle, scale,
};

/// Why a tree was not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotApplicable {
    /// What stood against it.
    pub reason: String,
}

impl NotApplicable {
    /// A reason in words.
    pub(crate) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self { reason: reason.into() })
    }
}

/// Nodes and sections in pre-order, as far as they are written.
pub(crate) struct TreeWriter<'a> {
    nodes: Vec<PlanNode>,
    sections: Vec<Vec<u8>>,
    heads: Option<&'a Heads>,
    key_column: u16,
}

/// A tree's outcome: a plan and the bytes of its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTree {
    /// Nodes in pre-order.
    pub plan: Plan,
    /// Sections in pre-order of the nodes, without padding.
    pub sections: Vec<Vec<u8>>,
}

/// Keys that keyed trees are written with.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Order of the key column.
    pub grouping: &'a Grouping,
    /// The key column's id.
    pub column: u16,
}

/// Values of one node, on their way down.
#[derive(Clone, Copy)]
pub(crate) struct NodeValues<'a, T> {
    pub(crate) value_type: ValueType,
    pub(crate) values: &'a [T],
    pub(crate) counts: &'a TileCounts,
}

impl<'a, T: Word> NodeValues<'a, T> {
    /// Values of a child with the same counts.
    pub(crate) fn child(&self, value_type: ValueType, values: &'a [T]) -> Self {
        Self { value_type, values, counts: self.counts }
    }

    /// The values of each tile.
    pub(crate) fn tiles(&self) -> impl Iterator<Item = &'a [T]> {
        let values = self.values;
        self.counts.ranges().map(move |range| &values[range])
    }
}

/// Encodes a whole column of bit patterns.
pub(crate) fn encode_tree<T: Word>(
    value_type: ValueType,
    values: &[T],
    tree: &Tree,
    keys: Option<Keys<'_>>,
) -> Result<EncodedTree, NotApplicable> {
    let counts = TileCounts::Full(values.len());
    let keys = keys.filter(|_| tree.is_keyed());
    let mut writer = TreeWriter {
        nodes: Vec::with_capacity(tree.nodes()),
        sections: Vec::new(),
        heads: keys.map(|keys| keys.grouping.heads()),
        key_column: keys.map_or(0, |keys| keys.column),
    };
    match (keys, tree.is_keyed()) {
        (Some(keys), _) => {
            let grouped = keys.grouping.group(values);
            let node = NodeValues { value_type, values: &grouped, counts: &counts };
            writer.subtree(tree, node)?;
        }
        (None, true) => return NotApplicable::because("a keyed tree takes keys"),
        (None, false) => {
            writer.subtree(tree, NodeValues { value_type, values, counts: &counts })?;
        }
    }
    writer.finish()
}

impl TreeWriter<'_> {
    /// Writes one subtree.
    pub(crate) fn subtree<T: Word>(
        &mut self,
        tree: &Tree,
        node: NodeValues<'_, T>,
    ) -> Result<(), NotApplicable> {
        match tree {
            Tree::Raw => {
                let bytes = raw::encode::encode(node.values);
                self.leaf(Encoding::Raw, &node, vec![bytes]);
                Ok(())
            }
            Tree::Afl => {
                let sections = afl::encode::encode(&node);
                self.leaf(Encoding::Afl, &node, sections);
                Ok(())
            }
            Tree::Gfc if !node.value_type.is_float() => {
                NotApplicable::because("gfc takes floats, this is no float")
            }
            Tree::Gfc => {
                let sections = gfc::encode::encode(&node);
                self.leaf(Encoding::Gfc, &node, sections);
                Ok(())
            }
            Tree::Const => constant::encode::encode(self, &node),
            Tree::Delta(mode, child) => delta::encode::encode(self, node, *mode, child),
            Tree::Delta2(mode, child) => delta_of_delta::encode::encode(self, node, *mode, child),
            Tree::Scale(child) => scale::encode::encode(self, node, child),
            Tree::Divisor(choice, child) => divisor::encode::encode(self, node, *choice, child),
            Tree::FloatToInt(decimals, child) => {
                float_to_int::encode::encode(self, node, *decimals, child)
            }
            Tree::Patch(child) => patch::encode::encode(self, node, child),
            Tree::Rle(values, lengths) => rle::encode::encode(self, node, values, lengths),
            Tree::Dict(limit, codes, exceptions) => {
                dict::encode::encode(self, node, *limit, codes, exceptions.as_deref())
            }
            Tree::Group(child) => {
                self.keyed_node(Encoding::Group, &node, Vec::new(), 0);
                self.subtree(child, node)
            }
            Tree::KeyedDelta(mode, residuals, heads) => {
                keyed_delta::encode::encode(self, node, *mode, residuals, heads)
            }
            Tree::KeyedDelta2(mode, residuals, heads) => {
                keyed_delta_of_delta::encode::encode(self, node, *mode, residuals, heads)
            }
        }
    }

    /// Writes a node without parameters or children.
    fn leaf<T: Word>(
        &mut self,
        encoding: Encoding,
        node: &NodeValues<'_, T>,
        sections: Vec<Vec<u8>>,
    ) {
        self.node(encoding, node, sections, (0, 0));
    }

    /// Writes a node that names the key column; its heads, if keys are there.
    pub(crate) fn keyed_node<T: Word>(
        &mut self,
        encoding: Encoding,
        node: &NodeValues<'_, T>,
        sections: Vec<Vec<u8>>,
        parameter_u64: u64,
    ) {
        self.node(encoding, node, sections, (self.key_column.into(), parameter_u64));
    }

    /// Heads of the keyed order.
    pub(crate) fn heads(&self) -> &Heads {
        self.heads.expect("keyed trees are written with keys")
    }

    /// Writes a node and its sections; its children follow. Child counts are settled at the end.
    pub(crate) fn node<T: Word>(
        &mut self,
        encoding: Encoding,
        node: &NodeValues<'_, T>,
        sections: Vec<Vec<u8>>,
        (parameter_u32, parameter_u64): (u32, u64),
    ) {
        let rules = encoding.rules();
        let sections_count = sections.len() as u8;
        self.nodes.push(PlanNode {
            encoding,
            value_type: node.value_type,
            children: rules.children_min + (sections_count - rules.sections),
            sections: sections_count,
            values: u32::try_from(node.values.len()).expect("rows are within their limit"),
            parameter_u32,
            parameter_u64,
        });
        self.sections.extend(sections);
    }

    /// Confirms that the tree is one that readers accept.
    fn finish(self) -> Result<EncodedTree, NotApplicable> {
        let section_bytes: Vec<u64> =
            self.sections.iter().map(|section| section.len() as u64).collect();
        let plan = Plan::built(self.nodes);
        match plan.check(&section_bytes) {
            Ok(()) => Ok(EncodedTree { plan, sections: self.sections }),
            Err(fault) => NotApplicable::because(fault.problem),
        }
    }
}
