//! How do runs become values?
//!
//! Lengths must add up to the tile's values, which is checked before a run is written.

use crate::section::{Fault, Section};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree, check_sum};
use crate::word::Word;

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
        let sum: usize = lengths[..runs].iter().map(|less| usize::from(*less) + 1).sum();
        if sum != out.len() {
            let problem = format!("tile {tile} has runs of {sum} values, {} are due", out.len());
            return self.runs.fault(2 * tile, problem);
        }
        let mut rest = out;
        for (value, less) in values[..runs].iter().zip(lengths) {
            let run;
            (run, rest) = rest.split_at_mut(usize::from(less) + 1);
            run.fill(*value);
        }
        Ok(())
    }
}
