//! Runs a plan: connects, opens the fleet, starts all tasks, starts the clock when they are ready,
//! waits for the end and the verifier, and deletes the fleet, also after an error.

use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use shoal_client::Quantizer;
use shoal_engine::{Backend as _, EngineOptions, Model, Snapshot};
use shoal_proto::v1::Fleet;
use tokio::sync::{mpsc, watch};
use tokio::task::JoinError;
use tokio::time::{Duration, Instant, MissedTickBehavior, interval};

use crate::connect::connect;
use crate::error::LoadError;
use crate::fleet::RunFleet;
use crate::limits::{STALL_S_MAX, VERIFY_PAST_CHANGES_MAX};
use crate::measure::progress::show_progress;
use crate::measure::{Counters, Summary, Totals, write_json};
use crate::names::Names;
use crate::plan::RunPlan;
use crate::session::Session;
use crate::subscription::EpochTimes;
use crate::subscription::spawn::{self as sessions, Subscribers};
use crate::tasks::{Tasks, open_workload, spawn, spawn_history, starters};
use crate::verify::{Expected, Past, Verifier};

/// The server's tolerance for event times ahead of its clock, milliseconds. No workload generates
/// times near this limit, so small clock differences have no effect.
const TIME_AHEAD_MAX_MS: i64 = 60_000;

/// Runs a plan; `stop` ends it early and gracefully.
///
/// # Errors
/// [`LoadError`]; mismatches and refused rows are not errors but are in the summary.
pub async fn run(plan: RunPlan, stop: watch::Receiver<bool>) -> Result<Summary, LoadError> {
    run_with_start(plan, stop, watch::Sender::new(None)).await
}

/// As [`run`]; `start` receives the moment at which the clock starts.
///
/// # Errors
/// As [`run`].
pub async fn run_with_start(
    plan: RunPlan,
    stop: watch::Receiver<bool>,
    start: watch::Sender<Option<Instant>>,
) -> Result<Summary, LoadError> {
    let space = open_workload(&plan, 0)?.space();
    let control = connect(&plan.flags.target).await?;
    let fleet = RunFleet::open(control, &plan, space).await?;
    let driven = match wait_for_copy(&plan, &fleet).await {
        Ok(()) => drive(&plan, &fleet, stop, start).await,
        Err(error) => Err(error),
    };
    let closed = fleet.close().await;
    let summary = driven?;
    closed?;
    if let Some(file) = &plan.flags.json {
        write_json(&summary, file)?;
    }
    Ok(summary)
}

/// Waits until the follower that is to be queried has the fleet, if there is one.
async fn wait_for_copy(plan: &RunPlan, fleet: &RunFleet) -> Result<(), LoadError> {
    match &plan.flags.follower {
        Some(follower) => fleet.wait_for_copy(&connect(follower).await?).await,
        None => Ok(()),
    }
}

/// The tasks of a run and their signals.
struct Drive {
    session: Arc<Session>,
    tasks: Tasks,
    subscribers: Subscribers,
    /// True once all rows were sent and acknowledged.
    quiet: watch::Sender<bool>,
    ready: mpsc::UnboundedReceiver<()>,
    start: watch::Sender<Option<Instant>>,
    totals: Totals,
}

async fn drive(
    plan: &RunPlan,
    fleet: &RunFleet,
    stop: watch::Receiver<bool>,
    start: watch::Sender<Option<Instant>>,
) -> Result<Summary, LoadError> {
    let counters = Arc::new(Counters::default());
    let names = plan.flags.named.then(Arc::<Names>::default);
    let verifier = match plan.verify_share {
        Some(_) => Some(verifier(plan, fleet, names.clone(), &counters)?),
        None => None,
    };
    let (ready, are_ready) = mpsc::unbounded_channel();
    let session = Arc::new(Session {
        plan: plan.clone(),
        fleet: fleet.fleet.name.clone(),
        space: fleet.space,
        quantizer: Quantizer::new(fleet.fleet.space.as_ref()),
        shift_ms: shift_ms(plan, fleet.fleet.clock_ms),
        seen: Arc::default(),
        names,
        counters: Arc::clone(&counters),
        verifier: verifier.as_ref().map(Verifier::link),
        times: plan.subscription.as_ref().map(|_| Arc::new(EpochTimes::new(plan.connections()))),
        ready,
        start: start.subscribe(),
        stop: stop.clone(),
    });
    let progress = tokio::spawn(show_progress(Arc::clone(&counters), verifier.is_some()));
    let mut drive = Drive {
        session,
        tasks: Tasks::new(),
        subscribers: Subscribers::new(),
        quiet: watch::Sender::new(false),
        ready: are_ready,
        start,
        totals: Totals::default(),
    };
    let ran = drive.run().await;
    // Dropping the set aborts all running tasks.
    let Drive { totals, start, .. } = drive;
    let verdict = finish(verifier).await;
    progress.abort();
    ran?;
    let started = *start.borrow();
    let mut summary = totals.summary(plan, started, counters.preloaded.get());
    summary.interrupted = *stop.borrow();
    summary.fleet_objects = fleet.objects().await?;
    if let Some(verdict) = verdict? {
        summary.add_verdict(verdict);
    }
    Ok(summary)
}

