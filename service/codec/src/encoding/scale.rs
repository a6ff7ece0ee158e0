//! Encoding `scale`: distances from the least value of each
//! tile (FORMAT.md, section 6.5).

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `scale` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::UNSIGNED],
    sections: &[SectionSpec::Bases(1)],
    ..NodeSpec::LEAF
};

/// Writes the node and its child. The base of a tile is its least value in the order of the type.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    // Signed order is unsigned order with the sign bit flipped.
    let sign = T::low(if node.value_type.is_signed() { 1 << (T::BITS - 1) } else { 0 });
    let mut bases = Vec::with_capacity(node.counts.tiles() * T::BYTES);
    let mut distances = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let least = tile.iter().map(|value| value.plus(sign)).min();
        let base = least.map_or(T::default(), |least| least.minus(sign));
        base.write(&mut bases);
        distances.extend(tile.iter().map(|value| value.minus(base)));
    }
    writer.node(Encoding::Scale, &node, vec![bases], 0, 0);
    writer.subtree(child, node.child(T::UNSIGNED, &distances))
}

/// Decoder of a `scale` node.
pub(crate) struct Scale<'a, T> {
    bases: Section<'a>,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Scale<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Ok(Self { bases: node.sections[0], child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        let base = self.bases.value(context.tile);
        for value in out {
            *value = value.plus(base);
        }
        Ok(())
    }
}
