//! The fleets of a server: creates, finds and ends them, with one engine thread each.
//!
//! Names are unique, their number is limited. A fleet whose engine failed remains listed until it
//! is deleted, so that operators see it.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, PoisonError, RwLock};

use shoal_engine::{Clock, EngineOptions, Space};
use tokio::sync::{Mutex, oneshot, watch};
use tracing::info;

use super::cycle_planner::CyclePlanner;
use super::cycle_sink::SinkFactory;
use super::engine_thread::{CycleClock, EngineOutputs, EngineThread};
use super::fleet::Fleet;
use super::fleet_name::FleetName;
use super::fleet_shared::{FleetShared, FleetState};
use super::job_queue::{JobQueue, QueueReceivers};
use super::wall_clock::WallClock;
use crate::answer_budget::AnswerBudget;
use crate::engine_choice::EngineFactory;
use crate::error::ServiceError;
use crate::limits::ServerLimits;
use crate::metrics::{FleetMetrics, Metrics};
use crate::subscription::{
    FanOut, FanOutSender, PendingChanges, Pool, SessionHandle, SessionTools, Sessions,
};

/// The properties of a new fleet.
#[derive(Clone, Debug)]
pub struct FleetSpec {
    /// The space of its objects.
    pub space: Space,
    /// What drives its clock.
    pub clock: Clock,
    /// Time to live of its records, milliseconds.
    pub ttl_ms: Option<i64>,
    /// Objects at most.
    pub objects_max: u64,
}

/// All fleets of a server.
#[derive(Debug)]
pub struct Registry {
    engines: EngineFactory,
    sinks: Option<SinkFactory>,
    limits: ServerLimits,
    clock: CycleClock,
    metrics: Arc<Metrics>,
    answers: Arc<AnswerBudget>,
    pool: Arc<Pool>,
    fleets: RwLock<BTreeMap<FleetName, Arc<Fleet>>>,
    /// Held while a fleet is created or deleted, so that names are unique and their number limited.
    changing: Mutex<()>,
}

impl Registry {
    /// A server without fleets.
    #[must_use]
    pub fn new(
        engines: EngineFactory,
        sinks: Option<SinkFactory>,
        limits: ServerLimits,
        wall: WallClock,
        time_ahead_max_ms: i64,
        metrics: Arc<Metrics>,
    ) -> Self {
        let clock = CycleClock { wall, time_ahead_max_ms };
        let (fleets, changing) = (RwLock::default(), Mutex::default());
        let gauge = metrics.answer_bytes.clone();
        let answers = Arc::new(AnswerBudget::new(limits.answer_bytes_max as u64, gauge));
        let pool = Pool::new(limits.subscription_bytes_max as u64);
        Self { engines, sinks, limits, clock, metrics, answers, pool, fleets, changing }
    }

    /// The memory for answers and large snapshots of all fleets.
    pub(crate) fn answers(&self) -> Arc<AnswerBudget> {
        self.answers.clone()
    }

    fn sessions(
        &self,
        options: &EngineOptions,
        metrics: FleetMetrics,
        pending: PendingChanges,
    ) -> Arc<Sessions> {
        let tools = SessionTools {
            space: options.space,
            answers: self.answers.clone(),
            pool: self.pool.clone(),
            metrics,
            bytes_max: self.limits.session_bytes_max,
            messages_max: self.limits.session_messages_max,
        };
        Arc::new(Sessions::new(tools, pending, options.term, self.limits.clone()))
    }

