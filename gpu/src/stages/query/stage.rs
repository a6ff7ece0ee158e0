//! Stage query as the driver queues it: cut, count, then write or build, with a count read back
//! after each; warp queries are only counted and written.

use std::sync::Arc;

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::{AnswerSet, EngineError, RowLimit};

use super::batch::{QueryBatch, Sorted};
use crate::launch::{ViewArgument, fault};
use crate::stages::answers::{Answers, Pool, PooledBuffer};
use crate::stages::context::Context;
use crate::stages::dispatch::staging::Staged;
use crate::stages::query::answers::AnswerBuilder;
use crate::stages::query::work::QueryWork;
use crate::state::fleet::FleetState;

/// Most unused rows, which no answer returns, that are written to avoid counting a second time. A
/// guess.
const UNUSED_ROWS_MAX: u64 = 1 << 13;

/// The view of a cycle's queries and their counts; none without queries.
pub(crate) type Counted = Option<(ViewArgument, QueryProgress)>;

/// Progress of the queries of a running cycle.
pub(crate) enum QueryProgress {
    /// There are no queries to count.
    None,
    /// Counting is queued, with a copy of the counts to the host. `totals` has the totals of
    /// answers without rows, if the host builds the answers.
    Counting { bounds: PooledBuffer, totals: Vec<u64> },
    /// As `Counting` for warp queries, whose short and medium answers are written if there are at
    /// most `room` matches.
    CountedByWarp { bounds: PooledBuffer, room: usize },
}

/// Lists, results and copies of the stage.
#[derive(Debug)]
pub(crate) struct QueryStage {
    context: Arc<Context>,
    pub(crate) batch: QueryBatch,
    /// By cycle modulo 2: one is copied to the host while the other is written.
    sorted: [Sorted; 2],
    /// Page-locked memory for bounds of answers, and for their ids.
    pub(super) bounds: Pool,
    ids: Pool,
    copy_out: Arc<CudaStream>,
    /// By cycle modulo 2: the event after the last copy out of `sorted`.
    copied_out: [Option<Arc<CudaEvent>>; 2],
    /// The event after the queries, for which the next writes of records and grids must wait.
    queried: Option<Arc<CudaEvent>>,
    /// Clock and number of objects of the state that the queries of the running cycle read.
    clock_ms: i64,
    pub(super) objects: u64,
}

impl QueryStage {
    pub(crate) fn new(context: &Arc<Context>) -> Result<Self, EngineError> {
        let memory = &context.memory;
        Ok(Self {
            context: context.clone(),
            batch: QueryBatch::new(memory, &context.gpu.kernels, context.new_stream()?)?,
            sorted: [Sorted::new(memory)?, Sorted::new(memory)?],
            bounds: Pool::new(memory),
            ids: Pool::new(memory),
            copy_out: context.new_stream()?,
            copied_out: [None, None],
            queried: None,
            clock_ms: 0,
            objects: 0,
        })
    }

    pub(crate) fn stream(&self) -> &Arc<CudaStream> {
        &self.batch.stream
    }

    /// The stream that copies results to the host.
    pub(crate) fn copy_out(&self) -> &Arc<CudaStream> {
        &self.copy_out
    }

    /// The event after the queries, for which the next writes of records and grids must wait.
    pub(crate) fn queried(&self) -> Option<&CudaEvent> {
        self.queried.as_deref()
    }

    /// The clock of the state that the queries of the running cycle read.
    pub(crate) fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Ends the queries of a cycle; returns the event after them.
    pub(crate) fn end(&mut self) -> Result<Arc<CudaEvent>, EngineError> {
        let queried = Arc::new(self.batch.stream.record_event(None).map_err(fault)?);
        self.queried = Some(queried.clone());
        Ok(queried)
    }

    /// Makes the stream wait for the queries and for the grid that they read.
    pub(crate) fn wait_for_input(
        &self,
        staged: &Staged,
        updated: Option<&CudaEvent>,
    ) -> Result<(), EngineError> {
        let stream = &self.batch.stream;
        stream.wait(&staged.copied).map_err(fault)?;
        updated.map_or(Ok(()), |updated| stream.wait(updated)).map_err(fault)
    }

