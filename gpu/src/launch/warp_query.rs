//! Launches of warp queries; part of stage query.
//!
//! One safe function per kernel. The caller reads the counts back before it launches a kernel that
//! writes matches, as with the items of `query.rs`.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, WARP_QUERY_MATCHES};

use super::argument_layout::{QueriesArgument, ViewArgument};
use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, WARP, enqueue};
use super::parameters::QueryRanges;

/// The queries of a cycle: the input and its ranges.
type BatchInput<'a> = (&'a DeviceBuffer<u8>, &'a QueryRanges);

impl Kernels {
    /// Counts the matches of every query, stores those of short answers and lists the other
    /// queries.
    pub(crate) fn warp_query_count(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): BatchInput<'_>,
        counts: &DeviceBuffer<u32>,
        kept: &DeviceBuffer<u64>,
        lengths: &DeviceBuffer<Lengths>,
        long_queries: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        assert!(counts.len() > at.queries, "a count a query and one more");
        assert!(
            kept.len() >= WARP_QUERY_MATCHES as usize * at.queries,
            "capacity for some matches a query"
        );
        assert!(long_queries.len() >= at.queries, "all queries may be long");
        let batch = QueriesArgument::whole(input, at);
        let (parts, queries) = (at.parts.length as u32, at.queries as u32);
        enqueue!(self.warp_query_count, stream, (u64::from(queries) + 1) * WARP; view, batch,
            parts, queries, counts, kept, lengths, long_queries)
    }

    /// Writes the stored matches of `queries` queries; `matches` counts all matches.
    pub(crate) fn warp_query_write(
        &self,
        stream: &CudaStream,
        (bounds, queries): (&DeviceBuffer<u64>, usize),
        kept: &DeviceBuffer<u64>,
        (objects, matches): (&DeviceBuffer<u64>, usize),
    ) -> Result<(), EngineError> {
        assert!(bounds.len() > queries, "a bound a query and one more");
        assert!(kept.len() >= WARP_QUERY_MATCHES as usize * queries, "the matches that were kept");
        assert!(objects.len() >= matches, "capacity for every match");
        let queries = queries as u32;
        let threads = u64::from(queries) * u64::from(WARP_QUERY_MATCHES / 2);
        enqueue!(self.warp_query_write, stream, threads; bounds, queries, kept, objects)
    }

    /// Writes the matches of the listed queries, in no particular order.
    pub(crate) fn warp_query_write_many(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        (input, at): BatchInput<'_>,
        bounds: &DeviceBuffer<u64>,
        (lengths, long_queries): (&Lengths, &DeviceBuffer<u32>),
        (objects, slots, matches): (&DeviceBuffer<u64>, &DeviceBuffer<u32>, usize),
    ) -> Result<(), EngineError> {
        let Lengths { long_queries: long, longer_queries: longer, .. } = *lengths;
        assert!(bounds.len() > at.queries, "a bound a query and one more");
        assert!(long_queries.len() >= at.queries, "all queries may be long");
        assert!(objects.len().min(slots.len()) >= matches, "capacity for every match");
        assert!((long + longer) as usize <= at.queries, "a query is in one list");
        let batch = QueriesArgument::whole(input, at);
        let parts = at.parts.length as u32;
        // Long answers are listed from the front, longer ones from the back.
        let back = (at.queries - longer as usize) * size_of::<u32>();
        for (first, length) in [(0, long), (back as u64, longer)] {
            let listed = long_queries.address() + first;
            // A narrow launch has smaller blocks, so it has more blocks than queries.
            let threads = u64::from(length) * u64::from(BLOCK_THREADS);
            enqueue!(self.warp_query_write_many, stream, threads; view, batch, parts, bounds,
                listed, length, objects, slots)?;
        }
        Ok(())
    }
}
