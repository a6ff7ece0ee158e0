//! Stage query on the device: from parts to sorted ids.
//!
//! Three steps, with a count read back after each of the first two: cut parts into candidate rows,
//! count matches, write and sort. Cycles with ids alone and short answers are not cut (`warp.rs`).
//! The host waits for counts only; ids are copied on request.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::EngineError;
use shoal_engine::layout::{AnswerRecord, CANDIDATE_ROW_MATCHES, CandidateRow, Lengths, Shape};

use crate::launch::{
    AnswerListsArgument, ByteRange, CopyTarget, DeviceBuffer, Kernels, MatchesArgument, Memory,
    PinnedBuffer, QueriesArgument, QueryInput, Scratch, ViewArgument, fault,
};
use crate::stages::query::nearest::{Neighbours, Ranking};

/// Lists of the stage; they grow, never shrink.
#[derive(Debug)]
pub(crate) struct QueryBatch {
    memory: Memory,
    pub(crate) kernels: Arc<Kernels>,
    pub(crate) stream: Arc<CudaStream>,
    pub(crate) scratch: Scratch,
    pub(crate) rows: DeviceBuffer<u32>,
    /// By part: its first candidate row.
    first_rows: DeviceBuffer<u32>,
    candidate_rows: DeviceBuffer<CandidateRow>,
    pub(crate) counts: DeviceBuffer<u32>,
    offsets: DeviceBuffer<u64>,
    pub(crate) totals: DeviceBuffer<u64>,
    /// By query: the total of an answer whose rows are withheld, else 0.
    withheld: DeviceBuffer<u64>,
    /// By query; see `work.rs`.
    pub(crate) work: DeviceBuffer<u64>,
    /// Slots of matches: of each candidate row or, after warp queries, of medium answers.
    pub(super) kept: DeviceBuffer<u32>,
    /// The ids that warp queries stored.
    pub(crate) kept_objects: DeviceBuffer<u64>,
    pub(crate) bounds: DeviceBuffer<u64>,
    pub(crate) objects: DeviceBuffer<u64>,
    pub(crate) slots: DeviceBuffer<u32>,
    fixes: DeviceBuffer<AnswerRecord>,
    pub(super) lists: AnswerLists,
    candidate_row_count: PinnedBuffer<u32>,
    pub(crate) lengths_host: PinnedBuffer<Lengths>,
    /// The lengths that were counted last, if answers were withheld since.
    pub(crate) lengths_counted: Option<Lengths>,
    rows_used: u32,
    /// Number of queries whose answers were counted last.
    pub(crate) queries_counted: usize,
    ranking: Box<Ranking>,
}

/// The queries with more matches than a warp sorts while it finds them.
#[derive(Debug)]
pub(super) struct AnswerLists {
    pub(super) lengths: DeviceBuffer<Lengths>,
    medium_queries: DeviceBuffer<u32>,
    long_queries: DeviceBuffer<u32>,
}

impl AnswerLists {
    fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            lengths: DeviceBuffer::new(memory, 1)?,
            medium_queries: DeviceBuffer::new(memory, 1)?,
            long_queries: DeviceBuffer::new(memory, 1)?,
        })
    }

    /// Grows to the lists of `queries` queries.
    pub(super) fn fit(&mut self, queries: usize) -> Result<(), EngineError> {
        self.medium_queries.fit(queries)?;
        self.long_queries.fit(queries).map(drop)
    }

    /// Empties the lists.
    pub(super) fn clear(&self, stream: &CudaStream) -> Result<(), EngineError> {
        self.lengths.fill(stream, 0, 1)
    }

    pub(super) fn argument(&self, queries: usize) -> AnswerListsArgument {
        let Self { lengths, medium_queries, long_queries } = self;
        AnswerListsArgument::new(queries, lengths, medium_queries, long_queries)
    }
}

/// Sorted ids on the device, with their slots.
#[derive(Debug)]
pub(crate) struct Sorted {
    pub(crate) objects: DeviceBuffer<u64>,
    /// Valid only for long answers after warp queries.
    pub(crate) slots: DeviceBuffer<u32>,
}

impl Sorted {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self { objects: DeviceBuffer::new(memory, 1)?, slots: DeviceBuffer::new(memory, 1)? })
    }

    /// As [`QueryBatch::shrink`].
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        self.objects.shrink()?;
        self.slots.shrink()
    }
}

