//! Encodings `keyed_delta` and `keyed_delta2`: differences of order 1 and 2 along each key
//! (FORMAT.md, sections 6.14 and 6.15).
//!
//! In grouped order, values restart at every head. The keys determine the heads; the number of
//! heads that the section states for a tile must match.

use crate::encoding::Encoding;
use crate::encoding::delta::Levels;
use crate::grouping::Heads;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tile::{TILE_VALUES, TileCounts};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree, check_sum};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Rules of every `keyed_delta` and `keyed_delta2` node: children are residuals and heads.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::UNSIGNED, ChildSpec::SAME.sparse()],
    sections: &[SectionSpec::Counts],
    parameter_u32: ParameterSpec::KeyColumn,
    parameter_u64: ParameterSpec::Mode,
    ..NodeSpec::LEAF
};

/// Writes the node and its children.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: &Mode,
    residuals: &Tree,
    heads: &Tree,
) -> Result<(), NotApplicable> {
    write::<T, 1>(writer, node, *mode, [residuals, heads])
}

/// Decoder of a `keyed_delta` node.
pub(crate) type KeyedDelta<'a, T> = Keyed<'a, T, 1>;

/// `keyed_delta2` in the table of encodings.
pub(crate) mod second_order {
    use super::*;

    /// Rules of every `keyed_delta2` node.
    pub(crate) const SPEC: NodeSpec = super::SPEC;

    /// Writes the node and its children.
    pub(crate) fn encode<T: Word>(
        writer: &mut TreeWriter<'_>,
        node: NodeValues<'_, T>,
        mode: &Mode,
        residuals: &Tree,
        heads: &Tree,
    ) -> Result<(), NotApplicable> {
        write::<T, 2>(writer, node, *mode, [residuals, heads])
    }

    /// Decoder of a `keyed_delta2` node.
    pub(crate) type KeyedDelta2<'a, T> = Keyed<'a, T, 2>;
}

/// Writes the node and its children. The residual at a head is 0; the others are the differences
/// of a run that is constant up to its head.
fn write<T: Word, const ORDER: usize>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: Mode,
    [residuals, heads]: [&Tree; 2],
) -> Result<(), NotApplicable> {
    if matches!(node.counts, TileCounts::Sparse(_)) {
        return NotApplicable::because("keyed nodes give a value for every row");
    }
    let mut residual_values = Vec::with_capacity(node.values.len());
    let (mut head_values, mut counts) = (Vec::new(), Vec::new());
    for (number, tile) in node.tiles().enumerate() {
        let starts = writer.heads().starts(number, tile.len());
        for index in 0..starts.len() {
            let run = &tile[starts.start(index)..starts.start(index + 1)];
            head_values.push(run[0]);
            residual_values.push(T::default());
            let mut levels = Levels::<T, ORDER>::constant(run[0]);
            let others = run[1..].iter().map(|value| mode.store(levels.push(*value)));
            residual_values.extend(others);
        }
        counts.push(starts.len() as u16);
    }
    let counts = TileCounts::Sparse(counts);
    let encoding = if ORDER == 1 { Encoding::KeyedDelta } else { Encoding::KeyedDelta2 };
    writer.keyed_node(encoding, &node, vec![counts.section()], mode.code().into());
    writer.subtree(residuals, node.child(T::UNSIGNED, &residual_values))?;
    let value_type = node.value_type;
    writer.subtree(heads, NodeValues { value_type, values: &head_values, counts: &counts })
}

/// Decoder of both nodes: `ORDER` prefix sums over the tile, which restart at every head.
pub(crate) struct Keyed<'a, T, const ORDER: usize> {
    counts: Section<'a>,
    mode: Mode,
    residuals: Box<TileTree<'a, T>>,
    heads: Box<TileTree<'a, T>>,
}

impl<'a, T: Word, const ORDER: usize> Keyed<'a, T, ORDER> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u64).expect("modes are checked");
        let counts = node.sections[0];
        let residuals = TileTree::open_boxed(reader)?;
        check_sum(&counts, reader.peek())?;
        Ok(Self { counts, mode, residuals, heads: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        let tile = context.tile;
        let heads: &Heads = context.heads.expect("keyed trees are decoded with their keys");
        let starts = heads.starts(tile, out.len());
        let stated = usize::from(self.counts.value::<u16>(tile));
        if stated != starts.len() {
            let found = starts.len();
            let problem = format!("tile {tile} has {stated} heads, its keys make {found}");
            return self.counts.fault(2 * tile, problem);
        }
        self.residuals.tile(context, out)?;
        self.mode.unstore(out);
        let mut values = [T::default(); TILE_VALUES];
        let values = &mut values[..stated];
        self.heads.tile(context, values)?;
        let mut rest = out;
        for (index, head) in values.iter().enumerate() {
            let length = starts.start(index + 1) - starts.start(index);
            let run;
            (run, rest) = rest.split_at_mut(length);
            let (first, others) = run.split_first_mut().expect("a run has its head");
            *first = *head;
            let mut levels = Levels::<T, ORDER>::constant(*head);
            for place in others {
                *place = levels.advance(*place);
            }
        }
        Ok(())
    }
}
