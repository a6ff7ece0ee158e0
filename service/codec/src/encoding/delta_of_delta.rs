//! Encoding `delta2`: differences of differences within a
//! tile (FORMAT.md, section 6.4).

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `delta2` node: each tile has a base and a slope.
pub(crate) const SPEC: NodeSpec =
    NodeSpec { sections: &[SectionSpec::Bases(2)], ..super::delta::SPEC };

/// Writes the node and its child.
///
/// The first two stored values of a tile repeat the third; base and slope compensate for them.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let mut starts = Vec::with_capacity(node.counts.tiles() * 2 * T::BYTES);
    let mut stored = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let [first, second, third] = first_three(tile);
        let bend = match tile.len() {
            0..3 => T::default(),
            _ => third.minus(second).minus(second.minus(first)),
        };
        // d(0) = d(1) - bend, slope = d(0) - bend, base = v(0) - d(0).
        let before = second.minus(first).minus(bend);
        first.minus(before).write(&mut starts);
        before.minus(bend).write(&mut starts);
        stored.extend(tile.iter().take(2).map(|_| mode.store(bend)));
        stored.extend(tile.windows(3).map(|values| {
            mode.store(values[2].minus(values[1]).minus(values[1].minus(values[0])))
        }));
    }
    writer.node(Encoding::Delta2, &node, vec![starts], (mode.code(), 0));
    writer.subtree(child, node.child(T::UNSIGNED, &stored))
}

/// The first three values, the last one repeated where there are fewer.
fn first_three<T: Word>(tile: &[T]) -> [T; 3] {
    let first = tile.first().copied().unwrap_or_default();
    let second = tile.get(1).copied().unwrap_or(first);
    [first, second, tile.get(2).copied().unwrap_or(second)]
}

/// Decoder of a `delta2` node: two scans over the tile, modulo 2^W.
pub(crate) struct Delta2<'a, T> {
    /// Base and slope of each tile.
    starts: Section<'a>,
    mode: Mode,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Delta2<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u32.into()).expect("modes are checked");
        Ok(Self { starts: node.sections[0], mode, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        self.mode.unstore(out);
        let mut value: T = self.starts.value(2 * context.tile);
        let mut slope: T = self.starts.value(2 * context.tile + 1);
        for stored in out {
            slope = slope.plus(*stored);
            value = value.plus(slope);
            *stored = value;
        }
        Ok(())
    }
}
