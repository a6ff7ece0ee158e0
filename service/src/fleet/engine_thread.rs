//! Runs the engine of one fleet on a thread of its own: plans a cycle, submits it, and replies to
//! every job of it.
//!
//! On an idle fleet a request starts a cycle at once; under load, cycles run back to back and grow
//! by themselves. A second cycle is in flight only where an engine answers one epoch late and gains
//! from it. When the thread ends, for whatever reason, every job that it held gets the reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, TryRecvError, select};
use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{Clock, CycleInput, CycleOutput, EngineError, Request, Ticket};
use tracing::{error, warn};

use super::cycle_planner::{CyclePlan, CyclePlanner, PlannedChange};
use super::cycle_sink::{
    CheckpointCapacity, CheckpointRows, CycleRecord, CycleSink, SettledCycle, SinkCapacity,
};
use super::fleet_shared::{FleetShared, FleetState};
use super::followed::{Followed, FollowedCycle};
use super::job_answers::JobAnswers;
use super::job_queue::QueueReceivers;
use super::jobs::ChangeReply;
use super::numbered_engine::{CycleNumber, NumberedEngine};
use super::producers::BatchId;
use super::wall_clock::WallClock;
use crate::limits::{EXPORT_CYCLE_ROWS, EXPORT_SLICE_ROWS, IDLE_CYCLE_MS};
use crate::subscription::{EpochStamp, FanOutInput, FanOutSender};

/// Clock of the server and the tolerance for event times ahead of it.
#[derive(Clone, Debug)]
pub(super) struct CycleClock {
    pub(super) wall: WallClock,
    pub(super) time_ahead_max_ms: i64,
}

/// An engine and the destinations of what it produces.
pub(super) struct EngineOutputs {
    pub(super) backend: NumberedEngine,
    /// Receives every cycle.
    pub(super) sink: Option<Box<dyn CycleSink>>,
    /// Receives the events.
    pub(super) fan_out: FanOutSender,
}

/// A cycle that was submitted.
struct CycleInFlight {
    ticket: Ticket,
    plan: CyclePlan,
    /// The producers' numbers of a cycle of the leader.
    followed: Option<Vec<Option<BatchId>>>,
    /// That of its input.
    time_max_ms: i64,
    started: Instant,
}

/// See the file's head.
pub(super) struct EngineThread {
    engine: EngineOutputs,
    planner: CyclePlanner,
    clock: CycleClock,
    shared: Arc<FleetShared>,
    in_flight: VecDeque<CycleInFlight>,
    in_flight_max: usize,
    /// Whether it follows a leader, which numbers the cycles.
    follows: bool,
    /// Set while the sink is full.
    sink_full: Option<Receiver<()>>,
    /// The checkpoint whose rows are exported.
    checkpoint: Option<CheckpointRows>,
    /// Rows and removals of the cycles since the last slices.
    changed_rows: usize,
}

/// At the end of the thread, also by a panic, marks the fleet as failed unless it was stopped, then
/// drops the jobs that wait.
struct EndGuard {
    shared: Arc<FleetShared>,
    receivers: QueueReceivers,
}

impl Drop for EndGuard {
    fn drop(&mut self) {
        self.shared.end(FleetState::Failed);
        self.receivers.drain();
    }
}

/// What the thread does next.
enum Wake {
    Cycle,
    /// A slice of the export.
    Slice,
    Stop,
}

/// Passes on the failure of a device, which ends the engine. Out of memory or beyond a limit, a
/// cycle changed nothing.
fn unless_recoverable(fault: EngineError) -> Result<(), EngineError> {
    if matches!(fault, EngineError::Device(_)) { Err(fault) } else { Ok(()) }
}

impl EngineThread {
    pub(super) fn new(
        engine: EngineOutputs,
        planner: CyclePlanner,
        clock: CycleClock,
        shared: Arc<FleetShared>,
    ) -> Self {
        let in_flight_max = if engine.backend.answer_lag() == 0 { 1 } else { CYCLES_IN_FLIGHT_MAX };
        let in_flight = VecDeque::with_capacity(in_flight_max);
        let follows = shared.following().is_some();
        Self {
            engine,
            planner,
            clock,
            shared,
            in_flight,
            in_flight_max,
            follows,
            sink_full: None,
            checkpoint: None,
            changed_rows: 0,
        }
    }

    /// Runs until the fleet is stopped, no caller holds it any more, or its engine fails.
    pub(super) fn run(mut self) {
        let receivers = self.planner.receivers.clone();
        let guard = EndGuard { shared: self.shared.clone(), receivers };
        loop {
            let done = match self.wait() {
                Wake::Cycle => self.run_cycle(),
                Wake::Slice => self.export_slice(),
                Wake::Stop => break,
            };
            if let Err(fault) = done {
                error!(fleet = %self.shared.name, %fault, "the engine failed");
                self.settle_rest();
                break;
            }
        }
        // Before the jobs in flight are dropped, so that they get the reason.
        drop(guard);
    }

