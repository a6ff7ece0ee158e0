//! The thread that runs a fleet's cycles through the stages, each on a separate stream.
//!
//! Cycle k: dispatch reads and writes the records, concurrently with the update of k - 1; queries
//! read the grid and the records after k - 1; update updates the other grid to k. Streams wait for
//! each other by events; the host waits only for counts (moves, matches), while streams work.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use shoal_engine::{
    AnswerSet, CycleOutput, EngineError, EventSet, ExportHeader, RegionId, Snapshot,
    SubscriptionChange,
};

use super::answers::{Answers, CycleResult};
use super::context::Context;
use super::dispatch::stage::DispatchStage;
use super::dispatch::staging::{Arena, Staged};
use super::query::stage::QueryStage;
use super::query::work::QueryWork;
use super::status::End;
use super::subscription::{MemberSearch, SubscriptionStage};
use super::update::stage::UpdateStage;
use crate::launch::fault;
use crate::state::fleet::FleetState;
use crate::state::records_export::RecordsExport;
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

/// Splits the outcome of queries: a lack of memory is the inner error, which only fails the
/// queries; the outer error ends the engine.
fn unless_ended<T>(outcome: Result<T, EngineError>) -> Result<Result<T, EngineError>, EngineError> {
    match outcome {
        Err(error) if !matches!(error, EngineError::OutOfMemory { .. }) => Err(error),
        outcome => Ok(outcome),
    }
}

/// See the file's head.
pub(crate) struct Driver {
    pub(crate) context: Arc<Context>,
    pub(crate) state: FleetState,
    pub(crate) dispatch: DispatchStage,
    pub(crate) update: UpdateStage,
    pub(crate) query: QueryStage,
    pub(crate) subscription: SubscriptionStage,
    pub(crate) arenas: Sender<Arena>,
    outputs: Sender<Result<CycleResult, EngineError>>,
}

impl Driver {
    pub(crate) fn new(
        context: Context,
        tuning: Tuning,
        arenas: Sender<Arena>,
        outputs: Sender<Result<CycleResult, EngineError>>,
    ) -> Result<Self, EngineError> {
        let context = Arc::new(context);
        let (dispatch, update) =
            (DispatchStage::new(&context)?, UpdateStage::new(&context, tuning)?);
        let query = QueryStage::new(&context)?;
        let subscription = SubscriptionStage::new(&context, query.copy_out())?;
        let Context { gpu, memory, options, .. } = &*context;
        let (stream, key, grid) = (&dispatch.stream, options.hash_key, update.grid());
        let state = FleetState::new(memory, &gpu.kernels, stream, key, grid)?;
        let mut driver =
            Self { context, state, dispatch, update, query, subscription, arenas, outputs };
        driver.update.rebuild(&mut driver.state, 0, false)?;
        driver.settle()?;
        Ok(driver)
    }

    /// Runs until the backend is dropped or the device fails.
    pub(crate) fn run(mut self, commands: &Receiver<Command>) {
        let _end = End(self.context.status.clone());
        while let Ok(command) = commands.recv() {
            let continues = match command {
                Command::Cycle(staged) => self.take(*staged),
                Command::Export(reply) => reply.send(self.begin_export()).is_ok(),
                Command::Regions(reply) => reply.send(self.state.queries.regions()).is_ok(),
                Command::BegunAnew(reply) => reply.send(self.subscription.begun_anew()).is_ok(),
                Command::Import(snapshot, reply) => reply.send(self.import(&snapshot)).is_ok(),
            };
            if !continues {
                break;
            }
        }
        // Queued work still uses the buffers that are dropped below.
        let _ = self.context.gpu.context.synchronize();
    }

    /// Waits for all queued work.
    pub(crate) fn settle(&mut self) -> Result<(), EngineError> {
        self.context.gpu.context.synchronize().map_err(fault)
    }

