//! Runs the engine of one fleet on a thread of its own. For each cycle, the thread plans the cycle,
//! submits it, and replies to every job in it.
//!
//! On an idle fleet a request starts a cycle at once; under load, cycles run back to back and grow
//! with the queues. A second cycle is in flight only if the engine answers one epoch late. When the
//! thread ends, every job that it held receives the reason.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Select, TryRecvError};
use shoal_engine::limits::{CYCLE_REQUESTS_MAX, CYCLES_IN_FLIGHT_MAX};
use shoal_engine::{Clock, CycleInput, CycleOutput, EngineError, Request, Ticket};
use tracing::{error, warn};

use super::cycle_pace::CyclePace;
use super::cycle_planner::{CycleBounds, CycleClocks, CyclePlan, CyclePlanner, PlannedChange};
use super::event_clock::EventClock;
use super::fleet_shared::{FleetShared, FleetState};
use super::followed::{Followed, FollowedCycle};
use super::job_queue::QueueReceivers;
use super::jobs::ChangeReply;
use super::long_queries::LongQueries;
use super::query_replies::CycleAnswers;
use super::receipt_refusals::RefusedRows;
use crate::cycle::{
    BatchId, CycleNumber, CycleRecord, CycleSink, ExportCapacity, ExportRows, NumberedEngine,
    SettledCycle, SinkCapacity, WallClock,
};
use crate::limits::{CLOCK_AHEAD_MS_MAX, EXPORT_CYCLE_ROWS, EXPORT_SLICE_ROWS, IDLE_CYCLE_MS};
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
pub(super) struct CycleInFlight {
    ticket: Ticket,
    plan: CyclePlan,
    /// For a cycle of the leader: its producers' batch numbers.
    followed: Option<Vec<Option<BatchId>>>,
    /// Whether the cycle may set the clock back.
    rewinds: bool,
    started: Instant,
    /// Rows and removals, for [`CyclePace`]; `None` beside changes of subscriptions, which may take
    /// longer.
    paced_rows: Option<usize>,
}

/// See the file's head.
pub(super) struct EngineThread {
    pub(super) engine: EngineOutputs,
    pub(super) planner: CyclePlanner,
    clock: CycleClock,
    /// Present if the fleet bounds its event clock.
    event_clock: Option<EventClock>,
    pace: CyclePace,
    /// When the last cycle was settled.
    settled: Instant,
    pub(super) shared: Arc<FleetShared>,
    pub(super) in_flight: VecDeque<CycleInFlight>,
    in_flight_max: usize,
    /// Whether it follows a leader, which numbers the cycles.
    follows: bool,
    /// Set while the sink is full.
    sink_full: Option<Receiver<()>>,
    /// Whether it was full before the last cycle.
    sink_was_full: bool,
    /// Receives the rows of the export in progress: for a checkpoint or long queries.
    pub(super) export: Option<ExportRows>,
    pub(super) long_queries: LongQueries,
    /// Rows and removals of the cycles since the last exported slices.
    pub(super) changed_rows: usize,
}

/// Dropped at the end of the thread, even after a panic. Marks the fleet as failed unless it was
/// stopped, then drops the jobs that wait.
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