    /// Submits one cycle; settles the oldest unless another can overlap with it.
    fn run_cycle(&mut self) -> Result<(), EngineError> {
        self.begin_cycle()?;
        while self.in_flight.len() >= self.in_flight_max
            || (!self.in_flight.is_empty()
                && (self.sink_full.is_some() || !self.planner.has_work()))
        {
            self.settle_oldest()?;
        }
        if self.checkpoint.is_some() {
            self.export_slices()
        } else if self.engine.sink.as_mut().is_some_and(|sink| sink.takes_checkpoint()) {
            self.begin_checkpoint()
        } else {
            Ok(())
        }
    }

    /// Begins an export to the sink.
    fn begin_checkpoint(&mut self) -> Result<(), EngineError> {
        // So that the producers are those of the exported state.
        while !self.in_flight.is_empty() {
            self.settle_oldest()?;
        }
        let state = match self.engine.backend.begin_export() {
            Ok(state) => state,
            Err(fault) => {
                warn!(fleet = %self.shared.name, %fault, "no checkpoint is begun");
                return unless_recoverable(fault);
            }
        };
        let producers = self.planner.producers.states();
        let sink = self.engine.sink.as_mut();
        self.checkpoint = sink.and_then(|sink| sink.begin_checkpoint(state, producers));
        if self.checkpoint.is_none() {
            self.engine.backend.end_export();
        }
        Ok(())
    }

    /// Exports about as many rows as the last cycles changed, so that the engine has few records to
    /// save, or as the checkpoint accepts.
    fn export_slices(&mut self) -> Result<(), EngineError> {
        let mut slices = self.changed_rows.div_ceil(EXPORT_SLICE_ROWS).max(1);
        self.changed_rows = 0;
        let accepts = |rows: &CheckpointRows| rows.capacity() == CheckpointCapacity::Available;
        while slices > 0 {
            self.export_slice()?;
            let goes_on = self.checkpoint.as_ref().is_some_and(accepts);
            slices = if goes_on { slices - 1 } else { 0 };
        }
        Ok(())
    }

    /// Exports a slice if the checkpoint accepts one.
    fn export_slice(&mut self) -> Result<(), EngineError> {
        let Some(checkpoint) = &self.checkpoint else { return Ok(()) };
        match checkpoint.capacity() {
            CheckpointCapacity::Full => {}
            CheckpointCapacity::Closed => self.end_checkpoint(),
            CheckpointCapacity::Available => {
                match self.engine.backend.export_next(EXPORT_SLICE_ROWS)? {
                    Some(rows) => checkpoint.send(rows),
                    None => self.checkpoint = None,
                }
            }
        }
        Ok(())
    }

    /// Abandons the checkpoint, if there is one.
    fn end_checkpoint(&mut self) {
        if self.checkpoint.take().is_some() {
            self.engine.backend.end_export();
        }
    }

    /// Waits until there is something to do and the sink accepts it.
    fn wait(&mut self) -> Wake {
        if let Some(available) = self.sink_full.take() {
            select! {
                recv(available) -> _ => {}
                recv(self.planner.receivers.stop) -> _ => return Wake::Stop,
            }
        }
        self.wait_for_work()
    }

    fn wait_for_work(&self) -> Wake {
        let receivers = &self.planner.receivers;
        let mut select = Select::new();
        select.recv(&receivers.changes);
        select.recv(&receivers.queries);
        select.recv(&receivers.subscriptions);
        select.recv(&receivers.followed);
        select.recv(&receivers.wakeups);
        select.recv(&receivers.stop);
        if let Some(checkpoint) = &self.checkpoint {
            select.recv(checkpoint.taken());
        }
        loop {
            // The fleet was stopped, or no caller holds it any more.
            if !matches!(receivers.stop.try_recv(), Err(TryRecvError::Empty)) {
                return Wake::Stop;
            }
            if self.planner.has_work() {
                return Wake::Cycle;
            }
            let capacity = self.checkpoint.as_ref().map(CheckpointRows::capacity);
            if capacity.is_some_and(|capacity| capacity != CheckpointCapacity::Full) {
                return if self.is_due() { Wake::Cycle } else { Wake::Slice };
            }
            // Readiness may be spurious: it only ends the wait.
            let ready = select.ready_timeout(Duration::from_millis(IDLE_CYCLE_MS));
            if ready.is_err() && self.is_due() {
                return Wake::Cycle;
            }
        }
    }

    /// Whether time alone makes a cycle worth running. An event clock advances with rows only.
    fn is_due(&self) -> bool {
        let due_ms = self.engine.backend.due_ms();
        !self.follows
            && self.shared.options.clock == Clock::System
            && due_ms.is_some_and(|due_ms| due_ms <= self.clock.wall.now_ms())
    }

