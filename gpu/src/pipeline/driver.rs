//! The thread that runs a fleet's cycles through the stages, each on a separate stream.
//!
//! Cycle k: dispatch reads and writes the records, beside the update of k - 1; queries read the
//! grid and the records after k - 1; update updates the other grid to k. Streams wait for each
//! other by events; the host waits only for counts (moves, matches), while streams work.

use std::collections::BTreeSet;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use cudarc::driver::{CudaEvent, CudaStream};
use shoal_engine::layout::{AdmissionRequest, DictionarySlot, DispatchReport, RowOutcomeCounts};
use shoal_engine::{
    AnswerSet, CycleOutput, EngineError, EngineOptions, EventSet, ExportHeader, RegionId, Snapshot,
    SubscriptionChange,
};

use super::answers::{Answers, CycleResult, Pool};
use super::dispatch_records::Records;
use super::dispatch_staging::{Arena, Staged};
use super::query_batch::{QueryBatch, Sorted};
use super::query_work::QueryWork;
use super::records_export::RecordsExport;
use super::subscription::Subscriptions;
use super::timeline::Timeline;
use super::update_cells::Cells;
use super::update_cost::Cost;
use super::update_grid::GridChoice;
use super::update_stage::Update;
use super::update_tables::Tables;
use crate::device::Gpu;
use crate::launch::{DeviceBuffer, Memory, Outgrown, PinnedBuffer, Scratch, fault};
use crate::tuning::Tuning;

/// A command of a backend to its driver.
pub(crate) enum Command {
    /// Run this cycle.
    Cycle(Box<Staged>),
    /// Begin an export.
    Export(Sender<Result<(ExportHeader, RecordsExport), EngineError>>),
    /// List the continuous queries.
    Regions(Sender<BTreeSet<RegionId>>),
    /// List the continuous queries to set again when the clock is set back.
    BegunAnew(Sender<Vec<SubscriptionChange>>),
    /// Import this state.
    Import(Snapshot, Sender<Result<(), EngineError>>),
}

