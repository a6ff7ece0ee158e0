//! Decoding of tiles with a tree: the parts that all encodings share.
//!
//! `TileTree` is a plan with its sections. It decodes any tile into a buffer of the caller; only
//! `lzw` needs earlier tiles for that, those of the same chunk. The plan's check covers shapes and
//! lengths of per-tile sections; decoding reports faults within a tile with their byte offset.

pub(crate) use crate::encoding::TileTree;
use crate::grouping::Heads;
use crate::plan::PlanNode;
use crate::section::{Fault, Section};
use crate::word::Word;

/// Nodes and sections of one chunk, taken in pre-order.
pub(crate) struct NodeReader<'a> {
    nodes: &'a [PlanNode],
    sections: &'a [Section<'a>],
}

/// One node and its sections.
pub(crate) struct NodeInput<'a> {
    pub(crate) node: &'a PlanNode,
    pub(crate) sections: &'a [Section<'a>],
}

impl<'a> NodeReader<'a> {
    /// Begins at the root.
    pub(crate) fn new(nodes: &'a [PlanNode], sections: &'a [Section<'a>]) -> Self {
        Self { nodes, sections }
    }

    /// Takes the next node with its sections.
    pub(crate) fn take(&mut self) -> NodeInput<'a> {
        let (node, nodes) = self.nodes.split_first().expect("plans are whole trees");
        let (sections, rest) = self.sections.split_at(node.sections.into());
        (self.nodes, self.sections) = (nodes, rest);
        NodeInput { node, sections }
    }

    /// The next node.
    pub(crate) fn peek(&self) -> &'a PlanNode {
        &self.nodes[0]
    }
}

/// The input for decoding a tile, other than the tree.
#[derive(Clone, Copy)]
pub(crate) struct TileContext<'a> {
    /// Number of the tile.
    pub(crate) tile: usize,
    /// Heads of the tile, if the tree is keyed.
    pub(crate) heads: Option<&'a Heads>,
}

impl<'a, T: Word> TileTree<'a, T> {
    /// Opens the next subtree as a child.
    pub(crate) fn open_boxed(reader: &mut NodeReader<'a>) -> Result<Box<Self>, Fault> {
        Self::open(reader).map(Box::new)
    }
}

/// Checks that the counts of a sparse child, one u16 per tile, add up to the number that its node
/// states.
pub(crate) fn check_sum(section: &Section<'_>, child: &PlanNode) -> Result<(), Fault> {
    let counts = section.bytes.as_chunks::<2>().0.iter();
    let sum: u64 = counts.map(|count| u64::from(u16::from_le_bytes(*count))).sum();
    if sum == u64::from(child.values) {
        return Ok(());
    }
    let problem = format!("tiles count {sum} values of a child that has {}", child.values);
    section.fault(0, problem)
}
