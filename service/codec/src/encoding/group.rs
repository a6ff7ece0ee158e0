//! Encoding `group`: rows grouped by key (FORMAT.md, section 6.13).
//!
//! The node passes its child's values unchanged; it only makes the tree keyed. `grouping.rs`
//! finds the order.

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec};
use crate::section::Fault;
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `group` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::SAME],
    parameter_u32: ParameterSpec::KeyColumn,
    ..NodeSpec::LEAF
};

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    writer.keyed_node(Encoding::Group, &node, Vec::new(), 0);
    writer.subtree(child, node)
}

/// Decoder of a `group` node.
pub(crate) struct Group<'a, T>(Box<TileTree<'a, T>>);

impl<'a, T: Word> Group<'a, T> {
    pub(crate) fn open(_: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        TileTree::open_boxed(reader).map(Self)
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.0.tile(context, out)
    }
}
