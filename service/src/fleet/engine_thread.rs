//! How does one fleet's engine run?
//!
//! A thread of its own: waits for work, plans a cycle, submits it, tells everybody what became of
//! it. Idle, a request starts a cycle at once; under load cycles run back to back and batch by
//! themselves. Only an engine that answers one epoch late gains from a second cycle in flight.
//! When the thread ends, for whatever reason, every job it held is told why.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use crossbeam_channel::{Select, TryRecvError};
use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_engine::{Backend, Clock, CycleOutput, EngineError, Ticket};
use tracing::error;

use super::answered::Answered;
use super::job::ChangeReply;
use super::planner::{Plan, PlannedChange, Planner};
use super::queue::QueueEnds;
use super::shared::{FleetState, Shared};
use super::wall_clock::WallClock;
use crate::limits::IDLE_CYCLE_MS;
use crate::subscription::{EpochStamp, FanOutInput, FanOutSender};

/// Time and its tolerance, as the engine thread needs them.
#[derive(Clone, Debug)]
pub(super) struct CycleClock {
    pub(super) wall: WallClock,
    pub(super) time_ahead_max_ms: i64,
}

/// A cycle that was submitted.
struct Flight {
    ticket: Ticket,
    plan: Plan,
    started: Instant,
}

/// See the file's head.
pub(super) struct EngineThread {
    backend: Box<dyn Backend>,
    planner: Planner,
    clock: CycleClock,
    shared: Arc<Shared>,
    fan_out: FanOutSender,
    in_flight: VecDeque<Flight>,
    in_flight_max: usize,
    epoch_submitted: u64,
}

/// When the thread ends, even by a panic: marks the fleet as failed unless it was told to end, then
/// drops what waits.
struct EndMark {
    shared: Arc<Shared>,
    ends: QueueEnds,
}

impl Drop for EndMark {
    fn drop(&mut self) {
        self.shared.end(FleetState::Failed);
        self.ends.drain();
    }
}

enum Wake {
    Work,
    Due,
    Stop,
}

/// A device that failed ends the engine; for want of memory, or beyond a limit, nothing happened.
fn goes_on(fault: EngineError) -> Result<(), EngineError> {
    if matches!(fault, EngineError::Device(_)) { Err(fault) } else { Ok(()) }
}

impl EngineThread {
    pub(super) fn new(
        backend: Box<dyn Backend>,
        planner: Planner,
        clock: CycleClock,
        shared: Arc<Shared>,
        fan_out: FanOutSender,
    ) -> Self {
        let in_flight_max = if backend.answer_lag() == 0 { 1 } else { CYCLES_IN_FLIGHT_MAX };
        let in_flight = VecDeque::with_capacity(in_flight_max);
        let epoch_submitted = 0;
        Self { backend, planner, clock, shared, fan_out, in_flight, in_flight_max, epoch_submitted }
    }

    /// Runs until the fleet is stopped, its callers are gone or its engine fails.
    pub(super) fn run(mut self) {
        let mark = EndMark { shared: self.shared.clone(), ends: self.planner.ends.clone() };
        loop {
            match self.wait_for_work() {
                Wake::Stop => break,
                Wake::Work | Wake::Due => {}
            }
            if let Err(fault) = self.turn() {
                error!(fleet = %self.shared.name, %fault, "the engine failed");
                self.settle_rest();
                break;
            }
        }
        // Before the jobs under way are dropped, so that they learn the reason.
        drop(mark);
    }

    /// Submits one cycle; settles the oldest unless another can overlap with it.
    fn turn(&mut self) -> Result<(), EngineError> {
        self.submit()?;
        while self.in_flight.len() >= self.in_flight_max
            || (!self.in_flight.is_empty() && !self.planner.has_work())
        {
            self.settle_oldest()?;
        }
        Ok(())
    }

    fn wait_for_work(&self) -> Wake {
        let ends = &self.planner.ends;
        let mut select = Select::new();
        select.recv(&ends.changes);
        select.recv(&ends.queries);
        select.recv(&ends.subscriptions);
        select.recv(&ends.pokes);
        select.recv(&ends.control);
        loop {
            // A stop waits there, or all callers' handles are gone.
            if !matches!(ends.control.try_recv(), Err(TryRecvError::Empty)) {
                return Wake::Stop;
            }
            if self.planner.has_work() {
                return Wake::Work;
            }
            // Readiness may be spurious: it only ends the wait.
            let ready = select.ready_timeout(Duration::from_millis(IDLE_CYCLE_MS));
            if ready.is_err() && self.is_due() {
                return Wake::Due;
            }
        }
    }