    /// Runs a cycle or refuses it; false when the engine has ended.
    fn take(&mut self, staged: Staged) -> bool {
        let bound = self.context.gpu.context.bind_to_thread().map_err(fault);
        let result = match bound.and_then(|()| self.reserve(&staged)) {
            Ok(()) => self.cycle(staged),
            Err(error @ EngineError::Device(_)) => Err(error),
            Err(error) => match self.refuse(staged) {
                Ok(()) => return self.outputs.send(Err(error)).is_ok(),
                Err(fault) => Err(fault),
            },
        };
        // Changes are partly applied, so any error ends the engine.
        let result = result.map_err(|error| match error {
            EngineError::Device(_) => error,
            other => EngineError::Device(format!("in the middle of a cycle: {other}")),
        });
        let failed = result.is_err();
        self.outputs.send(result).is_ok() && !failed
    }

    /// Runs a cycle whose memory is reserved.
    fn cycle(&mut self, mut staged: Staged) -> Result<CycleResult, EngineError> {
        self.state.epoch += 1;
        let epoch = self.state.epoch;
        let timeline = self.context.timeline.clone();
        let stream = self.dispatch.stream.clone();
        stream.wait(&staged.copied).map_err(fault)?;
        let dispatching = timeline.begin(&stream)?;
        let cycle = self.dispatch.begin(&self.state, &staged)?;
        self.subscription.wait(&stream)?;
        let readers = self.query.queried().into_iter().chain(self.update.updated());
        self.dispatch.finish(&staged, &cycle, readers)?;
        self.subscription.gather(&self.state, &self.dispatch, &staged, &cycle)?;
        timeline.end(epoch, "dispatch", dispatching, &stream)?;
        let dispatched = stream.record_event(None).map_err(fault)?;
        self.update.bring_up(&mut self.state, epoch - 1)?;
        self.query.wait_for_input(&staged, self.update.updated())?;
        let querying = timeline.begin(self.query.stream())?;
        // Counts concurrently with dispatch; the host waits only for the number of candidate rows.
        let counted = unless_ended(self.query.begin(&self.state, &mut staged))?;
        dispatched.synchronize().map_err(fault)?;
        let (report, outcomes) = self.dispatch.read_report(&mut self.state, &staged)?;
        // Queued before the update, because the next cycle waits for it.
        let has_steps = self.subscription.has_every_fix();
        let steps = has_steps.then(|| self.dispatch.arguments(&self.state, &staged));
        let pass = self.subscription.begin(&mut self.state, &mut staged, steps)?;
        let updating = timeline.begin(self.update.stream())?;
        self.update.begin(&mut self.state, &report)?;
        timeline.end(epoch, "update", updating, self.update.stream())?;
        let answers =
            counted.and_then(|counted| self.query.answer(&self.state, &mut staged, counted));
        let (answers, unanswered) = match unless_ended(answers)? {
            Ok(answers) => (answers, None),
            Err(error) => {
                self.query.shrink()?;
                (Answers::Ready(AnswerSet::default()), Some(error))
            }
        };
        timeline.end(epoch, "query", querying, self.query.stream())?;
        let mut search = MemberSearch {
            state: &mut self.state,
            update: &mut self.update,
            query: &mut self.query,
        };
        let events = self.subscription.finish(&mut search, &staged, pass)?;
        let grid_updates = self.update.updates;
        self.context.status.set(|now| {
            now.reported += 1;
            now.grid_updates = grid_updates;
        });
        let work = staged.work.take().filter(|_| unanswered.is_none());
        let (unfinished, query_work) = work.map(QueryWork::into_parts).unwrap_or_default();
        let mut arena = staged.arena;
        arena.idle = Some(self.query.end()?);
        // Fails only if the backend was dropped.
        let _ = self.arenas.send(arena);
        let output = CycleOutput {
            epoch,
            clock_ms: self.state.clock_ms,
            requests: outcomes,
            answer_epoch: epoch - 1,
            answer_clock_ms: self.query.clock_ms(),
            answers: AnswerSet::default(),
            unanswered,
            unfinished,
            query_work,
            queries: staged.queries,
            events: EventSet::default(),
            expired: report.expired,
            objects: self.state.objects,
        };
        Ok(CycleResult { output, answers, events })
    }
}
