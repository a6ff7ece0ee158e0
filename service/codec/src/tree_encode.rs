//! Encoding of a column with a tree: nodes and sections in pre-order.
//!
//! The output depends only on values, tree and keys, so it is the same on every machine (FORMAT.md,
//! section 6, "writer"). A tree that cannot hold the values, or that the format does
//! not allow, does not apply; the caller then keeps `raw`.

use crate::encoding::Encoding;
use crate::entropy::LeafEntropy;
use crate::grouping::{Grouping, Heads};
use crate::plan::{Plan, PlanNode};
use crate::tile::TileCounts;
use crate::tree::Tree;
use crate::value_type::ValueType;
use crate::word::Word;

/// Why a tree was not encoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotApplicable {
    /// The rule or value that it breaks.
    pub reason: String,
}

impl NotApplicable {
    /// Returns the error with this reason.
    pub(crate) fn because<T>(reason: impl Into<String>) -> Result<T, Self> {
        Err(Self { reason: reason.into() })
    }
}

/// Nodes and sections written so far, in pre-order.
pub(crate) struct TreeWriter<'a> {
    nodes: Vec<PlanNode>,
    sections: Vec<Vec<u8>>,
    heads: Option<&'a Heads>,
    key_column: u16,
    entropy: Option<LeafEntropy>,
}

/// The plan of an encoded column and the bytes of its sections.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodedTree {
    /// Nodes in pre-order.
    pub plan: Plan,
    /// Sections in pre-order of the nodes, without padding.
    pub sections: Vec<Vec<u8>>,
}

/// Keys of a keyed tree.
#[derive(Clone, Copy, Debug)]
pub struct Keys<'a> {
    /// Order of the key column.
    pub grouping: &'a Grouping,
    /// The key column's id.
    pub column: u16,
}

/// Values of one node.
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
    encode_tree_watched(value_type, values, tree, keys, None).map(|(encoded, _)| encoded)
}

/// Encodes a column; with `entropy`, also returns the lower bound for codes in place of its leaves.
pub(crate) fn encode_tree_watched<T: Word>(
    value_type: ValueType,
    values: &[T],
    tree: &Tree,
    keys: Option<Keys<'_>>,
    entropy: Option<LeafEntropy>,
) -> Result<(EncodedTree, Option<LeafEntropy>), NotApplicable> {
    let counts = TileCounts::Full(values.len());
    let keys = keys.filter(|_| tree.is_keyed());
    let mut writer = TreeWriter {
        nodes: Vec::with_capacity(tree.nodes()),
        sections: Vec::new(),
        heads: keys.map(|keys| keys.grouping.heads()),
        key_column: keys.map_or(0, |keys| keys.column),
        entropy,
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
    let entropy = writer.entropy.take();
    Ok((writer.finish()?, entropy))
}

impl TreeWriter<'_> {
    /// Writes a node whose first parameter is the key column.
    pub(crate) fn keyed_node<T: Word>(
        &mut self,
        encoding: Encoding,
        node: &NodeValues<'_, T>,
        sections: Vec<Vec<u8>>,
        parameter_u64: u64,
    ) {
        self.node(encoding, node, sections, self.key_column.into(), parameter_u64);
    }

    /// Adds the values of the subtree that is written next to the entropy bound, if one is
    /// computed.
    pub(crate) fn watch<T: Word>(&mut self, tree: &Tree, values: &[T]) {
        if let Some(entropy) = &mut self.entropy {
            entropy.add(tree, values);
        }
    }

    /// Heads of the keyed order.
    pub(crate) fn heads(&self) -> &Heads {
        self.heads.expect("keyed trees are written with keys")
    }

    /// Writes a node and its sections; its children follow. A missing section means that the
    /// optional child is absent.
    pub(crate) fn node<T: Word>(
        &mut self,
        encoding: Encoding,
        node: &NodeValues<'_, T>,
        sections: Vec<Vec<u8>>,
        parameter_u32: u32,
        parameter_u64: u64,
    ) {
        let spec = encoding.spec();
        let missing = spec.sections.len() - sections.len();
        self.nodes.push(PlanNode {
            encoding,
            value_type: node.value_type,
            children: (spec.children.len() - missing) as u8,
            sections: sections.len() as u8,
            values: u32::try_from(node.values.len()).expect("rows are within their limit"),
            parameter_u32,
            parameter_u64,
        });
        self.sections.extend(sections);
    }

    /// Checks that readers accept the tree.
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
