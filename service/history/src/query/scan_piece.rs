//! Pieces of a scan: tiles of one run, with the newer runs of its partition.
//!
//! A scan is cut between blocks, so that no block is read twice.

use std::ops::Range;
use std::sync::Arc;

use crate::limits::BLOCK_TILES;
use crate::run::RunFile;
use crate::version::Runs;

/// Some tiles of a run that form whole blocks.
#[derive(Clone, Debug)]
pub(super) struct ScanPiece {
    runs: Runs,
    run: usize,
    pub(super) tiles: Range<usize>,
}

impl ScanPiece {
    /// One piece for each whole run of a partition, oldest run first.
    pub(super) fn of_partition(runs: &Runs) -> impl Iterator<Item = Self> {
        let whole =
            |run: usize| Self { runs: runs.clone(), run, tiles: 0..runs[run].entry.tiles() };
        (0..runs.len()).map(whole)
    }

    /// The run.
    pub(super) fn file(&self) -> &Arc<RunFile> {
        &self.runs[self.run]
    }

    /// The newer runs of its partition, which may replace its rows, oldest first.
    pub(super) fn newer(&self) -> impl Iterator<Item = &Arc<RunFile>> {
        self.runs[self.run + 1..].iter()
    }

    pub(super) fn blocks(&self) -> usize {
        self.tiles.len().div_ceil(BLOCK_TILES)
    }

    /// Splits off the first blocks, at most `blocks`.
    fn take_blocks(&mut self, blocks: usize) -> Self {
        let end = (self.tiles.start + blocks * BLOCK_TILES).min(self.tiles.end);
        let taken = Self { runs: self.runs.clone(), run: self.run, tiles: self.tiles.start..end };
        self.tiles.start = end;
        taken
    }
}

/// Cuts pieces into `parts` lists with nearly equal numbers of blocks. In `pieces` and in each list
/// the first piece is last.
pub(super) fn cut(pieces: &[ScanPiece], parts: usize) -> Vec<Vec<ScanPiece>> {
    let total: usize = pieces.iter().map(ScanPiece::blocks).sum();
    let mut rest = pieces.to_vec();
    let part = |number: usize| {
        let mut wanted = total * (number + 1) / parts - total * number / parts;
        let mut taken = Vec::new();
        while wanted > 0 {
            let piece = rest.last_mut().expect("blocks are counted");
            let first = piece.take_blocks(wanted);
            if piece.tiles.is_empty() {
                rest.pop();
            }
            wanted -= first.blocks();
            taken.push(first);
        }
        taken.reverse();
        taken
    };
    assert!(parts > 0, "a scan has a part");
    (0..parts).map(part).collect()
}
