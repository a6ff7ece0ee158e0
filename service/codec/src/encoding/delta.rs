//! Encoding `delta`: differences within a tile
//! (FORMAT.md, section 6.3).

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `delta` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::UNSIGNED],
    sections: &[SectionSpec::Bases(1)],
    parameter_u32: ParameterSpec::Mode,
    ..NodeSpec::LEAF
};

/// Writes the node and its child.
///
/// The first difference of a tile repeats the second and the base compensates for it, so that no
/// tile begins with an outlier.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let mut bases = Vec::with_capacity(node.counts.tiles() * T::BYTES);
    let mut stored = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let first = tile.first().copied().unwrap_or_default();
        let difference = tile.get(1).map_or(T::default(), |second| second.minus(first));
        first.minus(difference).write(&mut bases);
        let others = tile.windows(2).map(|pair| mode.store(pair[1].minus(pair[0])));
        stored.extend(tile.first().map(|_| mode.store(difference)));
        stored.extend(others);
    }
    writer.node(Encoding::Delta, &node, vec![bases], (mode.code(), 0));
    writer.subtree(child, node.child(T::UNSIGNED, &stored))
}

/// Decoder of a `delta` node: an inclusive scan over the tile, modulo 2^W.
pub(crate) struct Delta<'a, T> {
    bases: Section<'a>,
    mode: Mode,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Delta<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u32.into()).expect("modes are checked");
        Ok(Self { bases: node.sections[0], mode, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        self.mode.unstore(out);
        let mut value: T = self.bases.value(context.tile);
        for difference in out {
            value = value.plus(*difference);
            *difference = value;
        }
        Ok(())
    }
}
