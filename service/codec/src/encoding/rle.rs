//! Encoding `rle`: runs of equal values that do not cross
//! tiles (FORMAT.md, section 6.9).

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tile::{TILE_VALUES, TileCounts};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree, check_sum};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_type::ValueType;
use crate::word::Word;

/// Number of values of a run that are written with one store.
const RUN_SHORT: usize = 8;

/// Rules of every `rle` node. The children are the values of the runs and their lengths minus 1.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::SAME.sparse(), ChildSpec::U16.sparse()],
    sections: &[SectionSpec::Counts],
    ..NodeSpec::LEAF
};

/// Writes the node and its children.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    values: &Tree,
    lengths: &Tree,
) -> Result<(), NotApplicable> {
    let (mut run_values, mut run_lengths) = (Vec::new(), Vec::<u16>::new());
    let mut runs = Vec::with_capacity(node.counts.tiles());
    for tile in node.tiles() {
        let start = run_values.len();
        for run in tile.chunk_by(|before, after| before == after) {
            run_values.push(run[0]);
            run_lengths.push((run.len() - 1) as u16);
        }
        runs.push((run_values.len() - start) as u16);
    }
    let counts = TileCounts::Sparse(runs);
    writer.node(Encoding::Rle, &node, vec![counts.section()], 0, 0);
    let value_type = node.value_type;
    writer.subtree(values, NodeValues { value_type, values: &run_values, counts: &counts })?;
    let value_type = ValueType::U16;
    writer.subtree(lengths, NodeValues { value_type, values: &run_lengths, counts: &counts })
}

/// Decoder of an `rle` node.
pub(crate) struct Rle<'a, T> {
    runs: Section<'a>,
    values: Box<TileTree<'a, T>>,
    lengths: Box<TileTree<'a, u16>>,
}

impl<'a, T: Word> Rle<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let runs = node.sections[0];
        check_sum(&runs, reader.peek())?;
        let values = TileTree::open_boxed(reader)?;
        check_sum(&runs, reader.peek())?;
        Ok(Self { runs, values, lengths: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        let tile = context.tile;
        let runs = usize::from(self.runs.value::<u16>(tile));
        if runs > out.len() || (runs == 0 && !out.is_empty()) {
            let problem = format!("tile {tile} has {runs} runs of {} values", out.len());
            return self.runs.fault(2 * tile, problem);
        }
        let mut values = [T::default(); TILE_VALUES];
        self.values.tile(context, &mut values[..runs])?;
        let mut lengths = [0_u16; TILE_VALUES];
        self.lengths.tile(context, &mut lengths[..runs])?;
        // The lengths are checked before a run is written.
        let sum: u32 = lengths[..runs].iter().map(|less| u32::from(*less) + 1).sum();
        if sum as usize != out.len() {
            let problem = format!("tile {tile} has runs of {sum} values, expected {}", out.len());
            return self.runs.fault(2 * tile, problem);
        }
        let mut rest = out;
        for (value, less) in values[..runs].iter().zip(&lengths) {
            let length = usize::from(*less) + 1;
            write_run(*value, length, rest);
            rest = &mut rest[length..];
        }
        Ok(())
    }
}

/// Writes a run of `length` to the start of `rest`; may overwrite values after it. Most runs are
/// short, and a store of fixed length avoids mispredicted branches.
#[inline(always)]
fn write_run<T: Word>(value: T, length: usize, rest: &mut [T]) {
    let Some(short) = rest.first_chunk_mut::<RUN_SHORT>() else {
        return rest[..length].fill(value);
    };
    *short = [value; RUN_SHORT];
    if length > RUN_SHORT {
        rest[RUN_SHORT..length].fill(value);
    }
}