/// Returns `Err` for a device failure, which ends the engine. Other errors (out of memory, beyond a
/// limit) are recoverable: the cycle changed nothing.
pub(super) fn unless_recoverable(fault: EngineError) -> Result<(), EngineError> {
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
        let event_clock = shared.event_clock_lead_ms().map(EventClock::new);
        Self {
            engine,
            planner,
            clock,
            event_clock,
            pace: CyclePace::default(),
            settled: Instant::now(),
            shared,
            in_flight,
            in_flight_max,
            follows,
            sink_full: None,
            sink_was_full: false,
            export: None,
            long_queries: LongQueries::default(),
            changed_rows: 0,
        }
    }

    /// Runs until the fleet is stopped, its last handle is dropped, or its engine fails.
    pub(super) fn run(mut self) {
        let receivers = self.planner.receivers.clone();
        let guard = EndGuard { shared: self.shared.clone(), receivers };
        loop {
            let done = match self.wait() {
                Wake::Cycle => self.run_cycle(),
                Wake::Slice => self.export_slice(EXPORT_SLICE_ROWS),
                Wake::Stop => break,
            };
            if let Err(fault) = done {
                error!(fleet = %self.shared.name, %fault, "the engine failed");
                self.settle_rest();
                break;
            }
        }
        // The guard must run before the jobs in flight are dropped, so that they get the reason.
        drop(guard);
    }

    /// Submits one cycle; settles the oldest unless another can overlap with it.
    fn run_cycle(&mut self) -> Result<(), EngineError> {
        self.begin_cycle()?;
        while self.in_flight.len() >= self.in_flight_max
            || (!self.in_flight.is_empty()
                && (self.sink_full.is_some() || !self.planner.has_work(true)))
        {
            self.settle_oldest()?;
        }
        if self.export.is_some() { self.export_slices() } else { self.begin_export() }
    }

    /// Waits until there is something to do, or until the fleet is stopped. While the sink is full,
    /// changes and cycles of the leader are nothing to do.
    fn wait(&mut self) -> Wake {
        loop {
            match self.wait_for_work() {
                Some(wake) => return wake,
                None => (self.sink_full, self.sink_was_full) = (None, true),
            }
        }
    }

    /// See [`EngineThread::wait`]; `None` once the sink is no longer full.
    fn wait_for_work(&self) -> Option<Wake> {
        let receivers = &self.planner.receivers;
        let mut select = Select::new();
        if let Some(available) = &self.sink_full {
            select.recv(available);
        } else {
            select.recv(&receivers.changes);
            select.recv(&receivers.followed);
        }
        select.recv(&receivers.queries);
        select.recv(&receivers.subscriptions);
        select.recv(&receivers.wakeups);
        select.recv(&receivers.stop);
        if let Some(export) = &self.export {
            select.recv(export.taken());
        }
        loop {
            // The fleet was stopped, or its last handle was dropped.
            if !matches!(receivers.stop.try_recv(), Err(TryRecvError::Empty)) {
                return Some(Wake::Stop);
            }
            let is_available = |available: &Receiver<()>| {
                !matches!(available.try_recv(), Err(TryRecvError::Empty))
            };
            if self.sink_full.as_ref().is_some_and(is_available) {
                return None;
            }
            if self.planner.has_work(self.sink_full.is_none()) {
                return Some(Wake::Cycle);
            }
            let can_export = match &self.export {
                Some(export) => export.capacity() != ExportCapacity::Full,
                None => self.long_queries.are_waiting(),
            };
            if can_export {
                return Some(if self.is_due() { Wake::Cycle } else { Wake::Slice });
            }
            // Readiness may be spurious; the result only ends the wait.
            let ready = select.ready_timeout(Duration::from_millis(IDLE_CYCLE_MS));
            if ready.is_err() && self.is_due() {
                return Some(Wake::Cycle);
            }
        }
    }

    /// True if a cycle is due because time has passed. An event clock advances with rows only.
    fn is_due(&self) -> bool {
        let due_ms = self.engine.backend.due_ms();
        !self.follows
            && self.shared.options.clock == Clock::System
            && due_ms.is_some_and(|due_ms| due_ms <= self.clock.wall.now_ms())
    }

    /// Submits the next cycle: the leader's, if this is a follower and one is queued; otherwise one
    /// of local jobs.
    fn begin_cycle(&mut self) -> Result<(), EngineError> {
        // The place in the queue is free once the step is taken.
        let step = match self.sink_full {
            Some(_) => Err(TryRecvError::Empty),
            None => self.planner.receivers.followed.try_recv().map(|followed| followed.step),
        };
        match step {
            // A restarted stream resends cycles that were still queued here.
            Ok(Followed::Cycle(cycle))
                if cycle.header.epoch <= self.engine.backend.epoch_submitted() =>
            {
                Ok(())
            }
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
                // The clock does not advance between the leader's cycles. Passing the clock of the
                // last settled cycle would be wrong: a cycle in flight may set it back.
                self.submit(CycleNumber::Same, i64::MIN, None)
            }
            Err(_) => self.submit(CycleNumber::Next, self.clock.wall.now_ms(), None),
        }
    }

    /// Ends the current term at `last_epoch`, the epoch of the current state, and begins `term`.
    fn begin_term(&mut self, term: u64, last_epoch: u64, follows: bool) -> Result<(), EngineError> {
        while !self.in_flight.is_empty() {
            self.settle_oldest()?;
        }
        self.engine.backend.set_epoch(last_epoch);
        self.shared.update_view(|view| view.epoch = last_epoch);
        if let Some(following) = self.shared.following() {
            following.term_began(last_epoch);
        }
        self.shared.persistence.terms.begin(term, last_epoch);
        if let Some(sink) = &mut self.engine.sink {
            sink.begin_term(term, !follows);
        }
        self.follows = follows;
        Ok(())
    }

    /// Submits a cycle of the leader. A failure is fatal, because the states would diverge.
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
        // A follower's queries have waited for their epoch before they were queued.
        let answer_epoch = if self.follows { u64::MAX } else { answer_epoch };
        let is_bounded = self.export.is_some() && self.engine.backend.answer_lag() == 0;
        let has_light = self.planner.receive() && self.in_flight_max == 1;
        if has_light {
            self.pace.saw_light_client(started);
        }
        let is_short = self.pace.is_short(started);
        self.shared.set_has_light_clients(is_short);
        let rows_max = self.pace.rows_max(!self.shared.sessions.is_empty(), is_short);
        let rows_max = if is_bounded { EXPORT_CYCLE_ROWS.min(rows_max) } else { rows_max };
        // Changes wait for the sink cycle by cycle, so that shorter cycles have shorter waits.
        let rows_max = match self.sink_full {
            Some(_) => 0,
            None => rows_max >> u32::from(self.sink_was_full),
        };
        let objects = self.engine.backend.objects();
        let query_work_max = self.pace.query_work_max(objects);
        let bounds = CycleBounds { rows_max, query_work_max, light_first: has_light };
        let mut plan = self.planner.plan(answer_epoch, bounds);
        self.shared.metrics.query_requests_long.inc_by(plan.long_queries.len() as u64);
        for job in &plan.long_queries {
            self.shared.metrics.count_queries(&job.queries);
        }
        self.long_queries.add(std::mem::take(&mut plan.long_queries));
        let has_room = plan.requests.len() < CYCLE_REQUESTS_MAX && self.sink_full.is_none();
        if cycle.is_none() && has_room && self.sets_clock_back(system_ms) {
            plan.requests.push(Request::Rewind);
        }
        let clocks = self.clocks(&plan, system_ms, cycle.as_ref());
        self.shared.metrics.count_queries(&plan.queries);
        let mut input = plan.input(clocks);
        if let Some(cycle) = &cycle {
            input.requests = cycle.requests.clone();
        }
        let rows = input.requests.iter().map(Request::rows).sum();
        if self.export.is_some() {
            self.changed_rows += rows;
        }
        let paced_rows = input.subscriptions.is_empty().then_some(rows);
        let rewinds = input.rewinds();
        let (is_followed, has_sink) = (cycle.is_some(), self.engine.sink.is_some());
        let record = has_sink.then(|| record(&plan, epoch, &input, cycle.as_ref()));
        match self.engine.backend.submit(input, number) {
            Ok(ticket) => {
                let followed = cycle.map(|cycle| cycle.batches);
                let cycle = CycleInFlight { ticket, plan, followed, rewinds, started, paced_rows };
                self.in_flight.push_back(cycle);
                if let Some((sink, record)) = self.engine.sink.as_mut().zip(record) {
                    match sink.submitted(record) {
                        SinkCapacity::Full(available) => self.sink_full = Some(available),
                        SinkCapacity::Available => self.sink_was_full = false,
                    }
                }
                Ok(())
            }
            Err(fault) => {
                self.refuse(plan, &fault);
                if is_followed { Err(fault) } else { unless_recoverable(fault) }
            }
        }
    }

    /// True if the fleet's clock is too far ahead of the system clock and must be set back. Always
    /// false on a follower and for an event clock without a bound.
    fn sets_clock_back(&self, system_ms: i64) -> bool {
        let lead_ms = match self.shared.options.clock {
            Clock::System => Some(0),
            Clock::Event => self.shared.event_clock_lead_ms(),
        };
        let ahead_ms = self.shared.view().clock_ms.saturating_sub(system_ms);
        let is_ahead = lead_ms.is_some_and(|lead_ms| ahead_ms > lead_ms + CLOCK_AHEAD_MS_MAX);
        // The clock is that of the last settled cycle.
        let sets_back = is_ahead && !self.follows && !self.in_flight.iter().any(|it| it.rewinds);
        if sets_back {
            let fleet = &self.shared.name;
            warn!(%fleet, ahead_ms, "the fleet's clock is ahead of the machine's: it is set back");
        }
        sets_back
    }

    /// The clocks of a cycle. A cycle of the leader has the clocks that it had on the leader.
    fn clocks(
        &mut self,
        plan: &CyclePlan,
        system_ms: i64,
        cycle: Option<&FollowedCycle>,
    ) -> CycleClocks {
        if let Some(FollowedCycle { header, event_clock_max_ms, .. }) = cycle {
            let (time_max_ms, event_clock_max_ms) = (header.time_max_ms, *event_clock_max_ms);
            return CycleClocks { system_ms, time_max_ms, event_clock_max_ms };
        }
        // Cycles in flight may have a later clock: the bound is then conservative.
        let clock_ms = self.shared.view().clock_ms;
        let bound_ms = |clock: &mut EventClock| clock.bound_ms(&plan.reported, clock_ms, system_ms);
        CycleClocks {
            system_ms,
            time_max_ms: system_ms.saturating_add(self.clock.time_ahead_max_ms),
            event_clock_max_ms: self.event_clock.as_mut().map(bound_ms),
        }
    }

    /// Replies to the jobs of a cycle that was not applied.
    fn refuse(&mut self, plan: CyclePlan, fault: &EngineError) {
        if matches!(fault, EngineError::OutOfMemory { .. }) && self.export.is_some() {
            warn!(fleet = %self.shared.name, %fault, "an export is abandoned for its memory");
            self.end_export();
        }
        for change in plan.changes {
            if let (Some(batch), true) = (&change.batch, change.is_fresh) {
                self.planner.producers.settle(batch, false);
            }
            // A closed channel means that the client left.
            let _ = change.reply.send(ChangeReply::Refused(fault.clone().into()));
        }
        for job in plan.query_jobs {
            let _ = job.terms.reply.send(Err(fault.clone().into()));
        }
        self.planner.subscriptions.refuse(plan.subscription_jobs, fault);
    }

    /// Settles the cycles in flight after a failure: some of them may have been applied.
    fn settle_rest(&mut self) {
        while !self.in_flight.is_empty() {
            // The reason is logged already.
            let _ = self.settle_oldest();
        }
    }

    pub(super) fn settle_oldest(&mut self) -> Result<(), EngineError> {
        let Some(cycle) = self.in_flight.pop_front() else { return Ok(()) };
        let CycleInFlight { ticket, plan, followed, started, paced_rows, .. } = cycle;
        let output = self.engine.backend.wait(ticket);
        if let Some(sink) = &mut self.engine.sink {
            sink.settled(output.as_ref().map(SettledCycle::new));
        }
        let output = match output {
            Ok(output) => output,
            Err(fault) => {
                self.refuse(plan, &fault);
                return if followed.is_some() { Err(fault) } else { unless_recoverable(fault) };
            }
        };
        // Cycles that overlap count from the end of the one before.
        let now = Instant::now();
        let time = now - started.max(self.settled);
        self.settled = now;
        if let Some(rows) = paced_rows {
            self.pace.learn(rows, output.query_work.iter().sum(), time, now);
        }
        let (memory_bytes, grid_updates) =
            (self.engine.backend.memory_bytes(), self.engine.backend.grid_updates());
        let cycles_in_flight = self.in_flight.len() as u64;
        // Update the view before the replies: a client may query this cycle's epoch at once.
        self.shared.update_view(|view| {
            view.update(&output, plan.refused_on_receipt());
            (view.memory_bytes, view.grid_updates) = (memory_bytes, grid_updates);
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

    /// Records the producers' batch numbers of a cycle of the leader.
    fn restore_producers(&mut self, batches: Vec<Option<BatchId>>, output: &CycleOutput) {
        for (batch, outcome) in batches.into_iter().zip(&output.requests) {
            let refused = RefusedRows::default().joined(&outcome.refused);
            self.shared.metrics.count_outcome(outcome, &refused.counts);
            if let Some(BatchId { producer, batch_seq }) = batch {
                let is_applied = outcome.block_error.is_none();
                self.planner.producers.restore(&producer, batch_seq, is_applied);
            }
        }
    }

    fn reply(&mut self, plan: CyclePlan, output: CycleOutput) {
        let epoch = output.epoch;
        let (fan_out, events) = (&self.engine.fan_out, (epoch, &output.events));
        self.planner.subscriptions.settle(plan.subscription_jobs, events, fan_out);
        if !self.shared.sessions.is_empty() {
            let stamp = EpochStamp { epoch, clock_ms: output.clock_ms };
            // An error means that the fan-out's thread ended, and the sessions with it.
            let _ = fan_out.send(FanOutInput::Events(stamp, output.events));
        }
        let mut outcomes = output.requests.into_iter();
        for PlannedChange { batch, is_fresh, refused, dropped, reply, _permit } in plan.changes {
            let answer = if is_fresh {
                let mut outcome = outcomes.next().expect("a backend gives one outcome per request");
                if let Some(batch) = &batch {
                    self.planner.producers.settle(batch, outcome.block_error.is_none());
                }
                let refused = refused.joined(&std::mem::take(&mut outcome.refused));
                self.shared.metrics.count_outcome(&outcome, &refused.counts);
                if let Some(dropped) = &dropped {
                    self.shared.metrics.count_dropped(&dropped.counts);
                }
                let refused = Box::new(refused);
                ChangeReply::Settled { epoch, outcome, refused, dropped }
            } else {
                self.shared.metrics.count_duplicate();
                ChangeReply::Duplicate { epoch }
            };
            let _ = reply.send(answer);
        }
        let submitted = self.engine.backend.epoch_submitted();
        let term = self.shared.persistence.terms.current();
        let answers = CycleAnswers {
            set: output.answers,
            unanswered: output.unanswered,
            unfinished: output.unfinished,
            work: output.query_work,
            work_max: plan.query_work_max,
            is_light: plan.is_light,
            queries: output.queries,
            at: (term, output.answer_epoch, output.answer_clock_ms),
            staleness_epochs: submitted.saturating_sub(output.answer_epoch),
        };
        let Self { planner, long_queries, shared, .. } = self;
        answers.reply(plan.query_jobs, planner, long_queries, &shared.metrics);
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