    /// Queues counting the matches of queries, if there are any; waits until they are cut into
    /// candidate rows.
    ///
    /// # Errors
    /// [`EngineError::OutOfMemory`], here and in [`Self::answer`]: queries have no answers, and
    /// nothing else has changed.
    pub(crate) fn begin(
        &mut self,
        state: &FleetState,
        staged: &mut Staged,
    ) -> Result<Counted, EngineError> {
        self.clock_ms = state.clock_ms;
        self.objects = state.objects;
        if staged.queries.is_empty() {
            return Ok(None);
        }
        let view = state.view(state.epoch - 1, state.clock_ms)?;
        self.admit_queries(staged, &view)?;
        if staged.query_ranges.parts.length == 0 {
            return Ok(Some((view, QueryProgress::None)));
        }
        if staged.are_plain && self.batch.prefers_warp_queries() {
            let queries = staged.queries.len();
            let mut bounds = self.bounds.take(queries + 1)?;
            self.batch.count_by_warp(&view, staged.query_input())?;
            // Written now, because the next writes of records and grids wait for the queries, and
            // the host first waits for the dispatch of the cycle.
            let sorted = self.begin_writing(state.epoch)?;
            let room = self.batch.write_short(&view, queries, &self.sorted[sorted])?;
            self.batch.take_counts(bounds.target())?;
            return Ok(Some((view, QueryProgress::CountedByWarp { bounds, room })));
        }
        let cut = self.batch.cut(&view, staged.query_input())?;
        let counting = self.count(staged, &view, &cut)?;
        Ok(Some((view, counting)))
    }

    /// Makes the stream wait until the answers of the cycle before last are copied out; returns
    /// the index of their list, which the cycle writes.
    fn begin_writing(&self, epoch: u64) -> Result<usize, EngineError> {
        let parity = epoch as usize % 2;
        if let Some(copied) = &self.copied_out[parity] {
            self.batch.stream.wait(copied).map_err(fault)?;
        }
        Ok(parity)
    }

    /// Frees the memory of earlier answers if other work needs it.
    pub(crate) fn shrink(&mut self) -> Result<(), EngineError> {
        self.batch.shrink()?;
        self.sorted.iter_mut().try_for_each(Sorted::shrink)
    }

    fn count(
        &mut self,
        staged: &Staged,
        view: &ViewArgument,
        cut: &CudaEvent,
    ) -> Result<QueryProgress, EngineError> {
        cut.synchronize().map_err(fault)?;
        let queries = staged.queries.len();
        let mut bounds = self.bounds.take(queries + 1)?;
        let mut totals = vec![0; if staged.are_plain { 0 } else { queries }];
        let input = staged.query_input();
        let wanted = (!totals.is_empty()).then_some(&mut totals[..]);
        self.batch.count(view, input, bounds.target(), wanted)?;
        Ok(QueryProgress::Counting { bounds, totals })
    }

    pub(crate) fn answer(
        &mut self,
        state: &FleetState,
        staged: &mut Staged,
        counted: Counted,
    ) -> Result<Answers, EngineError> {
        let Some((view, progress)) = counted else {
            return Ok(Answers::Ready(AnswerSet::default()));
        };
        self.batch.stream.synchronize().map_err(fault)?;
        let parity = self.begin_writing(state.epoch)?;
        match self.withhold(staged, &view, progress)? {
            QueryProgress::CountedByWarp { bounds, room } => {
                self.write_plain(state.epoch, staged, &view, bounds, Some(room))
            }
            QueryProgress::Counting { bounds, totals } if totals.is_empty() => {
                self.write_plain(state.epoch, staged, &view, bounds, None)
            }
            other => {
                let none;
                let (bounds, totals) = match &other {
                    QueryProgress::Counting { bounds, totals } => (bounds.as_ref(), &totals[..]),
                    QueryProgress::None | QueryProgress::CountedByWarp { .. } => {
                        // Without parts, nothing was counted: every range is empty.
                        none = vec![0; staged.queries.len() + 1];
                        (&none[..], &none[..])
                    }
                };
                let mut maker = AnswerBuilder {
                    space: &self.context.options.space,
                    query_batch: &mut self.batch,
                    sorted: &mut self.sorted[parity],
                    view,
                    index: state.records.index(),
                    clock_ms: self.clock_ms,
                    objects: self.objects,
                    work: staged.work.take(),
                };
                let answers = maker.make(staged, bounds, totals).map(Answers::Ready);
                staged.work = maker.work;
                answers
            }
        }
    }

