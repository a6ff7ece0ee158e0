//! Encodings `delta` and `delta2`: differences of order 1 and 2 within a tile
//! (FORMAT.md, sections 6.3 and 6.4).

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `delta` node.
pub(crate) const SPEC: NodeSpec = spec(&[SectionSpec::Bases(1)]);

/// `delta2` in the table of encodings.
pub(crate) mod second_order {
    use super::*;

    /// Rules of every `delta2` node: each tile has a base and a slope.
    pub(crate) const SPEC: NodeSpec = spec(&[SectionSpec::Bases(2)]);

    /// Writes the node and its child.
    pub(crate) fn encode<T: Word>(
        writer: &mut TreeWriter<'_>,
        node: NodeValues<'_, T>,
        mode: &Mode,
        child: &Tree,
    ) -> Result<(), NotApplicable> {
        write::<T, 2>(writer, node, *mode, child)
    }

    /// Decoder of a `delta2` node.
    pub(crate) type Delta2<'a, T> = Differences<'a, T, 2>;
}

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    child: &Tree,
) -> Result<(), NotApplicable> {
    write::<T, 1>(writer, node, *mode, child)
}

/// Decoder of a `delta` node.
pub(crate) type Delta<'a, T> = Differences<'a, T, 1>;

const fn spec(sections: &'static [SectionSpec]) -> NodeSpec {
    NodeSpec {
        children: &[ChildSpec::UNSIGNED],
        sections,
        parameter_u32: ParameterSpec::Mode,
        ..NodeSpec::LEAF
    }
}

/// The last value of a sequence, followed by its last differences of orders 1 to `ORDER` - 1,
/// modulo 2^W.
#[derive(Clone, Copy)]
pub(super) struct Levels<T, const ORDER: usize>([T; ORDER]);

impl<T: Word, const ORDER: usize> Levels<T, ORDER> {
    /// A sequence that was constant up to `value`.
    #[inline(always)]
    pub(super) fn constant(value: T) -> Self {
        let mut levels = [T::default(); ORDER];
        levels[0] = value;
        Self(levels)
    }

    /// Appends a value; returns its difference of order `ORDER`.
    #[inline(always)]
    pub(super) fn push(&mut self, value: T) -> T {
        let mut difference = value;
        for level in &mut self.0 {
            let before = std::mem::replace(level, difference);
            difference = difference.minus(before);
        }
        difference
    }

    /// Appends the value with this difference of order `ORDER`; returns it.
    #[inline(always)]
    pub(super) fn advance(&mut self, difference: T) -> T {
        let mut change = difference;
        for level in self.0.iter_mut().rev() {
            *level = level.plus(change);
            change = *level;
        }
        change
    }

    /// Undoes [`Self::advance`] with this difference.
    fn retreat(&mut self, difference: T) {
        for order in 0..ORDER {
            let change = self.0.get(order + 1).copied().unwrap_or(difference);
            self.0[order] = self.0[order].minus(change);
        }
    }
}

/// The difference of order `ORDER` at the last of `ORDER` + 1 values.
#[inline(always)]
fn difference<T: Word, const ORDER: usize>(values: &[T]) -> T {
    let mut levels = Levels::<T, ORDER>::constant(values[0]);
    values[1..].iter().fold(T::default(), |_, value| levels.push(*value))
}

/// Writes the node and its child.
///
/// So that no tile begins with an outlier, its first `ORDER` stored differences are copies of the
/// next one. The start values of the tile are chosen so that decoding still gives the values.
fn write<T: Word, const ORDER: usize>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: Mode,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let mut starts = Vec::with_capacity(node.counts.tiles() * ORDER * T::BYTES);
    let mut stored = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let repeated = tile.get(..=ORDER).map_or(T::default(), difference::<T, ORDER>);
        let first = &tile[..tile.len().min(ORDER)];
        let mut start = Levels::<T, ORDER>::constant(first.first().copied().unwrap_or_default());
        for value in first.iter().skip(1) {
            start.push(*value);
        }
        for _ in 0..ORDER {
            start.retreat(repeated);
        }
        start.0.iter().for_each(|level| level.write(&mut starts));
        stored.extend(first.iter().map(|_| mode.store(repeated)));
        let differences = tile.windows(ORDER + 1).map(difference::<T, ORDER>);
        stored.extend(differences.map(|difference| mode.store(difference)));
    }
    let encoding = if ORDER == 1 { Encoding::Delta } else { Encoding::Delta2 };
    writer.node(encoding, &node, vec![starts], mode.code(), 0);
    writer.subtree(child, node.child(T::UNSIGNED, &stored))
}

/// Decoder of both nodes: `ORDER` prefix sums over the tile, modulo 2^W.
pub(crate) struct Differences<'a, T, const ORDER: usize> {
    /// The levels before each tile.
    starts: Section<'a>,
    mode: Mode,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word, const ORDER: usize> Differences<'a, T, ORDER> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u32.into()).expect("modes are checked");
        Ok(Self { starts: node.sections[0], mode, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        self.mode.unstore(out);
        let level = |order| self.starts.value(ORDER * context.tile + order);
        let mut levels = Levels::<T, ORDER>(std::array::from_fn(level));
        for stored in out {
            *stored = levels.advance(*stored);
        }
        Ok(())
    }
}
