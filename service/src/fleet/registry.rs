//! The fleets of a server: creates, finds and ends them, with one engine thread each.
//!
//! Names are unique, and the number of fleets is limited. A fleet whose engine failed remains
//! listed until it is deleted, so that operators see it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use shoal_engine::{EngineOptions, HashKey};
use shoal_history::PageMemory;
use shoal_position_log::{LogError, Terms};
use tokio::sync::{Mutex, watch};
use tracing::{info, warn};

use super::cycle_planner::CyclePlanner;
use super::engine_thread::{CycleClock, EngineOutputs, EngineThread};
use super::fleet::Fleet;
use super::fleet_shared::{FleetPersistence, FleetShared, FleetState};
use super::fleet_view::FleetView;
use super::job_queue::JobQueue;
use crate::answer_budget::AnswerBudget;
use crate::cycle::{
    CurrentName, CycleSink, Durability, FleetName, FleetSpec, NumberedEngine, Producers,
    SharedTerms, SinkFactory, WallClock,
};
use crate::engine_choice::EngineFactory;
use crate::error::ServiceError;
use crate::limits::{FENCE_WAIT_MS, RECOVERY_PROGRESS_MS, ServerLimits};
use crate::metrics::{FleetMetrics, Metrics};
use crate::names::NameTable;
use crate::persistence::{
    DataFolder, FleetFolder, FleetLog, HistoryKeep, LogCondition, LogReading, RecoveredFleet,
    RecoveryTools, StoredRole, random, recover,
};
use crate::subscription::{
    FanOut, MessageFormat, PendingChanges, Pool, SessionHandle, SessionTools, Sessions,
};
use crate::threads::{blocking, spawn};

/// Engine, sink and recovered state with which a fleet starts.
struct FleetStart {
    backend: NumberedEngine,
    sink: Option<Box<dyn CycleSink>>,
    producers: Producers,
    view: FleetView,
    terms: Arc<SharedTerms>,
    log: Option<Arc<FleetLog>>,
}

/// All fleets of a server.
#[derive(Debug)]
pub struct Registry {
    engines: EngineFactory,
    sinks: Option<SinkFactory>,
    /// Where fleets are kept across restarts, if anywhere.
    pub(super) data: Option<DataFolder>,
    /// How much of the past the fleets of `data` keep, if any.
    pub(super) history: Option<HistoryKeep>,
    /// Address of the leader, on a follower.
    pub(super) leader: RwLock<Option<Arc<str>>>,
    /// Set once the fleets of `data` are recovered and `default` exists.
    is_ready: AtomicBool,
    /// Set when the server shuts down.
    is_stopping: Arc<AtomicBool>,
    pub(super) limits: ServerLimits,
    pub(super) clock: CycleClock,
    pub(super) metrics: Arc<Metrics>,
    answers: Arc<AnswerBudget>,
    pool: Arc<Pool>,
    fleets: RwLock<BTreeMap<FleetName, Arc<Fleet>>>,
    /// Fleets of the leader that are being copied.
    pub(super) copying: std::sync::Mutex<BTreeSet<FleetName>>,
    /// Set during a promotion: no copy may be installed.
    pub(super) is_promoting: AtomicBool,
    /// Copies of fleets that the leader does not have any more.
    pub(super) orphans: std::sync::Mutex<BTreeSet<FleetName>>,
    /// Held while a fleet is created or deleted, so that names are unique and their number limited.
    pub(super) changing: Mutex<()>,
    /// Held by disk work for copies in progress, which may outlive its caller.
    pub(super) copying_disk: Arc<tokio::sync::RwLock<()>>,
}

impl Registry {
    /// A server without fleets.
    #[must_use]
    pub fn new(
        engines: EngineFactory,
        sinks: Option<SinkFactory>,
        data: Option<DataFolder>,
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
        let (is_ready, is_stopping) = (AtomicBool::new(false), Arc::default());
        Self {
            engines,
            sinks,
            data,
            history: None,
            leader: RwLock::default(),
            is_ready,
            is_stopping,
            limits,
            clock,
            metrics,
            answers,
            pool,
            fleets,
            copying: Default::default(),
            orphans: Default::default(),
            is_promoting: AtomicBool::new(false),
            changing,
            copying_disk: Arc::default(),
        }
    }

