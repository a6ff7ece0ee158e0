//! Launches of stage query.
//!
//! One safe function per kernel, or per sequence of kernels that always run together.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{AnswerRecord, CANDIDATE_ROW_MATCHES, CandidateRow, Part};

use super::argument_layout::{AnswerListsArgument, IndexArgument, QueriesArgument, ViewArgument};
use super::memory::DeviceBuffer;
use super::module::{Kernels, WARP, enqueue};
use super::parameters::{ByteRange, QueryInput};

impl Kernels {
    /// Writes the number of rows of cells of each part, and 0 after the last.
    pub(crate) fn query_rows(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        input: QueryInput<'_>,
        rows: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let (grid, listed) = (view.grid(), input.ranges.parts);
        assert!(rows.len() > listed.length, "a number a part and one more");
        let (parts, length) = (listed.address::<Part>(input.bytes), listed.length as u32);
        enqueue!(self.query_rows, stream, u64::from(length) + 1; grid, parts, length, rows)
    }

    /// Lists the candidate rows of each part: its rows of cells.
    pub(crate) fn query_candidate_rows(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        input: QueryInput<'_>,
        first_rows: &DeviceBuffer<u32>,
        candidate_rows: &DeviceBuffer<CandidateRow>,
    ) -> Result<(), EngineError> {
        let (grid, listed) = (view.grid(), input.ranges.parts);
        assert!(first_rows.len() > listed.length, "a number a part and one more");
        let (parts, length) = (listed.address::<Part>(input.bytes), listed.length as u32);
        enqueue!(self.query_candidate_rows, stream, u64::from(length) * WARP; grid, parts, length,
            first_rows, candidate_rows)
    }

    /// Adds the work of every part to that of its query. `objects` bounds the candidates of a part.
    pub(crate) fn query_work(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        input: QueryInput<'_>,
        objects: u64,
        work: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        assert!(work.len() >= input.ranges.queries, "a number a query");
        let (batch, length) = (QueriesArgument::whole(input), input.ranges.parts.length as u32);
        enqueue!(self.query_work, stream, u64::from(length) * WARP; view, batch, length, objects,
            work)
    }

    /// Counts the matches of every candidate row.
    pub(crate) fn query_count(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        batch: &QueriesArgument,
        counts: &DeviceBuffer<u32>,
        totals: &DeviceBuffer<u64>,
        kept: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let length = batch.length();
        assert!(counts.len() >= length as usize, "a count a candidate row");
        assert!(
            kept.len() >= CANDIDATE_ROW_MATCHES as usize * length as usize,
            "capacity for some matches a candidate row"
        );
        enqueue!(self.query_count, stream, u64::from(length) * WARP; view, batch, counts,
            totals, kept)
    }

    /// Adds the matches of rectangles that are only counted, which [`Kernels::query_count`] leaves
    /// out, to the totals of `queries` queries.
    pub(crate) fn query_count_rectangles(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        batch: &QueriesArgument,
        queries: usize,
        totals: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        assert!(totals.len() >= queries, "a total a query");
        let threads = u64::from(batch.length()) * WARP;
        enqueue!(self.query_count_rectangles, stream, threads; view, batch, totals)
    }

    /// Sets the count of a candidate row to 0 if its query has a total in `withheld`, which has one
    /// number for each of `queries` queries.
    pub(crate) fn query_withhold(
        &self,
        stream: &CudaStream,
        batch: &QueriesArgument,
        queries: usize,
        withheld: &DeviceBuffer<u64>,
        counts: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let length = batch.length();
        assert!(withheld.len() >= queries, "a total a query");
        assert!(counts.len() >= length as usize, "a count a candidate row");
        enqueue!(self.query_withhold, stream, length; batch, withheld, counts)
    }

    /// Writes the place of the first match of every query, then the number of all matches; lists
    /// the medium and long answers.
    pub(crate) fn query_bounds(
        &self,
        stream: &CudaStream,
        input: QueryInput<'_>,
        first_rows: &DeviceBuffer<u32>,
        offsets: &DeviceBuffer<u64>,
        bounds: &DeviceBuffer<u64>,
        lists: &AnswerListsArgument,
    ) -> Result<(), EngineError> {
        let (listed, queries) = (input.ranges.parts, input.ranges.queries as u32);
        assert!(bounds.len() > queries as usize, "a bound a query and one more");
        assert!(first_rows.len() > listed.length, "every part has a first candidate row");
        let (parts, length) = (listed.address::<Part>(input.bytes), listed.length as u32);
        enqueue!(self.query_bounds, stream, u64::from(queries) + 1; parts, length, queries,
            first_rows, offsets, bounds, lists)
    }

    /// Writes the matches of the candidate rows from number `first` on; the lists have capacity for
    /// `matches`.
    pub(crate) fn query_write(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        batch: &QueriesArgument,
        offsets: &DeviceBuffer<u64>,
        kept: &DeviceBuffer<u32>,
        first: u32,
        matches: usize,
        objects: &DeviceBuffer<u64>,
        slots: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let length = batch.length();
        assert!(offsets.len() > length as usize, "an offset a candidate row and one more");
        assert!(objects.len().min(slots.len()) >= matches, "capacity for every match");
        assert!(
            kept.len() >= CANDIDATE_ROW_MATCHES as usize * length as usize,
            "the matches that were kept"
        );
        let (records, _) = view.records();
        let rows = u64::from(length - first);
        let threads = rows * u64::from(CANDIDATE_ROW_MATCHES);
        enqueue!(self.query_write, stream, threads; records, length, offsets, first, kept, objects,
            slots)?;
        let threads = rows * WARP;
        enqueue!(self.query_write_many, stream, threads; view, batch, offsets, first, objects,
            slots)
    }

    /// Writes the records of the first `length` slots of a list.
    pub(crate) fn query_fixes(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        slots: &DeviceBuffer<u32>,
        length: u32,
        fixes: &DeviceBuffer<AnswerRecord>,
    ) -> Result<(), EngineError> {
        assert!(slots.len().min(fixes.len()) >= length as usize, "a record a slot");
        let (records, epoch) = view.records();
        enqueue!(self.query_fixes, stream, length; records, epoch, slots, length, fixes)
    }

    /// Writes the records of a list of ids.
    pub(crate) fn query_get(
        &self,
        stream: &CudaStream,
        view: &ViewArgument,
        index: &IndexArgument,
        input: &DeviceBuffer<u8>,
        ids: ByteRange,
        fixes: &DeviceBuffer<AnswerRecord>,
    ) -> Result<(), EngineError> {
        assert!(fixes.len() >= ids.length, "a record an id");
        let (records, epoch) = view.records();
        let (objects, length) = (ids.address::<u64>(input), ids.length as u32);
        enqueue!(self.query_get, stream, length; records, index, epoch, objects, length, fixes)
    }
}