    /// Replaces answers that exceed a limit of all rows or none by their totals, if they have many
    /// rows, and refuses those whose rows exceed the remaining work.
    fn withhold(
        &mut self,
        staged: &mut Staged,
        view: &ViewArgument,
        mut progress: QueryProgress,
    ) -> Result<QueryProgress, EngineError> {
        let (QueryProgress::Counting { bounds, .. } | QueryProgress::CountedByWarp { bounds, .. }) =
            &progress
        else {
            return Ok(progress);
        };
        let bounds = bounds.as_ref();
        let has_limits = !staged.limits.is_empty() || staged.work.is_some();
        if !has_limits || bounds.last().is_none_or(|matches| *matches <= UNUSED_ROWS_MAX) {
            return Ok(progress);
        }
        let mut withheld = withheld(&staged.limits, bounds);
        withheld.resize(staged.queries.len(), 0);
        let take = |work: &mut QueryWork| work.take_rows(&staged.queries, bounds, &mut withheld);
        let refuses = staged.work.as_mut().is_some_and(take);
        if !refuses && withheld.iter().sum::<u64>() <= UNUSED_ROWS_MAX {
            return Ok(progress);
        }
        let stream = self.batch.stream.clone();
        let input = staged.query_input();
        if matches!(progress, QueryProgress::CountedByWarp { .. }) {
            let cut = self.batch.cut(view, input)?;
            progress = self.count(staged, view, &cut)?;
            stream.synchronize().map_err(fault)?;
        }
        if let QueryProgress::Counting { bounds, totals } = &mut progress {
            totals.resize(withheld.len(), 0);
            let is_refused =
                |query| staged.work.as_ref().is_some_and(|work| work.is_unfinished(query));
            for ((total, withheld), query) in totals.iter_mut().zip(&withheld).zip(0..) {
                *total += if is_refused(query) { 0 } else { *withheld };
            }
            self.batch.withhold(input, &withheld, bounds.target())?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(progress)
    }

    /// Writes the answers of a cycle whose queries all request ids, and starts copying them. After
    /// warp queries, up to `room` matches, all but long answers are written already.
    fn write_plain(
        &mut self,
        epoch: u64,
        staged: &Staged,
        view: &ViewArgument,
        bounds: PooledBuffer,
        room: Option<usize>,
    ) -> Result<Answers, EngineError> {
        let (stream, parity) = (self.batch.stream.clone(), epoch as usize % 2);
        let matches = *bounds.as_ref().last().unwrap_or(&0) as usize;
        let mut objects = self.ids.take(matches)?;
        if matches > 0 {
            let (input, sorted) = (staged.query_input(), &mut self.sorted[parity]);
            match room {
                Some(room) => self.batch.write_by_warp(view, input, matches, room, sorted)?,
                None => self.batch.write(view, input, matches, sorted)?,
            }
            let written = stream.record_event(None).map_err(fault)?;
            self.copy_out.wait(&written).map_err(fault)?;
            let copying = self.context.timeline.begin(&self.copy_out)?;
            let out = objects.target();
            self.sorted[parity].objects.download(&self.copy_out, 0, out)?;
            self.context.timeline.end(epoch, "copy out", copying, &self.copy_out)?;
        }
        let copied = Arc::new(self.copy_out.record_event(None).map_err(fault)?);
        self.copied_out[parity] = Some(copied.clone());
        Ok(Answers::Coming { copied, bounds, objects, limits: staged.limits.clone() })
    }
}

/// By query the total of an answer beyond its limit of all rows or none, else 0.
fn withheld(limits: &[Option<RowLimit>], bounds: &[u64]) -> Vec<u64> {
    let withheld = |(limit, bounds): (&Option<RowLimit>, &[u64])| {
        let found = bounds[1] - bounds[0];
        match limit {
            Some(RowLimit::AllOrNone(rows_max)) if found > *rows_max => found,
            _ => 0,
        }
    };
    limits.iter().zip(bounds.windows(2)).map(withheld).collect()
}
