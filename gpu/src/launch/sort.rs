//! Launches that sort the matches of queries; part of stage query.
//!
//! The kernels of a cycle depend on the lengths of its answers.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, SORT_TILE};

use super::argument_layout::{AnswerListsArgument, MatchesArgument};
use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, WARP, enqueue};

/// Threads of a block of these kernels; their launches are never narrow.
const SORT_THREADS: u64 = BLOCK_THREADS as u64;

impl Kernels {
    /// Sorts the matches of every query by id. `lengths` are those of the lists. `found` is
    /// overwritten.
    pub(crate) fn sort(
        &self,
        stream: &CudaStream,
        bounds: &DeviceBuffer<u64>,
        queries: u32,
        lengths: &Lengths,
        lists: &AnswerListsArgument,
        found: &MatchesArgument,
        sorted: &MatchesArgument,
    ) -> Result<(), EngineError> {
        assert!(bounds.len() > queries as usize, "a bound a query and one more");
        let (from, to) = (*found, *sorted);
        let threads = u64::from(queries) * WARP;
        enqueue!(self.sort_short, stream, threads; bounds, queries, from, to)?;
        let threads = u64::from(lengths.medium_queries) * WARP;
        enqueue!(self.sort_medium, stream, threads; bounds, lists, from, to)?;
        self.sort_long_lists(stream, bounds, queries, lengths, lists, found, sorted)
    }

    /// As `sort`, but only for the queries in the list of long answers.
    pub(crate) fn sort_long_lists(
        &self,
        stream: &CudaStream,
        bounds: &DeviceBuffer<u64>,
        queries: u32,
        lengths: &Lengths,
        lists: &AnswerListsArgument,
        found: &MatchesArgument,
        sorted: &MatchesArgument,
    ) -> Result<(), EngineError> {
        assert!(bounds.len() > queries as usize, "a bound a query and one more");
        let Lengths { longest, long_queries: long, longer_queries: longer, .. } = *lengths;
        assert!(long + longer <= queries, "a query is in one list");
        let (from, to) = (*found, *sorted);
        let listed = lists.long_queries();
        enqueue!(self.sort_long, stream, u64::from(long) * SORT_THREADS; bounds, listed, long, from,
            to)?;
        if longer == 0 {
            return Ok(());
        }
        // Queries with longer answers are at the back of the list.
        let listed = listed + u64::from(queries - longer) * size_of::<u32>() as u64;
        let tiles = longest.div_ceil(u64::from(SORT_TILE));
        let threads = u64::from(longer) * tiles * SORT_THREADS;
        let merges = tiles.next_power_of_two().trailing_zeros();
        // Every merge swaps the buffers; the last one ends in `sorted`.
        let side = |merges_left: u32| if merges_left.is_multiple_of(2) { to } else { from };
        let into = side(merges);
        let tiles = tiles as u32;
        enqueue!(self.sort_tiles, stream, threads; bounds, listed, tiles, longer, from, into)?;
        for merge in 0..merges {
            let run = u64::from(SORT_TILE) << merge;
            let (from, to) = (side(merges - merge), side(merges - merge - 1));
            enqueue!(self.sort_merge, stream, threads; bounds, listed, tiles, longer, run, from,
                to)?;
        }
        Ok(())
    }
}