    /// Whether time alone makes a cycle worth running. An event clock stands while nothing comes
    /// in.
    fn is_due(&self) -> bool {
        let due_ms = self.backend.due_ms();
        self.shared.options.clock == Clock::System
            && due_ms.is_some_and(|due_ms| due_ms <= self.clock.wall.now_ms())
    }

    fn submit(&mut self) -> Result<(), EngineError> {
        let started = Instant::now();
        let epoch = self.epoch_submitted + 1;
        let answer_epoch = epoch.saturating_sub(self.backend.answer_lag());
        let mut plan = self.planner.plan(answer_epoch);
        let now_ms = self.clock.wall.now_ms();
        let time_max_ms = now_ms.saturating_add(self.clock.time_ahead_max_ms);
        self.shared.metrics.count_queries(&plan.queries);
        let input = plan.input(now_ms, time_max_ms);
        match self.backend.submit(input) {
            Ok(ticket) => {
                self.epoch_submitted = epoch;
                self.in_flight.push_back(Flight { ticket, plan, started });
                Ok(())
            }
            Err(fault) => {
                self.refuse(plan, &fault);
                goes_on(fault)
            }
        }
    }

    /// A cycle that was not applied: its jobs are told.
    fn refuse(&mut self, plan: Plan, fault: &EngineError) {
        for change in plan.changes {
            if let (Some(batch), true) = (&change.batch, change.is_fresh) {
                self.planner.producers.settle(batch, false);
            }
            // Nobody waiting is nobody to tell.
            let _ = change.reply.send(ChangeReply::Refused(fault.clone().into()));
        }
        for asked in plan.asked {
            let _ = asked.reply.send(Err(fault.clone()));
        }
        self.planner.regions.refuse(plan.regions, fault);
    }

    /// After the engine has ended: what had been done before is told, and to each cycle that was
    /// not the reason.
    fn settle_rest(&mut self) {
        while !self.in_flight.is_empty() {
            // Why it ended is logged already.
            let _ = self.settle_oldest();
        }
    }

    fn settle_oldest(&mut self) -> Result<(), EngineError> {
        let Some(Flight { ticket, plan, started }) = self.in_flight.pop_front() else {
            return Ok(());
        };
        let output = match self.backend.wait(ticket) {
            Ok(output) => output,
            Err(fault) => {
                self.refuse(plan, &fault);
                // The next cycle takes its epoch, and nobody waits for one that is still to come.
                self.epoch_submitted -= 1;
                return goes_on(fault);
            }
        };
        let memory_bytes = self.backend.memory_bytes();
        let cycles_in_flight = self.in_flight.len() as u64;
        // The view first: whoever holds this cycle's token may ask for its epoch at once.
        self.shared.update_view(|view| {
            view.take(&output, memory_bytes);
            view.cycles_in_flight = cycles_in_flight;
        });
        self.shared.metrics.count_cycle(&output, started.elapsed().as_secs_f64());
        self.reply(plan, output);
        Ok(())
    }

    fn reply(&mut self, plan: Plan, output: CycleOutput) {
        let epoch = output.epoch;
        self.planner.reuse(output.queries);
        debug_assert!(epoch <= self.epoch_submitted, "epochs count submitted cycles");
        self.planner.regions.settle(plan.regions, epoch, &self.fan_out);
        if !self.shared.sessions.is_empty() {
            let stamp = EpochStamp { epoch, clock_ms: output.clock_ms };
            // A thread that is gone has ended the sessions.
            let _ = self.fan_out.send(FanOutInput::Events(stamp, output.events));
        }
        let mut outcomes = output.requests.into_iter();
        for PlannedChange { batch, is_fresh, reply, _permit } in plan.changes {
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
        if let Some(fault) = output.unanswered {
            for asked in plan.asked {
                let _ = asked.reply.send(Err(fault.clone()));
            }
            return;
        }
        let set = Arc::new(output.answers);
        let staleness = self.epoch_submitted.saturating_sub(output.answer_epoch);
        let at = (output.answer_epoch, output.answer_clock_ms);
        let mut first = 0;
        for asked in plan.asked {
            let answered = Answered::new(set.clone(), first, asked.count, at, staleness);
            first += asked.count;
            let _ = asked.reply.send(Ok(answered));
        }
    }
}