/// Status that callers read without waiting for a cycle's answers.
#[derive(Debug, Default)]
pub(crate) struct Status {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Now {
    /// Cycles whose stage dispatch has ended.
    pub(super) dispatched: u64,
    pub(super) ended: bool,
    pub(super) objects: u64,
    /// Least event time of any object, with a TTL.
    pub(super) oldest_ms: Option<i64>,
    /// Cycles whose events are reported.
    pub(super) reported: u64,
    /// The next time at which a membership may change without a new fix.
    pub(super) due_ms: Option<i64>,
}

impl Status {
    /// Waits until `cycles` cycles are dispatched or the driver has ended; returns the current
    /// number of objects and their oldest event time.
    pub(crate) fn after(&self, cycles: u64) -> (u64, Option<i64>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while now.dispatched < cycles && !now.ended {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        (now.objects, now.oldest_ms)
    }

    /// Waits until the events of `cycles` cycles are reported or the driver has ended; returns the
    /// next time at which a membership may change without a new fix.
    pub(crate) fn due_after(&self, cycles: u64) -> Option<i64> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while now.reported < cycles && !now.ended {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        now.due_ms
    }

    pub(super) fn set(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// The outcome of queries: a lack of memory is reported to the caller, other errors end the engine.
fn unless_ended<T>(outcome: Result<T, EngineError>) -> Result<Result<T, EngineError>, EngineError> {
    match outcome {
        Err(error) if !matches!(error, EngineError::OutOfMemory { .. }) => Err(error),
        outcome => Ok(outcome),
    }
}

/// Wakes waiting callers when the driver ends, even by a panic.
struct End(Arc<Status>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set(|now| now.ended = true);
    }
}

/// See the file's head.
pub(crate) struct Driver {
    pub(super) gpu: Gpu,
    pub(super) options: EngineOptions,
    pub(super) timeline: Arc<Timeline>,
    pub(super) status: Arc<Status>,
    pub(super) memory: Memory,
    pub(super) arenas: Sender<Arena>,
    pub(super) outputs: Sender<Result<CycleResult, EngineError>>,
    pub(super) epoch: u64,
    pub(super) clock_ms: i64,
    pub(super) answer_clock_ms: i64,
    pub(super) objects: u64,
    pub(super) objects_before: u64,
    pub(super) dispatch: Arc<CudaStream>,
    pub(super) update: Arc<CudaStream>,
    pub(super) copy_out: Arc<CudaStream>,
    pub(super) records: Records,
    pub(super) slots: DeviceBuffer<u32>,
    pub(super) refusals: DeviceBuffer<u8>,
    pub(super) entry_slots: DeviceBuffer<DictionarySlot>,
    /// Used in cycles that may exceed the object limit.
    pub(super) admission_requests: DeviceBuffer<AdmissionRequest>,
    pub(super) outcomes: DeviceBuffer<RowOutcomeCounts>,
    pub(super) report: DeviceBuffer<DispatchReport>,
    /// Slots that moved, of the last three cycles, and their numbers: dispatch writes one list
    /// while an update reads two.
    pub(super) moved: [(DeviceBuffer<u32>, u32); 3],
    pub(super) ordered: [DeviceBuffer<u32>; 6],
    pub(super) ordered_scratch: Scratch,
    pub(super) report_host: PinnedBuffer<DispatchReport>,
    pub(super) outcomes_host: PinnedBuffer<RowOutcomeCounts>,
    pub(super) outgrown_host: PinnedBuffer<Outgrown>,
    pub(super) squares_host: PinnedBuffer<u64>,
    pub(super) cells: [Cells; 2],
    pub(super) tables: Tables,
    pub(super) chosen: GridChoice,
    pub(super) cost: Cost,
    /// The error of a grid that could not be built for lack of memory.
    pub(super) lacking: Option<EngineError>,
    pub(super) query_batch: QueryBatch,
    pub(super) sorted: [Sorted; 2],
    pub(super) subscriptions: Subscriptions,
    /// Pinned memory for bounds of answers, and for their ids.
    pub(super) bounds: Pool,
    pub(super) ids: Pool,
    /// The last queued update, until it is confirmed as applied.
    pub(super) updating: Option<Update>,
    /// The last update that is confirmed as applied.
    pub(super) updated: Option<CudaEvent>,
    /// The queries that the next writes of records and cells must wait for.
    pub(super) queried: Option<Arc<CudaEvent>>,
    /// Copies of answers out of `sorted`, by parity.
    pub(super) copied_out: [Option<Arc<CudaEvent>>; 2],
}

impl Driver {
    pub(crate) fn new(
        gpu: &Gpu,
        options: &EngineOptions,
        memory: &Memory,
        (status, timeline): (Arc<Status>, Arc<Timeline>),
        arenas: Sender<Arena>,
        outputs: Sender<Result<CycleResult, EngineError>>,
        tuning: Tuning,
    ) -> Result<Self, EngineError> {
        let stream = || gpu.context.new_stream().map_err(fault);
        let (dispatch, update, query) = (stream()?, stream()?, stream()?);
        let records = Records::new(memory, &gpu.kernels, &dispatch, options.hash_key)?;
        let chosen = GridChoice::first(&options.space, tuning.side);
        let buffer = || DeviceBuffer::new(memory, 1);
        let mut driver = Self {
            gpu: gpu.clone(),
            options: options.clone(),
            timeline,
            status,
            memory: memory.clone(),
            arenas,
            outputs,
            epoch: 0,
            clock_ms: 0,
            answer_clock_ms: 0,
            objects: 0,
            objects_before: 0,
            copy_out: stream()?,
            records,
            slots: buffer()?,
            refusals: DeviceBuffer::new(memory, 1)?,
            entry_slots: DeviceBuffer::new(memory, 1)?,
            admission_requests: DeviceBuffer::new(memory, 1)?,
            outcomes: DeviceBuffer::new(memory, 1)?,
            report: DeviceBuffer::new(memory, 1)?,
            moved: [(buffer()?, 0), (buffer()?, 0), (buffer()?, 0)],
            ordered: [buffer()?, buffer()?, buffer()?, buffer()?, buffer()?, buffer()?],
            ordered_scratch: Scratch::new(memory)?,
            report_host: PinnedBuffer::new(memory, 1)?,
            outcomes_host: PinnedBuffer::new(memory, 1)?,
            outgrown_host: PinnedBuffer::new(memory, 1)?,
            squares_host: PinnedBuffer::new(memory, 1)?,
            cells: [Cells::new(memory, &chosen.grid)?, Cells::new(memory, &chosen.grid)?],
            tables: Tables::new(memory)?,
            chosen,
            cost: Cost::new(tuning.update_method),
            lacking: None,
            query_batch: QueryBatch::new(memory, &gpu.kernels, query)?,
            sorted: [Sorted::new(memory)?, Sorted::new(memory)?],
            subscriptions: Subscriptions::new(
                memory,
                &gpu.kernels,
                stream()?,
                (&options.space, options.hash_key),
            )?,
            bounds: Pool::new(memory),
            ids: Pool::new(memory),
            updating: None,
            updated: None,
            queried: None,
            copied_out: [None, None],
            dispatch,
            update,
        };
        driver.rebuild(0, false)?;
        driver.settle()?;
        Ok(driver)
    }

    /// Runs until the backend is dropped or the device fails.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let _end = End(self.status.clone());
        while let Ok(command) = commands.recv() {
            let continues = match command {
                Command::Cycle(staged) => self.take(*staged),
                Command::Export(reply) => reply.send(self.begin_export()).is_ok(),
                Command::Regions(reply) => reply.send(self.subscriptions.regions()).is_ok(),
                Command::BegunAnew(reply) => reply.send(self.subscriptions.begun_anew()).is_ok(),
                Command::Import(snapshot, reply) => reply.send(self.import(&snapshot)).is_ok(),
            };
            if !continues {
                break;
            }
        }
        // Queued work still uses the buffers that are dropped below.
        let _ = self.gpu.context.synchronize();
    }

    /// The list of moves of one of the last three cycles.
    pub(super) fn moved_in(&mut self, epoch: u64) -> &mut (DeviceBuffer<u32>, u32) {
        &mut self.moved[epoch as usize % 3]
    }

    /// Waits for all queued work.
    pub(super) fn settle(&mut self) -> Result<(), EngineError> {
        self.gpu.context.synchronize().map_err(fault)
    }

    /// Runs a cycle or refuses it; false when the engine has ended.
    fn take(&mut self, staged: Staged) -> bool {
        let bound = self.gpu.context.bind_to_thread().map_err(fault);
        let result = match bound.and_then(|()| self.reserve(&staged)) {
            Ok(()) => self.cycle(staged),
            Err(error @ EngineError::Device(_)) => Err(error),
            Err(error) => match self.refuse(staged) {
                Ok(()) => return self.outputs.send(Err(error)).is_ok(),
                Err(fault) => Err(fault),
            },
        };
        // Changes are partly applied: any error ends the engine.
        let result = result.map_err(|error| match error {
            EngineError::Device(_) => error,
            other => EngineError::Device(format!("in the middle of a cycle: {other}")),
        });
        let failed = result.is_err();
        self.outputs.send(result).is_ok() && !failed
    }

    /// Runs a cycle whose memory is reserved.
    fn cycle(&mut self, mut staged: Staged) -> Result<CycleResult, EngineError> {
        self.epoch += 1;
        let epoch = self.epoch;
        let (timeline, dispatch) = (self.timeline.clone(), self.dispatch.clone());
        let query = self.query_batch.stream.clone();
        dispatch.wait(&staged.copied).map_err(fault)?;
        let dispatching = timeline.begin(&dispatch)?;
        let lists = self.begin_dispatch(&staged)?;
        self.subscriptions.wait(&dispatch)?;
        self.finish_dispatch(&staged, &lists)?;
        self.gather(&staged, &lists)?;
        timeline.end((epoch, "dispatch"), dispatching, &dispatch)?;
        let dispatched = dispatch.record_event(None).map_err(fault)?;
        self.conclude_update()?;
        self.bring_up()?;
        self.wait_for_query_input(&staged)?;
        let querying = timeline.begin(&query)?;
        // Counted beside dispatch: the host waits only for the items.
        let counted = unless_ended(self.begin_queries(&mut staged))?;
        dispatched.synchronize().map_err(fault)?;
        let (report, outcomes) = self.read_report(&staged)?;
        // Before the update: the next cycle waits for it.
        let pass = self.begin_events(&mut staged)?;
        let updating = timeline.begin(&self.update)?;
        self.begin_update(&report)?;
        timeline.end((epoch, "update"), updating, &self.update)?;
        let answers = counted.and_then(|counted| self.answer(&mut staged, counted));
        let (answers, unanswered) = match unless_ended(answers)? {
            Ok(answers) => (answers, None),
            Err(error) => {
                self.release_answers()?;
                (Answers::Ready(AnswerSet::default()), Some(error))
            }
        };
        timeline.end((epoch, "query"), querying, &query)?;
        let events = self.finish_events(&staged, pass)?;
        self.status.set(|now| now.reported += 1);
        let queried = Arc::new(query.record_event(None).map_err(fault)?);
        let work = staged.work.take().filter(|_| unanswered.is_none());
        let (unfinished, query_work) = work.map(QueryWork::into_parts).unwrap_or_default();
        let mut arena = staged.arena;
        arena.idle = Some(queried.clone());
        self.queried = Some(queried);
        // The backend may be dropped.
        let _ = self.arenas.send(arena);
        let output = CycleOutput {
            epoch: self.epoch,
            clock_ms: self.clock_ms,
            requests: outcomes,
            answer_epoch: self.epoch - 1,
            answer_clock_ms: self.answer_clock_ms,
            answers: AnswerSet::default(),
            unanswered,
            unfinished,
            query_work,
            queries: staged.queries,
            events: EventSet::default(),
            expired: report.expired,
            objects: self.objects,
        };
        Ok(CycleResult { output, answers, events })
    }
}
