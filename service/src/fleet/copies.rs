//! The part of a registry that replication uses: installs copies of a leader's fleets, and checks
//! whether this server may create and delete fleets. It also sets whether histories are kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, Instant};

use tracing::{info, warn};

use super::fleet::Fleet;
use super::fleet_shared::FleetState;
use super::registry::Registry;
use super::role::{Following, Role};
use crate::cycle::{FleetName, FleetSpec};
use crate::error::ServiceError;
use crate::limits::{FOLLOW_RECORD_WAIT_MS, RECOVERY_PROGRESS_MS, ServerLimits};
use crate::persistence::{DataFolder, FleetFolder, FollowRecord, HistoryKeep, NewTerm};
use crate::threads::blocking;

/// A fleet in the list of a data folder.
struct ListedFleet {
    name: FleetName,
    spec: FleetSpec,
    folder: FleetFolder,
}

impl Registry {
    /// Makes this server a follower: its fleets are copies of the leader's.
    #[must_use]
    pub(crate) fn following(mut self, leader: Option<Arc<str>>) -> Self {
        self.leader = RwLock::new(leader);
        self
    }

    /// Enables the history for all fleets that are kept across restarts.
    #[must_use]
    pub(crate) fn keeping_history(mut self, keep: Option<HistoryKeep>) -> Self {
        self.history = keep;
        self
    }

    /// Replaces the fleet of the copy's name, if there is one, with a complete copy of the leader's
    /// fleet, and starts it. Runs to its end even if the caller is dropped.
    ///
    /// # Errors
    /// [`ServiceError::NotFollower`], [`ServiceError::NoLog`], [`ServiceError::Log`]; as
    /// [`Registry::create`].
    pub(crate) async fn install_copy(
        self: &Arc<Self>,
        name: FleetName,
        spec: FleetSpec,
        copy: FleetFolder,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let registry = self.clone();
        let installed = tokio::spawn(async move { registry.install(name, spec, copy).await });
        installed.await.unwrap_or(Err(ServiceError::ShuttingDown))
    }

    async fn install(
        &self,
        name: FleetName,
        spec: FleetSpec,
        copy: FleetFolder,
    ) -> Result<Arc<Fleet>, ServiceError> {
        let _changing = self.changing.lock().await;
        let Some(data) = self.data.clone() else { return Err(ServiceError::NoLog) };
        self.check_following()?;
        blocking({
            let (data, name, copy) = (data.clone(), name.clone(), copy.clone());
            move || data.check_place(&name, &copy)
        })
        .await?;
        let fleet = self.replace(name, spec, move || data.complete_copy(&copy)).await?;
        let epoch = fleet.view().epoch;
        info!(fleet = %fleet.name(), epoch, "a copy of the leader's fleet begins");
        Ok(fleet)
    }

    /// Confirms that this server follows a leader and is not being promoted.
    fn check_following(&self) -> Result<(), ServiceError> {
        if self.leader().is_none() || self.is_promoting.load(Ordering::SeqCst) {
            return Err(ServiceError::NotFollower);
        }
        Ok(())
    }

    /// Gives the copies the names that their fleets have at the leader, found by their ids. Sets a
    /// fleet aside that has such a name and that the leader does not have. Runs to its end even if
    /// the caller is dropped.
    ///
    /// # Errors
    /// [`ServiceError::NotFollower`], [`ServiceError::Log`].
    pub(crate) async fn adopt_names(
        self: &Arc<Self>,
        leader: BTreeMap<u128, FleetName>,
    ) -> Result<(), ServiceError> {
        let registry = self.clone();
        let adopted = tokio::spawn(async move { registry.adopt(&leader).await });
        adopted.await.unwrap_or(Err(ServiceError::ShuttingDown))
    }