    /// Name of the engine that runs the fleets.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.engines.name
    }

    /// Creates a fleet and starts its engine.
    ///
    /// # Errors
    /// [`ServiceError::FleetExists`], [`ServiceError::Limit`], [`ServiceError::EngineUnavailable`],
    /// [`ServiceError::Engine`] without memory for it, [`ServiceError::Io`] without a thread for
    /// it; those of its sink.
    pub async fn create(
        &self,
        name: FleetName,
        spec: FleetSpec,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let _changing = self.changing.lock().await;
        let count =
            self.read(|fleets| if fleets.contains_key(&name) { None } else { Some(fleets.len()) });
        let count = count.ok_or_else(|| ServiceError::FleetExists(name.as_str().into()))?;
        if count >= self.limits.fleets_max {
            let (value, limit) = (count as u64 + 1, self.limits.fleets_max as u64);
            return Err(ServiceError::Limit { what: "the number of fleets", value, limit });
        }
        let fleet = self.start(name.clone(), spec).await?;
        info!(
            fleet = %name, space = %fleet.space(), clock = ?fleet.options().clock,
            ttl_ms = fleet.options().ttl_ms, term = fleet.term(), "fleet created"
        );
        self.write(|fleets| fleets.insert(name, fleet.clone()));
        Ok(fleet)
    }

    async fn start(&self, name: FleetName, spec: FleetSpec) -> Result<Arc<Fleet>, ServiceError> {
        let FleetSpec { space, clock, ttl_ms, objects_max } = spec;
        let io = |what: String| move |source| ServiceError::Io { what, source };
        let term = getrandom::u64()
            .map_err(|error| io("drawing a term".into())(std::io::Error::other(error)))?;
        let events_max = self.limits.cycle_events_max;
        let options = EngineOptions { space, clock, ttl_ms, objects_max, events_max, term };
        let metrics = self.metrics.fleet(name.as_str());
        let (wake, wakeups) = crossbeam_channel::bounded(1);
        let sessions = self.sessions(&options, metrics.clone(), PendingChanges::new(wake));
        let (handing, works) = FanOut::works(sessions.clone());
        let shared = Arc::new(FleetShared::new(name.clone(), options, metrics, sessions));
        let (queue, receivers) = JobQueue::new(&self.limits, wakeups);
        let (ended_sender, ended) = watch::channel(false);
        let (started_sender, started) = oneshot::channel();
        let body = self.thread_body(shared.clone(), receivers, handing, started_sender);
        let thread = |what: &str| std::thread::Builder::new().name(format!("{what}-{name}"));
        for (what, work) in works {
            thread(what)
                .spawn(work)
                .map_err(io(format!("starting the event threads of fleet {name}")))?;
        }
        let thread = thread("fleet");
        thread
            .spawn(move || {
                body();
                // An error means that nothing waits for the end.
                let _ = ended_sender.send(true);
            })
            .map_err(io(format!("starting the thread of fleet {name}")))?;
        match started.await {
            Ok(result) => result.map(|()| Arc::new(Fleet::new(shared, queue, ended))),
            Err(_) => Err(ServiceError::FleetFailed(name.as_str().into())),
        }
    }

    /// The engine starts on its own thread: that may take a while and touch much memory.
    fn thread_body(
        &self,
        shared: Arc<FleetShared>,
        receivers: QueueReceivers,
        fan_out: FanOutSender,
        started: oneshot::Sender<Result<(), ServiceError>>,
    ) -> impl FnOnce() + Send + 'static {
        let (start, sinks) = (self.engines.start.clone(), self.sinks.clone());
        let clock = self.clock.clone();
        let planner = CyclePlanner::new(receivers, &self.limits, shared.sessions.clone());
        let start = move |shared: &FleetShared| {
            let backend = start(shared.options.clone())?;
            let sink = sinks.map(|sinks| sinks.open(&shared.name, &shared.options)).transpose()?;
            Ok(EngineOutputs { backend, sink, fan_out })
        };
        move || match start(&shared) {
            Ok(engine) => {
                if started.send(Ok(())).is_ok() {
                    EngineThread::new(engine, planner, clock, shared).run();
                }
            }
            // A closed channel means that the caller left.
            Err(error) => drop(started.send(Err(error))),
        }
    }

    /// The fleet of that name.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`].
    pub fn find(&self, name: &FleetName) -> Result<Arc<Fleet>, ServiceError> {
        let fleet = self.read(|fleets| fleets.get(name).cloned());
        fleet.ok_or_else(|| ServiceError::FleetUnknown(name.as_str().into()))
    }

    /// The fleet in a field of a request; empty is `default`.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`], [`ServiceError::FleetUnknown`].
    pub fn find_requested(&self, field: &str, name: &str) -> Result<Arc<Fleet>, ServiceError> {
        self.find(&FleetName::of_request(field, name)?)
    }

    /// Confirms that no other fleet owns the session of a handle.
    ///
    /// # Errors
    /// [`ServiceError::SessionOtherFleet`].
    pub(crate) fn check_session_fleet(
        &self,
        handle: &SessionHandle,
        requested: &Fleet,
    ) -> Result<(), ServiceError> {
        if handle.term == requested.term() {
            return Ok(());
        }
        let owner = self.list().into_iter().find(|fleet| fleet.term() == handle.term);
        owner.map_or(Ok(()), |owner| {
            Err(ServiceError::SessionOtherFleet {
                fleet: requested.name().as_str().into(),
                session_fleet: owner.name().as_str().into(),
            })
        })
    }

    /// All fleets by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Fleet>> {
        self.read(|fleets| fleets.values().cloned().collect())
    }

    /// Up to `count` fleets by name after the given one, and whether more follow.
    #[must_use]
    pub fn list_page(&self, after: Option<&FleetName>, count: usize) -> (Vec<Arc<Fleet>>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.read(|fleets| {
            let mut rest = fleets.range((from, Bound::Unbounded)).map(|(_, fleet)| fleet.clone());
            let page = rest.by_ref().take(count).collect();
            (page, rest.next().is_some())
        })
    }

    /// Ends a fleet and deletes it; returns when its memory is free.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`].
    pub async fn delete(&self, name: &FleetName) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        let fleet = self.write(|fleets| fleets.remove(name));
        let fleet = fleet.ok_or_else(|| ServiceError::FleetUnknown(name.as_str().into()))?;
        fleet.end(FleetState::Deleted).await;
        self.metrics.forget(name.as_str());
        info!(fleet = %name, "fleet deleted");
        Ok(())
    }

    /// Ends all engines; the fleets stay listed.
    pub async fn shut_down(&self) {
        let _changing = self.changing.lock().await;
        for fleet in self.list() {
            fleet.end(FleetState::ShutDown).await;
        }
    }

    /// True unless the engine of some fleet failed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let failed = |fleet: &Arc<Fleet>| fleet.state() == FleetState::Failed;
        self.read(|fleets| !fleets.values().any(failed))
    }

    // A panic while the lock is held leaves the map consistent: each change is one call.
    fn read<T>(&self, use_map: impl FnOnce(&BTreeMap<FleetName, Arc<Fleet>>) -> T) -> T {
        use_map(&self.fleets.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn write<T>(&self, use_map: impl FnOnce(&mut BTreeMap<FleetName, Arc<Fleet>>) -> T) -> T {
        use_map(&mut self.fleets.write().unwrap_or_else(PoisonError::into_inner))
    }
}
