//! Launches of warp queries; part of stage query.
//!
//! The caller reads the counts back before it launches `warp_query_write_many`; `warp_query_write`
//! checks on the device that all matches have room.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Lengths, WARP_QUERY_MATCHES};

use super::argument_layout::{AnswerListsArgument, QueriesArgument, ViewArgument};
use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, WARP, enqueue};
use super::parameters::QueryInput;

/// Most warps that write medium answers; as many as are resident on a large device.
const MEDIUM_WARPS: u32 = 1 << 13;

impl Kernels {
    /// Counts the matches of every query, stores those of short and, in `kept_slots`, of medium
    /// answers, and lists the other queries.
    pub(crate) fn warp_query_count(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        input: QueryInput<'_>,
        counts: &DeviceBuffer<u32>,
        kept: &DeviceBuffer<u64>,
        kept_slots: &DeviceBuffer<u32>,
        lists: &AnswerListsArgument,
    ) -> Result<(), EngineError> {
        let ranges = input.ranges;
        assert!(counts.len() > ranges.queries, "a count a query and one more");
        assert!(
            kept.len() >= WARP_QUERY_MATCHES as usize * ranges.queries,
            "capacity for some matches a query"
        );
        let batch = QueriesArgument::whole(input);
        let length = u32::try_from(kept_slots.len()).unwrap_or(u32::MAX);
        let (parts, queries) = (ranges.parts.length as u32, ranges.queries as u32);
        enqueue!(self.warp_query_count, stream, (u64::from(queries) + 1) * WARP; view, batch,
            parts, queries, counts, kept, kept_slots, length, lists)
    }

    /// Writes the matches that [`Kernels::warp_query_count`] stored in `kept`, `kept_slots` and
    /// `lists`, sorted, unless `objects` is too short for all matches. The host need not know the
    /// counts.
    pub(crate) fn warp_query_write(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        bounds: &DeviceBuffer<u64>,
        queries: usize,
        kept: &DeviceBuffer<u64>,
        kept_slots: &DeviceBuffer<u32>,
        lists: &AnswerListsArgument,
        objects: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        assert!(bounds.len() > queries, "a bound a query and one more");
        assert!(kept.len() >= WARP_QUERY_MATCHES as usize * queries, "the matches that were kept");
        let ((records, _), queries, room) = (view.records(), queries as u32, objects.len() as u64);
        let threads = u64::from(queries) * u64::from(WARP_QUERY_MATCHES / 2);
        enqueue!(self.warp_query_write, stream, threads; bounds, queries, kept, objects, room)?;
        let threads = u64::from(queries.min(MEDIUM_WARPS)) * WARP;
        enqueue!(self.warp_query_write_medium, stream, threads; records, bounds, queries, kept,
            kept_slots, lists, objects, room)
    }

    /// Writes the matches of the listed queries, in no particular order.
    pub(crate) fn warp_query_write_many(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        input: QueryInput<'_>,
        bounds: &DeviceBuffer<u64>,
        lengths: &Lengths,
        lists: &AnswerListsArgument,
        objects: &DeviceBuffer<u64>,
        slots: &DeviceBuffer<u32>,
        matches: usize,
    ) -> Result<(), EngineError> {
        let ranges = input.ranges;
        let Lengths { long_queries: long, longer_queries: longer, .. } = *lengths;
        assert!(bounds.len() > ranges.queries, "a bound a query and one more");
        assert!(objects.len().min(slots.len()) >= matches, "capacity for every match");
        assert!((long + longer) as usize <= ranges.queries, "a query is in one list");
        let batch = QueriesArgument::whole(input);
        let parts = ranges.parts.length as u32;
        // Long answers are listed from the front, longer ones from the back.
        let back = (ranges.queries - longer as usize) * size_of::<u32>();
        for (first, length) in [(0, long), (back as u64, longer)] {
            let listed = lists.long_queries() + first;
            // A narrow launch has smaller blocks, so it has more blocks than queries.
            let threads = u64::from(length) * u64::from(BLOCK_THREADS);
            enqueue!(self.warp_query_write_many, stream, threads; view, batch, parts, bounds,
                listed, length, objects, slots)?;
        }
        Ok(())
    }
}