    async fn adopt(&self, leader: &BTreeMap<u128, FleetName>) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        self.check_following()?;
        let data = self.data.clone().ok_or(ServiceError::NoLog)?;
        let listed = blocking(move || data.fleets()).await?;
        let at_leader = |folder: &FleetFolder| leader.get(&folder.identity.id);
        if listed.iter().all(|(name, _, folder)| at_leader(folder).is_none_or(|it| it == name)) {
            return Ok(());
        }
        // The names of the copies that the leader has, also of those that do not run.
        let names = listed
            .iter()
            .filter_map(|(.., folder)| Some((folder.identity.id, at_leader(folder)?.clone())));
        let names: BTreeMap<u128, FleetName> = names.collect();
        let mut renamed = Vec::new();
        for fleet in self.list() {
            let name = fleet.name();
            match fleet.folder().and_then(at_leader) {
                Some(new_name) if *new_name != name => renamed.push((fleet, new_name.clone())),
                None if names.values().any(|new_name| *new_name == name) => {
                    self.put_aside(&fleet, format!("replaced-{:016x}", fleet.term())).await?;
                }
                _ => {}
            }
        }
        {
            // The names may be those of fleets that the leader no longer has.
            let mut orphans = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
            orphans.retain(|orphan| names.values().all(|name| name != orphan));
        }
        self.rename_all(names, renamed).await
    }

    /// Starts a fleet again from its files.
    ///
    /// # Errors
    /// [`ServiceError::NoLog`], [`ServiceError::FleetUnknown`]; as [`Registry::create`].
    pub(crate) async fn restart(&self, fleet: &Fleet) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        let ListedFleet { name, spec, folder } = self.listed(&fleet.name()).await?;
        self.replace(name, spec, move || Ok(folder)).await.map(drop)
    }

    /// Ends the fleet `name`, if there is one, then calls `prepare` and starts the fleet in the
    /// folder that it returns. After an error, starts the fleet that the list names, if possible.
    async fn replace(
        &self,
        name: FleetName,
        spec: FleetSpec,
        prepare: impl FnOnce() -> Result<FleetFolder, ServiceError> + Send + 'static,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.set_copying(&name, true);
        if let Some(replaced) = self.write(|fleets| fleets.remove(&name)) {
            replaced.end(FleetState::Deleted).await;
            self.metrics.forget(replaced.current_name());
        }
        let started = match blocking(prepare).await {
            Ok(folder) => self.start(name.clone(), spec, Some(folder)).await,
            Err(error) => Err(error),
        };
        let fleet = match &started {
            Ok(fleet) => Some(fleet.clone()),
            // The listed fleet answers queries and can be promoted.
            Err(_) => match self.listed(&name).await {
                Ok(ListedFleet { name, spec, folder }) => {
                    self.start(name, spec, Some(folder)).await.ok()
                }
                Err(_) => None,
            },
        };
        if let Some(fleet) = fleet {
            self.write(|fleets| fleets.insert(name.clone(), fleet));
            self.set_copying(&name, false);
        }
        started
    }

    /// The entry of a fleet in the list of the data folder.
    async fn listed(&self, name: &FleetName) -> Result<ListedFleet, ServiceError> {
        let data = self.data.clone().ok_or(ServiceError::NoLog)?;
        let listed = blocking(move || data.fleets()).await?;
        let found = listed.into_iter().find(|(listed, ..)| listed == name);
        let found = found.map(|(name, spec, folder)| ListedFleet { name, spec, folder });
        found.ok_or_else(|| ServiceError::FleetUnknown(name.as_str().into()))
    }

    /// Records on disk when the copies were last known to be current.
    pub(crate) async fn record_current(&self) {
        let now_ms = self.clock.wall.now_ms();
        let entry = |fleet: &Arc<Fleet>| {
            let stale_ms = i64::try_from(fleet.staleness()?.stale_ms).unwrap_or(i64::MAX);
            Some((fleet.folder()?.identity.id, now_ms.saturating_sub(stale_ms)))
        };
        let record = FollowRecord(self.list().iter().filter_map(entry).collect());
        let Some(data) = self.data.clone() else { return };
        // Runs on its own thread, so that a stalled disk delays nothing else.
        let recording = blocking(move || data.record_current(&record));
        let time = Duration::from_millis(FOLLOW_RECORD_WAIT_MS);
        if let Ok(Err(error)) = tokio::time::timeout(time, recording).await {
            warn!(%error, "a restart does not know how old the copies are");
        }
    }

    /// Blocks the installation of copies; returns once none is in progress.
    pub(crate) async fn begin_promotion(&self) {
        self.is_promoting.store(true, Ordering::SeqCst);
        self.settled().await;
    }

    /// Waits until the change of the fleet list in progress, if any, has ended.
    pub(crate) async fn settled(&self) {
        drop(self.changing.lock().await);
    }

    /// Allows the installation of copies again.
    pub(crate) fn end_promotion(&self) {
        self.is_promoting.store(false, Ordering::SeqCst);
    }

    /// Begins a copy in a new folder. The fleet of the same name keeps its folder meanwhile.
    ///
    /// # Errors
    /// [`ServiceError::NoLog`], [`ServiceError::Log`].
    pub(crate) async fn begin_copy(
        &self,
        name: FleetName,
        spec: FleetSpec,
        id: u128,
        aside: Option<String>,
    ) -> Result<FleetFolder, ServiceError> {
        let _changing = self.changing.lock().await;
        let data = self.data.clone().ok_or(ServiceError::NoLog)?;
        // An abandoned copy used the same file names: wait until no work for it is in progress.
        let alone = self.copying_disk.clone().write_owned().await;
        blocking(move || {
            let _alone = alone;
            data.begin_copy(&name, &spec, id, aside)
        })
        .await
    }

    /// Runs blocking disk work for a copy in progress.
    ///
    /// # Errors
    /// Errors of `work`; [`ServiceError::ShuttingDown`].
    pub(crate) async fn copy_on_disk<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> Result<T, ServiceError> + Send + 'static,
    ) -> Result<T, ServiceError> {
        let working = self.copying_disk.clone().read_owned().await;
        // If the caller left, the result is dropped before the guard.
        let worked = blocking(move || work().map(|worked| (worked, working))).await?;
        Ok(worked.0)
    }

    /// Ends a fleet that the leader does not have and renames its folder to `NAME.SUFFIX`.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) async fn set_aside(
        &self,
        fleet: &Arc<Fleet>,
        suffix: String,
    ) -> Result<(), ServiceError> {
        let _changing = self.changing.lock().await;
        self.put_aside(fleet, suffix).await
    }

    /// As [`Self::set_aside`]; the caller holds `changing`.
    async fn put_aside(&self, fleet: &Arc<Fleet>, suffix: String) -> Result<(), ServiceError> {
        let name = fleet.name();
        fleet.end(FleetState::Deleted).await;
        self.write(|fleets| fleets.remove(&name));
        self.metrics.forget(fleet.current_name());
        let Some((data, folder)) = self.data.clone().zip(fleet.folder().cloned()) else {
            return Ok(());
        };
        blocking(move || {
            let to = data.set_aside(&folder, &suffix)?;
            warn!(fleet = %name, to, "the files of the fleet are set aside");
            Ok(())
        })
        .await
    }

    /// The data folder, if fleets are kept across restarts.
    pub(crate) fn data(&self) -> Option<&DataFolder> {
        self.data.as_ref()
    }

    /// The limits of the server.
    pub(crate) fn limits(&self) -> &ServerLimits {
        &self.limits
    }

    /// Address of the leader, on a follower.
    pub(crate) fn leader(&self) -> Option<Arc<str>> {
        self.leader.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops following a leader; from now on fleets can be created and deleted.
    pub(crate) fn lead(&self) {
        *self.leader.write().unwrap_or_else(PoisonError::into_inner) = None;
        self.copying.lock().unwrap_or_else(PoisonError::into_inner).clear();
        self.orphans.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    /// Confirms that fleets may be created and deleted here. The error names no fleet, because the
    /// caller may not see those that were fenced.
    ///
    /// # Errors
    /// [`ServiceError::Follower`], [`ServiceError::ServerFenced`].
    pub(crate) fn check_leader(&self) -> Result<(), ServiceError> {
        if let Some(leader) = self.leader() {
            return Err(ServiceError::Follower { leader: leader.to_string() });
        }
        let is_fenced = self.data.as_ref().is_some_and(|data| !data.role().fenced.is_empty());
        if is_fenced { Err(ServiceError::ServerFenced) } else { Ok(()) }
    }

    /// The initial replication role of a fleet.
    pub(super) fn first_role(&self, folder: Option<&FleetFolder>, epoch: u64) -> Role {
        if let Some(leader) = self.leader() {
            let recorded = self.data.as_ref().zip(folder);
            let current_ms = recorded.and_then(|(data, it)| data.current_ms(it.identity.id));
            let older_ms =
                current_ms.map_or(0, |at_ms| self.clock.wall.now_ms().saturating_sub(at_ms));
            let older = Duration::from_millis(u64::try_from(older_ms).unwrap_or(0));
            return Role::Follower(Arc::new(Following::new(leader, epoch, older)));
        }
        let record = self.data.as_ref().map(DataFolder::role).unwrap_or_default();
        let is_this = |fence: &&NewTerm| folder.is_some_and(|it| it.identity.id == fence.id);
        if let Some(fence) = record.fenced.iter().find(is_this) {
            return Role::Fenced { term: fence.term, last_epoch: fence.epoch };
        }
        // `Registry::set_ready` replaces this time when the server accepts calls.
        Role::Leader { opens: record.has_followers.then(Instant::now) }
    }

    /// Marks whether a copy of a fleet is in progress. While it is, calls to a missing fleet fail
    /// with [`ServiceError::Recovering`].
    pub(crate) fn set_copying(&self, name: &FleetName, is_copying: bool) {
        let mut copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        if is_copying {
            copying.insert(name.clone());
        } else {
            copying.remove(name);
        }
    }

    /// Replaces the set of copies that the leader does not have; returns the added names.
    pub(crate) fn set_orphans(&self, orphans: BTreeSet<FleetName>) -> Vec<FleetName> {
        let mut known = self.orphans.lock().unwrap_or_else(PoisonError::into_inner);
        let new = orphans.difference(&known).cloned().collect();
        *known = orphans;
        new
    }

    /// Confirms that a fleet may be deleted here: a follower may delete a copy that its leader does
    /// not have.
    ///
    /// # Errors
    /// As [`Self::check_leader`].
    pub(super) fn check_deletable(&self, name: &FleetName) -> Result<(), ServiceError> {
        let is_orphan = self.orphans.lock().unwrap_or_else(PoisonError::into_inner).contains(name);
        if is_orphan { Ok(()) } else { self.check_leader() }
    }

    /// The error for a call to a missing fleet.
    pub(crate) fn unknown(&self, name: &FleetName) -> ServiceError {
        let copying = self.copying.lock().unwrap_or_else(PoisonError::into_inner);
        if copying.contains(name) {
            return ServiceError::Recovering { retry_ms: RECOVERY_PROGRESS_MS };
        }
        ServiceError::FleetUnknown(name.as_str().into())
    }
}