    /// The memory for answers and large snapshots of all fleets.
    pub(crate) fn answers(&self) -> Arc<AnswerBudget> {
        self.answers.clone()
    }

    fn sessions(
        &self,
        term: u64,
        format: MessageFormat,
        metrics: FleetMetrics,
        pending: PendingChanges,
    ) -> Arc<Sessions> {
        let tools = SessionTools {
            format,
            answers: self.answers.clone(),
            pool: self.pool.clone(),
            metrics,
            bytes_max: self.limits.session_bytes_max,
            events_max: self.limits.session_events_max,
            messages_max: self.limits.session_messages_max,
        };
        Arc::new(Sessions::new(tools, pending, term, self.limits.clone()))
    }

    /// Memory for pages of all histories.
    pub(crate) fn history_pages(&self) -> &PageMemory {
        &self.engines.history_pages
    }

    /// Name of the engine that runs the fleets.
    #[must_use]
    pub fn engine_name(&self) -> &'static str {
        self.engines.name
    }

    /// Creates a fleet and starts its engine.
    ///
    /// # Errors
    /// [`ServiceError::Follower`], [`ServiceError::ServerFenced`], [`ServiceError::FleetExists`],
    /// [`ServiceError::Limit`], [`ServiceError::EngineUnavailable`],
    /// [`ServiceError::Engine`] if there is not enough memory for it, [`ServiceError::Io`] if its
    /// thread cannot be started; errors of its sink.
    pub async fn create(
        &self,
        name: FleetName,
        spec: FleetSpec,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let _changing = self.changing.lock().await;
        self.check_leader()?;
        let count =
            self.read(|fleets| if fleets.contains_key(&name) { None } else { Some(fleets.len()) });
        let count = count.ok_or_else(|| ServiceError::FleetExists(name.as_str().into()))?;
        if count >= self.limits.fleets_max {
            let (value, limit) = (count as u64 + 1, self.limits.fleets_max as u64);
            return Err(ServiceError::Limit { what: "the number of fleets", value, limit });
        }
        let folder = match &self.data {
            Some(data) => Some(
                blocking({
                    let (data, name, spec) = (data.clone(), name.clone(), spec.clone());
                    move || data.add(&name, &spec)
                })
                .await?,
            ),
            None => None,
        };
        let started = self.start(name.clone(), spec, folder.clone()).await;
        let fleet = match (started, self.data.clone().zip(folder)) {
            (Ok(fleet), _) => fleet,
            (Err(error), Some((data, folder))) => {
                let removed = blocking(move || {
                    data.unlist(&folder)?;
                    data.remove_files(&folder)
                });
                if let Err(error) = removed.await {
                    warn!(fleet = %name, %error, "files of a fleet that was not created remain");
                }
                return Err(error);
            }
            (Err(error), None) => return Err(error),
        };
        info!(
            fleet = %name, space = %fleet.space(), clock = ?fleet.options().clock,
            ttl_ms = fleet.options().ttl_ms, term = fleet.term(), "fleet created"
        );
        self.write(|fleets| fleets.insert(name, fleet.clone()));
        Ok(fleet)
    }

    /// Starts the fleets in the data folder.
    ///
    /// # Errors
    /// [`ServiceError::Log`]; those of [`Registry::create`].
    pub async fn recover(&self) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        let Some(data) = self.data.clone() else { return Ok(()) };
        let list = data.clone();
        for (name, spec, folder) in blocking(move || list.fleets()).await? {
            if self.leader().is_some() && !data.has_files(&folder) {
                // The server ended after it set this fleet aside and before it unlisted it.
                let data = data.clone();
                blocking(move || data.unlist(&folder)).await?;
                continue;
            }
            if self.read(|fleets| fleets.contains_key(&name)) {
                let file = "fleets.manifest".to_owned();
                let reason = format!("two fleets have the name {name}");
                return Err(LogError::Content { file, offset: 0, reason }.into());
            }
            let fleet = self.start(name.clone(), spec, Some(folder)).await?;
            self.write(|fleets| fleets.insert(name, fleet));
        }
        Ok(())
    }

    /// Whether fleets are kept across restarts.
    #[must_use]
    pub fn has_data(&self) -> bool {
        self.data.is_some()
    }

    /// Accepts requests from now on.
    pub fn set_ready(&self) {
        let opens = Instant::now() + Duration::from_millis(FENCE_WAIT_MS);
        self.list().iter().for_each(|fleet| fleet.open_at(opens));
        self.is_ready.store(true, Ordering::SeqCst);
    }

    /// Confirms that the fleets are recovered.
    ///
    /// # Errors
    /// [`ServiceError::Recovering`].
    pub fn check_ready(&self) -> Result<(), ServiceError> {
        if self.is_ready.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(ServiceError::Recovering { retry_ms: RECOVERY_PROGRESS_MS })
    }

    pub(super) async fn start(
        &self,
        name: FleetName,
        spec: FleetSpec,
        folder: Option<FleetFolder>,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let current = folder.as_ref().map(|folder| folder.name.clone());
        let current = current.unwrap_or_else(|| CurrentName::new(name));
        let started = self.start_as(&current, spec, folder).await;
        started.inspect_err(|_| self.metrics.forget(&current))
    }

    async fn start_as(
        &self,
        current: &CurrentName,
        spec: FleetSpec,
        folder: Option<FleetFolder>,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let name = current.get();
        let event_clock_lead_ms = spec.lead_ms();
        let FleetSpec { kind, space, clock, ttl_ms, objects_max, durability, .. } = spec;
        let (events_max, term) = (self.limits.cycle_events_max, random()?);
        let hash_key = HashKey::new([random()?, random()?]);
        let engine = EngineOptions { hash_key, ..EngineOptions::new(space) };
        let options = EngineOptions { clock, ttl_ms, objects_max, events_max, term, ..engine };
        let metrics = self.metrics.fleet(current);
        let copy = folder.clone();
        let names = kind.names(self.limits.names_max, folder.is_some());
        let start = self
            .fleet_start(&name, options.clone(), names.clone(), metrics.clone(), folder)
            .await?;
        let options = EngineOptions { term: start.terms.current(), ..options };
        let (wake, wakeups) = crossbeam_channel::bounded(1);
        start.log.iter().for_each(|log| log.purge().wakes(wake.clone()));
        let format = MessageFormat { space, names: names.clone() };
        let pending = PendingChanges::new(wake);
        let sessions = self.sessions(options.term, format, metrics.clone(), pending);
        let (handing, fan_out) = FanOut::of_fleet(&name, sessions.clone());
        let level = durability.unwrap_or(match start.log {
            Some(_) => Durability::Logged,
            None => Durability::Applied,
        });
        let persistence = FleetPersistence {
            log: start.log,
            terms: start.terms,
            durability: level,
            event_clock_lead_ms,
            folder: copy,
            names,
        };
        let view = start.view;
        let role = self.first_role(persistence.folder.as_ref(), view.epoch);
        let shared =
            FleetShared::new(current.clone(), options, metrics, sessions, persistence, role, view);
        let shared = Arc::new(shared);
        let (queue, receivers) = JobQueue::new(&self.limits, wakeups);
        let engine = EngineOutputs { backend: start.backend, sink: start.sink, fan_out: handing };
        let (sessions, producers) = (shared.sessions.clone(), start.producers);
        let planner = CyclePlanner::new(receivers, &self.limits, sessions, producers);
        let body = EngineThread::new(engine, planner, self.clock.clone(), shared.clone());
        let (ended_sender, ended) = watch::channel(false);
        spawn(format!("fleet-{name}"), move || {
            body.run();
            // An error means that nothing waits for the end.
            let _ = ended_sender.send(true);
        })?;
        Ok(Arc::new(Fleet::new(shared, queue, fan_out, ended)))
    }

    /// Starts the engine, which may take a while and touch much memory; recovers its state.
    async fn fleet_start(
        &self,
        name: &FleetName,
        options: EngineOptions,
        names: Option<Arc<NameTable>>,
        metrics: FleetMetrics,
        folder: Option<FleetFolder>,
    ) -> Result<FleetStart, ServiceError> {
        let engines = self.engines.clone();
        let sinks = self.sinks.clone();
        let (name, limits, wall) = (name.clone(), self.limits.clone(), self.clock.wall.clone());
        let (is_stopping, follows) = (self.is_stopping.clone(), self.leader().is_some());
        let history = self.history;
        let has_followers = self.data.as_ref().is_some_and(|data| {
            let role = data.role();
            role.has_followers || role.role == StoredRole::Promoted
        });
        blocking(move || {
            let Some(folder) = folder else {
                return Ok(FleetStart {
                    backend: NumberedEngine::new((engines.start)(options.clone())?),
                    sink: sinks.map(|sinks| sinks.open(&name, &options)).transpose()?,
                    producers: Producers::with_limit(limits.producers_max),
                    view: FleetView::default(),
                    terms: Arc::new(SharedTerms::new(Terms::new(options.term, Vec::new()))),
                    log: None,
                });
            };
            let recovered = recover(&RecoveryTools {
                folder: &folder,
                options: &options,
                names: names.as_ref(),
                engines: &engines,
                limits: &limits,
                wall: &wall,
                metrics: &metrics,
                is_stopping: &is_stopping,
                follows,
                has_followers,
                history,
            })?;
            let RecoveredFleet { backend, producers, epoch, clock_ms, terms, sink, log } =
                recovered;
            let (objects, memory_bytes) = (backend.objects(), backend.memory_bytes());
            let view = FleetView { epoch, clock_ms, objects, memory_bytes, ..FleetView::default() };
            let sink: Option<Box<dyn CycleSink>> = Some(Box::new(sink));
            Ok(FleetStart { backend, sink, producers, view, terms, log: Some(log) })
        })
        .await
    }

    /// The fleet of that name.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`].
    pub fn find(&self, name: &FleetName) -> Result<Arc<Fleet>, ServiceError> {
        self.check_ready()?;
        let fleet = self.read(|fleets| fleets.get(name).cloned());
        fleet.ok_or_else(|| self.unknown(name))
    }

    /// The fleet that owns the session of a handle, if it is not the requested fleet.
    pub(crate) fn session_fleet(
        &self,
        handle: &SessionHandle,
        requested: &Fleet,
    ) -> Option<Arc<Fleet>> {
        if handle.term == requested.sessions().term() {
            return None;
        }
        self.list().into_iter().find(|fleet| fleet.sessions().term() == handle.term)
    }

    /// All fleets by name.
    #[must_use]
    pub fn list(&self) -> Vec<Arc<Fleet>> {
        self.read(|fleets| fleets.values().cloned().collect())
    }

    /// Returns up to `count` fleets with visible names, in the order of their names, after the name
    /// `after`. The flag is set if more visible fleets follow.
    #[must_use]
    pub fn list_page(
        &self,
        after: Option<&FleetName>,
        count: usize,
        is_visible: impl Fn(&FleetName) -> bool,
    ) -> (Vec<Arc<Fleet>>, bool) {
        let from = after.map_or(Bound::Unbounded, Bound::Excluded);
        self.read(|fleets| {
            let visible =
                fleets.range((from, Bound::Unbounded)).filter(|(name, _)| is_visible(name));
            let mut rest = visible.map(|(_, fleet)| fleet.clone());
            let page = rest.by_ref().take(count).collect();
            (page, rest.next().is_some())
        })
    }

    /// Ends a fleet and deletes it; returns when its memory is free.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`], [`ServiceError::Follower`], [`ServiceError::ServerFenced`];
    /// [`ServiceError::Log`]: then the fleet is still there.
    pub async fn delete(&self, name: &FleetName) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        self.check_deletable(name)?;
        let fleet = self.find(name)?;
        // Unlist first: if that fails, the fleet keeps running.
        let stored = self.data.clone().zip(fleet.folder().cloned());
        if let Some((data, folder)) = stored.clone() {
            blocking(move || data.unlist(&folder)).await?;
        }
        self.write(|fleets| fleets.remove(name));
        fleet.end(FleetState::Deleted).await;
        if let Some((data, folder)) = stored
            && let Err(error) = blocking(move || data.remove_files(&folder)).await
        {
            warn!(fleet = %name, %error, "files of the deleted fleet remain");
        }
        self.metrics.forget(fleet.current_name());
        info!(fleet = %name, "fleet deleted");
        Ok(())
    }

    /// Gives a fleet another name. Its engine, streams and sessions continue.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`], [`ServiceError::FleetExists`], [`ServiceError::Follower`],
    /// [`ServiceError::ServerFenced`]; [`ServiceError::Log`]: then it has the old name, and after a
    /// restart either name.
    pub async fn rename(
        &self,
        name: &FleetName,
        new_name: FleetName,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let _changing = self.changing.lock().await;
        self.check_leader()?;
        let fleet = self.find(name)?;
        if *name == new_name {
            return Ok(fleet);
        }
        if self.read(|fleets| fleets.contains_key(&new_name)) {
            return Err(ServiceError::FleetExists(new_name.as_str().into()));
        }
        let id = fleet.folder().map(|folder| folder.identity.id);
        let listed = id.map(|id| (id, new_name.clone())).into_iter().collect();
        self.rename_all(listed, vec![(fleet.clone(), new_name)]).await?;
        Ok(fleet)
    }

    /// Gives listed fleets, by their ids, and those of them that run new names, which no other fleet
    /// has; the caller holds `changing`.
    pub(super) async fn rename_all(
        &self,
        listed: BTreeMap<u128, FleetName>,
        renamed: Vec<(Arc<Fleet>, FleetName)>,
    ) -> Result<(), ServiceError> {
        if let Some(data) = self.data.clone() {
            blocking(move || data.rename_fleets(&listed)).await?;
        }
        self.write(|fleets| {
            for (fleet, _) in &renamed {
                fleets.remove(&fleet.name());
            }
            for (fleet, new_name) in renamed {
                info!(fleet = %fleet.name(), %new_name, "fleet renamed");
                fleet.current_name().set(new_name.clone());
                fleets.insert(new_name, fleet);
            }
        });
        Ok(())
    }

    /// Ends all engines; the fleets stay listed.
    pub async fn shut_down(&self) {
        self.is_stopping.store(true, Ordering::SeqCst);
        let _changing = self.changing.lock().await;
        for fleet in self.list() {
            fleet.end(FleetState::ShutDown).await;
        }
    }

    /// Whether the fleets are recovered and no engine or log of a fleet has failed.
    #[must_use]
    pub fn is_healthy(&self) -> bool {
        let failed = |fleet: &Arc<Fleet>| {
            fleet.state() == FleetState::Failed || fleet.log().is_some_and(|log| log.has_failed())
        };
        self.check_ready().is_ok() && self.read(|fleets| !fleets.values().any(failed))
    }

    /// Confirms, after [`Registry::shut_down`], that the logs hold everything.
    ///
    /// # Errors
    /// [`ServiceError::DurabilityLost`].
    pub fn check_durable(&self) -> Result<(), ServiceError> {
        let loss = |fleet: &Arc<Fleet>| {
            let LogReading { durable_epoch, condition, .. } = fleet.log()?.reading();
            let LogCondition::Failed(why) = condition else { return None };
            let fleet = fleet.name();
            let fleet = fleet.as_str();
            Some(format!("fleet {fleet:?} lost durability after epoch {durable_epoch}: {why}"))
        };
        let losses: Vec<String> = self.list().iter().filter_map(loss).collect();
        if losses.is_empty() {
            return Ok(());
        }
        Err(ServiceError::DurabilityLost { losses: losses.join("; ") })
    }

    // A panic while the lock is held leaves the map consistent: each change is one call.
    fn read<T>(&self, use_map: impl FnOnce(&BTreeMap<FleetName, Arc<Fleet>>) -> T) -> T {
        use_map(&self.fleets.read().unwrap_or_else(PoisonError::into_inner))
    }

    pub(super) fn write<T>(
        &self,
        use_map: impl FnOnce(&mut BTreeMap<FleetName, Arc<Fleet>>) -> T,
    ) -> T {
        use_map(&mut self.fleets.write().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Registry {
    /// The latest event time that a row may have now.
    pub(crate) fn time_max_ms(&self) -> i64 {
        self.clock.wall.now_ms().saturating_add(self.clock.time_ahead_max_ms)
    }
}