impl QueryBatch {
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        stream: Arc<CudaStream>,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            ranking: Box::new(Ranking::new(memory)?),
            memory: memory.clone(),
            kernels: kernels.clone(),
            stream,
            scratch: Scratch::new(memory)?,
            rows: DeviceBuffer::new(memory, 1)?,
            first_rows: DeviceBuffer::new(memory, 1)?,
            candidate_rows: DeviceBuffer::new(memory, 1)?,
            counts: DeviceBuffer::new(memory, 1)?,
            offsets: DeviceBuffer::new(memory, 1)?,
            totals: DeviceBuffer::new(memory, 1)?,
            withheld: DeviceBuffer::new(memory, 1)?,
            work: DeviceBuffer::new(memory, 1)?,
            kept: DeviceBuffer::new(memory, 1)?,
            kept_objects: DeviceBuffer::new(memory, 1)?,
            bounds: DeviceBuffer::new(memory, 1)?,
            objects: DeviceBuffer::new(memory, 1)?,
            slots: DeviceBuffer::new(memory, 1)?,
            fixes: DeviceBuffer::new(memory, 1)?,
            lists: AnswerLists::new(memory)?,
            candidate_row_count: PinnedBuffer::new(memory, 1)?,
            lengths_host: PinnedBuffer::new(memory, 1)?,
            lengths_counted: None,
            rows_used: 0,
            queries_counted: 0,
        })
    }

    /// Counts the rows of cells of every part. [`QueryBatch::count`] needs the number, which is
    /// valid after the event.
    pub(crate) fn cut(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
    ) -> Result<CudaEvent, EngineError> {
        let parts = input.ranges.parts.length;
        self.rows.fit(parts + 1)?;
        self.first_rows.fit(parts + 1)?;
        self.kernels.query_rows(&self.stream, view, input, &self.rows)?;
        let length = parts as u32 + 1;
        self.scratch.sum_before(&self.stream, &self.rows, &self.first_rows, length)?;
        self.first_rows.download(&self.stream, parts, self.candidate_row_count.first(1))?;
        self.stream.record_event(None).map_err(fault)
    }

    /// Counts the matches of every query. Writes their prefix sums to `bounds` and the totals of
    /// queries that only count to `totals`. Both are complete once the stream has reached this
    /// point.
    pub(crate) fn count<'a>(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        bounds: impl Into<CopyTarget<'a, u64>>,
        totals: Option<&mut [u64]>,
    ) -> Result<(), EngineError> {
        let rows = self.candidate_row_count.as_slice()[0];
        let queries = input.ranges.queries;
        self.rows_used = rows;
        self.queries_counted = queries;
        self.lengths_counted = None;
        self.candidate_rows.fit(rows as usize)?;
        self.counts.fit(rows as usize + 1)?;
        self.offsets.fit(rows as usize + 1)?;
        self.totals.fit(queries)?;
        self.kept.fit(CANDIDATE_ROW_MATCHES as usize * rows as usize)?;
        self.bounds.fit(queries + 1)?;
        self.lists.fit(queries)?;
        let stream = &self.stream;
        self.kernels.query_candidate_rows(
            stream,
            view,
            input,
            &self.first_rows,
            &self.candidate_rows,
        )?;
        self.counts.fill(stream, 0, rows as usize + 1)?;
        if totals.is_some() {
            self.totals.fill(stream, 0, queries)?;
        }
        let batch = self.argument(input, rows);
        self.kernels.query_count(stream, view, &batch, &self.counts, &self.totals, &self.kept)?;
        if totals.is_some() {
            self.kernels.query_count_rectangles(stream, view, &batch, queries, &self.totals)?;
        }
        self.sum_counts(input, bounds.into())?;
        match totals {
            Some(totals) => self.totals.download(&self.stream, 0, totals),
            None => Ok(()),
        }
    }

    /// Removes the matches of the queries that have a total in `withheld`. The counts must be
    /// complete; `bounds` is complete once the stream has reached this point.
    pub(crate) fn withhold(
        &mut self,
        input: QueryInput<'_>,
        withheld: &[u64],
        bounds: CopyTarget<'_, u64>,
    ) -> Result<(), EngineError> {
        self.lengths_counted = Some(self.lengths_host.as_slice()[0]);
        self.withheld.fit(withheld.len())?;
        self.withheld.upload(&self.stream, 0, withheld)?;
        self.kernels.query_withhold(
            &self.stream,
            &self.argument(input, self.rows_used),
            withheld.len(),
            &self.withheld,
            &self.counts,
        )?;
        self.sum_counts(input, bounds)
    }

    /// Computes the place of the first match of each candidate row and, in `bounds`, of each query;
    /// lists medium and long answers.
    fn sum_counts(
        &mut self,
        input: QueryInput<'_>,
        bounds: CopyTarget<'_, u64>,
    ) -> Result<(), EngineError> {
        let stream = &self.stream;
        let length = self.rows_used + 1;
        self.scratch.sum_before(stream, &self.counts, &self.offsets, length)?;
        self.lists.clear(stream)?;
        self.kernels.query_bounds(
            stream,
            input,
            &self.first_rows,
            &self.offsets,
            &self.bounds,
            &self.lists.argument(input.ranges.queries),
        )?;
        self.lists.lengths.download(stream, 0, self.lengths_host.first(1))?;
        self.bounds.download(stream, 0, bounds)
    }

    fn argument(&self, input: QueryInput<'_>, rows: u32) -> QueriesArgument {
        QueriesArgument::in_rows(input, &self.candidate_rows, rows)
    }

    /// Writes all `matches` and sorts the ids of each query. The counts must be complete.
    pub(crate) fn write(
        &mut self,
        view: &ViewArgument,
        input: QueryInput<'_>,
        matches: usize,
        sorted: &mut Sorted,
    ) -> Result<(), EngineError> {
        let queries = input.ranges.queries as u32;
        self.fit_matches(matches, sorted)?;
        let stream = &self.stream;
        let batch = self.argument(input, self.rows_used);
        self.kernels.query_write(
            stream,
            view,
            &batch,
            &self.offsets,
            &self.kept,
            0,
            matches,
            &self.objects,
            &self.slots,
        )?;
        self.kernels.sort(
            stream,
            &self.bounds,
            queries,
            &self.lengths_host.as_slice()[0],
            &self.lists.argument(input.ranges.queries),
            &MatchesArgument::new(&self.objects, &self.slots, matches),
            &MatchesArgument::new(&sorted.objects, &sorted.slots, matches),
        )
    }

    /// Grows the lists of ids and slots, before and after sorting, to `matches`.
    pub(super) fn fit_matches(
        &mut self,
        matches: usize,
        sorted: &mut Sorted,
    ) -> Result<(), EngineError> {
        self.objects.fit(matches)?;
        self.slots.fit(matches)?;
        sorted.objects.fit(matches)?;
        sorted.slots.fit(matches)?;
        Ok(())
    }

    /// The records of sorted matches; waits for them.
    pub(crate) fn fixes(
        &mut self,
        view: &ViewArgument,
        sorted: &Sorted,
        matches: usize,
    ) -> Result<Vec<AnswerRecord>, EngineError> {
        self.fixes.fit(matches)?;
        let length = matches as u32;
        self.kernels.query_fixes(&self.stream, view, &sorted.slots, length, &self.fixes)?;
        self.take_fixes(matches)
    }

    /// The first of each query's `matches` by rank; see [`Ranking::rank`]. Waits for them.
    pub(crate) fn rank(
        &mut self,
        view: &ViewArgument,
        sorted: &Sorted,
        bounds: &[u64],
        matches: usize,
        centres: &[Shape],
        ks: &[u64],
    ) -> Result<Neighbours, EngineError> {
        self.fixes.fit(matches)?;
        let (kernels, stream, fixes) = (&self.kernels, &self.stream, &self.fixes);
        kernels.query_fixes(stream, view, &sorted.slots, matches as u32, fixes)?;
        self.ranking.rank(kernels, stream, fixes, bounds, centres, ks)
    }

    /// The records of ids; waits for them.
    pub(crate) fn get(
        &mut self,
        view: &ViewArgument,
        index: &crate::launch::IndexArgument,
        input: &DeviceBuffer<u8>,
        ids: ByteRange,
    ) -> Result<Vec<AnswerRecord>, EngineError> {
        self.fixes.fit(ids.length)?;
        self.kernels.query_get(&self.stream, view, index, input, ids, &self.fixes)?;
        self.take_fixes(ids.length)
    }

    fn take_fixes(&self, length: usize) -> Result<Vec<AnswerRecord>, EngineError> {
        let mut rows = vec![AnswerRecord::default(); length];
        self.fixes.download(&self.stream, 0, &mut rows)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(rows)
    }

    /// Sorted ids; waits for them.
    pub(crate) fn take_objects(
        &self,
        sorted: &Sorted,
        matches: usize,
    ) -> Result<Vec<u64>, EngineError> {
        let mut objects = vec![0; matches];
        sorted.objects.download(&self.stream, 0, &mut objects)?;
        self.stream.synchronize().map_err(fault)?;
        Ok(objects)
    }

    /// Frees the memory of matches and records, after queued work.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        self.objects.shrink()?;
        self.slots.shrink()?;
        self.fixes.shrink()?;
        self.kept.shrink()?;
        self.ranking.shrink()?;
        self.kept_objects.shrink()
    }

    pub(crate) fn memory(&self) -> &Memory {
        &self.memory
    }
}