    /// Submits the next cycle: of the leader, if this follows one and a cycle waits; else of the
    /// jobs alone.
    fn begin_cycle(&mut self) -> Result<(), EngineError> {
        // The place in the queue is free once the step is taken.
        let step = self.planner.receivers.followed.try_recv().map(|followed| followed.step);
        match step {
            Ok(Followed::Cycle(cycle)) => self.submit_followed(cycle),
            Ok(Followed::Clock { epoch, clock_ms }) => {
                if epoch <= self.engine.backend.epoch_submitted() {
                    return Ok(());
                }
                self.submit(CycleNumber::At(epoch), clock_ms, None)
            }
            Ok(Followed::Term { term, last_epoch }) => self.begin_term(term, last_epoch, true),
            Ok(Followed::Lead { term }) => {
                let last_epoch = self.engine.backend.epoch_submitted();
                self.begin_term(term, last_epoch, false)
            }
            Err(_) if self.follows => {
                // The clock stands still between the cycles of the leader.
                self.submit(CycleNumber::Same, self.shared.view().clock_ms, None)
            }
            Err(_) => self.submit(CycleNumber::Next, self.clock.wall.now_ms(), None),
        }
    }

    /// Ends the term at an epoch whose state is the present one.
    fn begin_term(&mut self, term: u64, last_epoch: u64, follows: bool) -> Result<(), EngineError> {
        while !self.in_flight.is_empty() {
            self.settle_oldest()?;
        }
        self.engine.backend.set_epoch(last_epoch);
        self.shared.update_view(|view| view.epoch = last_epoch);
        self.shared.persistence.terms.begin(term, last_epoch);
        if let Some(following) = self.shared.following() {
            following.term_began(last_epoch);
        }
        if let Some(sink) = &mut self.engine.sink {
            sink.begin_term(term, !follows);
        }
        self.follows = follows;
        Ok(())
    }

    /// Submits a cycle of the leader. It must not fail: the states would differ.
    fn submit_followed(&mut self, cycle: FollowedCycle) -> Result<(), EngineError> {
        let number = CycleNumber::At(cycle.header.epoch);
        self.submit(number, cycle.header.system_ms, Some(cycle))
    }

    fn submit(
        &mut self,
        number: CycleNumber,
        system_ms: i64,
        cycle: Option<FollowedCycle>,
    ) -> Result<(), EngineError> {
        let started = Instant::now();
        let (epoch, answer_epoch) = self.engine.backend.epochs_of(number);
        // Queries of a follower have waited for their epoch.
        let answer_epoch = if self.follows { u64::MAX } else { answer_epoch };
        let is_bounded = self.checkpoint.is_some() && self.engine.backend.answer_lag() == 0;
        let rows_max = if is_bounded { EXPORT_CYCLE_ROWS } else { usize::MAX };
        let mut plan = self.planner.plan(answer_epoch, rows_max);
        let time_max_ms = match &cycle {
            Some(cycle) => cycle.header.time_max_ms,
            None => system_ms.saturating_add(self.clock.time_ahead_max_ms),
        };
        self.shared.metrics.count_queries(&plan.queries);
        let mut input = plan.input(system_ms, time_max_ms);
        if let Some(cycle) = &cycle {
            input.requests = cycle.requests.clone();
        }
        if self.checkpoint.is_some() {
            self.changed_rows += input.requests.iter().map(Request::rows).sum::<usize>();
        }
        let (is_followed, has_sink) = (cycle.is_some(), self.engine.sink.is_some());
        let record = has_sink.then(|| record(&plan, epoch, &input, cycle.as_ref()));
        match self.engine.backend.submit(input, number) {
            Ok(ticket) => {
                let followed = cycle.map(|cycle| cycle.batches);
                let cycle = CycleInFlight { ticket, plan, followed, time_max_ms, started };
                self.in_flight.push_back(cycle);
                if let Some((sink, record)) = self.engine.sink.as_mut().zip(record)
                    && let SinkCapacity::Full(available) = sink.submitted(record)
                {
                    self.sink_full = Some(available);
                }
                Ok(())
            }
            Err(fault) => {
                self.refuse(plan, &fault);
                if is_followed { Err(fault) } else { unless_recoverable(fault) }
            }
        }
    }

    /// Replies to the jobs of a cycle that was not applied.
    fn refuse(&mut self, plan: CyclePlan, fault: &EngineError) {
        if matches!(fault, EngineError::OutOfMemory { .. }) && self.checkpoint.is_some() {
            warn!(fleet = %self.shared.name, %fault, "a checkpoint is abandoned for its memory");
            self.end_checkpoint();
        }
        for change in plan.changes {
            if let (Some(batch), true) = (&change.batch, change.is_fresh) {
                self.planner.producers.settle(batch, false);
            }
            // A closed channel means that the client left.
            let _ = change.reply.send(ChangeReply::Refused(fault.clone().into()));
        }
        for job in plan.query_jobs {
            let _ = job.reply.send(Err(fault.clone()));
        }
        self.planner.subscriptions.refuse(plan.subscription_jobs, fault);
    }

