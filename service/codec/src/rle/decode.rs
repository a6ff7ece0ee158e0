//! How do runs become values?
//!
//! Lengths must add up to the tile's values, which is checked before a run is written.

use crate::section::{Fault, Section};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree, check_sum};
use crate::word::Word;

/// Values of a run that are written at once.
const RUN_SHORT: usize = 8;

/// An rle node.
pub(crate) struct Rle<'a, T> {
    runs: Section<'a>,
    values: Box<TileTree<'a, T>>,
    lengths: Box<TileTree<'a, u16>>,
}

impl<'a, T: Word> Rle<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
        let sum: u32 = lengths[..runs].iter().map(|less| u32::from(*less) + 1).sum();
        if sum as usize != out.len() {
            let problem = format!("tile {tile} has runs of {sum} values, {} are due", out.len());
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

/// Writes a run of `length` to the start of `rest`, and perhaps over some values behind it: most
/// runs are short, and what is written without a look at their length mispredicts no branch.
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