/// Starts the verifier of an empty fleet.
fn verifier(
    plan: &RunPlan,
    fleet: &RunFleet,
    names: Option<Arc<Names>>,
    counters: &Arc<Counters>,
) -> Result<Verifier, LoadError> {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let time_max_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX) + TIME_AHEAD_MAX_MS;
    let Fleet { name, term, epoch, clock_ms, .. } = fleet.fleet.clone();
    let ttl_ms = fleet.ttl_ms();
    let options = EngineOptions { ttl_ms, term, ..EngineOptions::new(fleet.space) };
    let mut model = Model::new(options);
    let empty = Snapshot { term, epoch, clock_ms, batches: Vec::new() };
    model.import(empty).map_err(|error| LoadError::Task(error.to_string()))?;
    let asks_past = plan.flags.history_queries > 0;
    let past = asks_past.then(|| Past::new(ttl_ms, VERIFY_PAST_CHANGES_MAX));
    let expected = Expected { fleet: name, time_max_ms, past, names };
    Verifier::start(model, expected, plan.connections(), Arc::clone(counters))
        .map_err(|error| LoadError::Task(format!("no thread for the verifier: {error}")))
}

/// Waits for the oracle's verdict without blocking the runtime.
async fn finish(verifier: Option<Verifier>) -> Result<Option<crate::verify::Verdict>, LoadError> {
    let Some(verifier) = verifier else {
        return Ok(None);
    };
    let verdict = tokio::task::spawn_blocking(move || verifier.finish()).await;
    verdict.map_err(|error| broken(&error))?.map(Some).map_err(LoadError::Task)
}

/// Time shift, in whole steps, that moves a generator's times past the clock of a reused fleet; 0
/// for real data.
fn shift_ms(plan: &RunPlan, clock_ms: i64) -> i64 {
    if plan.flags.workload.starts_with("replay:") || clock_ms < shoal_workload::START_MS {
        return 0;
    }
    let step_ms = plan.params.step_ms;
    ((clock_ms - shoal_workload::START_MS) / step_ms + 1).saturating_mul(step_ms)
}

/// Converts the error of a task that panicked or was cancelled.
fn broken(error: &JoinError) -> LoadError {
    LoadError::Task(error.to_string())
}

impl Drive {
    /// Starts all tasks, then the clock, and waits for all; subscribers end after all other tasks.
    async fn run(&mut self) -> Result<(), LoadError> {
        let plan = &self.session.plan;
        let (connections, starters) = (plan.connections(), starters(plan));
        for connection in 0..connections {
            spawn(&self.session, connection, &mut self.tasks).await?;
        }
        let askers = spawn_history(&self.session, &mut self.tasks).await?;
        let sessions = self.spawn_subscribers().await? + askers;
        let mut waited_for = u64::from(connections) * u64::from(starters) + u64::from(sessions);
        let mut watchdog = Watchdog::new(&self.session.counters);
        let mut ticks = interval(Duration::from_secs(1));
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                Some(()) = self.ready.recv(), if waited_for > 0 => {
                    waited_for -= 1;
                    if waited_for == 0 {
                        self.start.send_replace(Some(Instant::now()));
                    }
                }
                done = self.tasks.join_next(), if !*self.quiet.borrow() => match done {
                    None => drop(self.quiet.send_replace(true)),
                    Some(outcome) => self.totals.add(outcome.map_err(|error| broken(&error))??),
                },
                Some(followed) = self.subscribers.join_next() => {
                    self.totals.add_followed(&followed.map_err(|error| broken(&error))??);
                }
                _ = ticks.tick() => watchdog.check(&self.session.counters)?,
            }
            if *self.quiet.borrow() && self.subscribers.is_empty() {
                return Ok(());
            }
        }
    }

    /// Starts the sessions of subscribers; returns their number.
    async fn spawn_subscribers(&mut self) -> Result<u32, LoadError> {
        let session = &self.session;
        let (Some(plan), Some(times)) = (&session.plan.subscription, &session.times) else {
            return Ok(0);
        };
        sessions::spawn(session, plan, times, &self.quiet.subscribe(), &mut self.subscribers).await
    }
}

/// Detects a stall of acks and answers.
struct Watchdog {
    arrivals: u64,
    since: Instant,
}

impl Watchdog {
    fn new(counters: &Counters) -> Self {
        Self { arrivals: counters.arrivals.get(), since: Instant::now() }
    }

    fn check(&mut self, counters: &Counters) -> Result<(), LoadError> {
        let arrivals = counters.arrivals.get();
        let (reports, queries) =
            (counters.reports_in_flight.get(), counters.query_messages_in_flight.get());
        if arrivals != self.arrivals || reports + queries == 0 {
            *self = Self::new(counters);
            return Ok(());
        }
        let waited_s = self.since.elapsed().as_secs();
        if waited_s < STALL_S_MAX {
            return Ok(());
        }
        Err(LoadError::Stalled { waited_s, reports, queries })
    }
}