    /// Settles what was in flight when the engine failed: earlier cycles may have been applied.
    fn settle_rest(&mut self) {
        while !self.in_flight.is_empty() {
            // The reason is logged already.
            let _ = self.settle_oldest();
        }
    }

    fn settle_oldest(&mut self) -> Result<(), EngineError> {
        let Some(cycle) = self.in_flight.pop_front() else { return Ok(()) };
        let CycleInFlight { ticket, plan, followed, time_max_ms, started } = cycle;
        let output = self.engine.backend.wait(ticket);
        if let Some(sink) = &mut self.engine.sink {
            sink.settled(output.as_ref().map(SettledCycle::new));
        }
        let mut output = match output {
            Ok(output) => output,
            Err(fault) => {
                self.refuse(plan, &fault);
                return if followed.is_some() { Err(fault) } else { unless_recoverable(fault) };
            }
        };
        plan.add_receipt_refusals(&mut output.requests, time_max_ms);
        let memory_bytes = self.engine.backend.memory_bytes();
        let cycles_in_flight = self.in_flight.len() as u64;
        // Before the replies: a client that has this cycle's token may query its epoch at once.
        self.shared.update_view(|view| {
            view.update(&output, memory_bytes);
            view.cycles_in_flight = cycles_in_flight;
        });
        if let Some(following) = self.shared.following() {
            following.applied(output.epoch);
        }
        self.shared.metrics.count_cycle(&output, started.elapsed().as_secs_f64());
        if let Some(batches) = followed {
            self.restore_producers(batches, &output);
        }
        self.reply(plan, output);
        Ok(())
    }

    /// Remembers the producers' numbers of a cycle of the leader.
    fn restore_producers(&mut self, batches: Vec<Option<BatchId>>, output: &CycleOutput) {
        for (batch, outcome) in batches.into_iter().zip(&output.requests) {
            self.shared.metrics.count_outcome(outcome);
            if let Some(BatchId { producer, batch_seq }) = batch {
                let is_applied = outcome.block_error.is_none();
                self.planner.producers.restore(&producer, batch_seq, is_applied);
            }
        }
    }

    fn reply(&mut self, plan: CyclePlan, output: CycleOutput) {
        let epoch = output.epoch;
        self.planner.reuse(output.queries);
        let fan_out = &self.engine.fan_out;
        self.planner.subscriptions.settle(plan.subscription_jobs, epoch, fan_out);
        if !self.shared.sessions.is_empty() {
            let stamp = EpochStamp { epoch, clock_ms: output.clock_ms };
            // An error means that the fan-out's thread ended, and the sessions with it.
            let _ = fan_out.send(FanOutInput::Events(stamp, output.events));
        }
        let mut outcomes = output.requests.into_iter();
        for PlannedChange { batch, is_fresh, reply, _permit, .. } in plan.changes {
            let answer = if is_fresh {
                let outcome = outcomes.next().expect("a backend gives one outcome per request");
                if let Some(batch) = &batch {
                    self.planner.producers.settle(batch, outcome.block_error.is_none());
                }
                self.shared.metrics.count_outcome(&outcome);
                ChangeReply::Settled { epoch, outcome }
            } else {
                self.shared.metrics.count_duplicate();
                ChangeReply::Duplicate { epoch }
            };
            let _ = reply.send(answer);
        }
        let set = Arc::new(output.answers);
        let submitted = self.engine.backend.epoch_submitted();
        let staleness = submitted.saturating_sub(output.answer_epoch);
        let term = self.shared.persistence.terms.current();
        let at = (term, output.answer_epoch, output.answer_clock_ms);
        let mut first = 0;
        for job in plan.query_jobs {
            let answers = match &output.unanswered {
                Some(fault) => Err(fault.clone()),
                None => Ok(JobAnswers::new(set.clone(), first, job.count, at, staleness)),
            };
            first += job.count;
            let _ = job.reply.send(answers);
        }
    }
}

/// The record of a cycle of the leader, or of the changes of a plan.
fn record(
    plan: &CyclePlan,
    epoch: u64,
    input: &CycleInput,
    cycle: Option<&FollowedCycle>,
) -> CycleRecord {
    let record = plan.record(epoch, input);
    match cycle {
        Some(FollowedCycle { batches, encoded, .. }) => {
            CycleRecord { batches: batches.clone(), encoded: Some(encoded.clone()), ..record }
        }
        None => record,
    }
}
