//! The sessions of a fleet and their limits.
//!
//! Opens, finds and closes sessions, and counts the regions, vertices and overlaps of the fleet. Changes
//! reach the engine as jobs, or as pending changes if no caller waits for them.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_engine::RegionId;

use super::handle::SessionHandle;
use super::message::{EpochStamp, MessageFormat};
use super::pending_changes::PendingChanges;
use super::pool::Pool;
use super::region_depth::{RegionCells, RegionDepth};
use super::session::{Session, SessionEnd, State};
use super::session_owner::SessionOwner;
use super::session_region::{RegionChange, RegionRequest, SessionRegion, SettledChange};
use crate::access::Account;
use crate::answer_budget::AnswerBudget;
use crate::error::ServiceError;
use crate::limits::ServerLimits;
use crate::metrics::FleetMetrics;

/// What the sessions of a fleet share.
#[derive(Debug)]
pub(crate) struct SessionTools {
    pub(crate) format: MessageFormat,
    pub(crate) answers: Arc<AnswerBudget>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: FleetMetrics,
    pub(crate) bytes_max: usize,
    /// Most events of one cycle for one session, not counting snapshots.
    pub(crate) events_max: u64,
    pub(crate) messages_max: usize,
}

/// What the sessions of a fleet hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionDepth {
    /// Sessions.
    pub sessions: u64,
    /// Their regions.
    pub regions: u64,
    /// Bytes of their messages.
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Table {
    sessions: HashMap<u64, Arc<Session>>,
    last_session: u64,
    last_region: u64,
    regions: usize,
    vertices: usize,
    depth: RegionDepth,
    is_ended: bool,
}

/// See the module documentation.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) tools: SessionTools,
    pub(crate) pending: PendingChanges,
    term: u64,
    limits: ServerLimits,
    table: Mutex<Table>,
    open: AtomicUsize,
    delivered: Mutex<EpochStamp>,
}

impl Sessions {
    pub(crate) fn new(
        tools: SessionTools,
        pending: PendingChanges,
        term: u64,
        limits: ServerLimits,
    ) -> Self {
        let (table, open, delivered) = Default::default();
        Self { tools, pending, term, limits, table, open, delivered }
    }

    /// The term in the handles of its sessions: the fleet's term at its start.
    pub(crate) fn term(&self) -> u64 {
        self.term
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with its first reader, which has number 1. Returns `None` if the fleet has
    /// ended.
    ///
    /// # Errors
    /// [`ServiceError::Limit`], [`ServiceError::Io`].
    pub(crate) fn open(
        &self,
        owner: SessionOwner,
        retention_ms: Option<u64>,
    ) -> Result<Option<Arc<Session>>, ServiceError> {
        let retention_max = self.limits.session_retention_ms_max;
        let retention_ms = retention_ms.unwrap_or(retention_max).min(retention_max);
        let mut table = self.lock();
        if table.is_ended {
            return Ok(None);
        }
        let (value, limit) = (table.sessions.len() + 1, self.limits.sessions_max);
        within("the number of the fleet's sessions", value, limit)?;
        let handle = SessionHandle::draw(self.term, table.last_session + 1)?;
        table.last_session += 1;
        let retention = Duration::from_millis(retention_ms);
        let session = Arc::new(Session::new(handle, retention, owner, &self.tools));
        table.sessions.insert(handle.session, session.clone());
        self.open.store(table.sessions.len(), Ordering::Release);
        Ok(Some(session))
    }

    /// Finds the session of a handle, if it belongs to the client's account and the handle is
    /// authentic.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`], [`ServiceError::Token`].
    pub(crate) fn find(
        &self,
        handle: &SessionHandle,
        account: Option<&Arc<Account>>,
    ) -> Result<Arc<Session>, ServiceError> {
        let session = self.lock().sessions.get(&handle.session).cloned();
        let session = session.filter(|_| handle.term == self.term);
        let session = session.filter(|session| session.lock().owner.is(account));
        let session = session.ok_or(ServiceError::SessionGone)?;
        session.handle.authenticate(handle)?;
        Ok(session)
    }

    /// Ends a session.
    pub(crate) fn close(&self, session: &Session, end: SessionEnd) {
        let Some(regions) = session.end(end) else { return };
        let mut table = self.lock();
        table.sessions.remove(&session.handle.session);
        self.open.store(table.sessions.len(), Ordering::Release);
        table.release(&regions);
        drop(table);
        self.pending.remove(regions.into_iter().map(|region| region.id));
    }

    /// Ends all sessions and opens none from now on.
    pub(crate) fn end(&self) {
        let sessions: Vec<_> = {
            let mut table = self.lock();
            table.is_ended = true;
            table.sessions.values().cloned().collect()
        };
        sessions.iter().for_each(|session| self.close(session, SessionEnd::FleetGone));
    }

    /// Ends sessions that have had no reader for too long, and releases large snapshots of the
    /// others.
    pub(crate) fn sweep(&self, now: Instant) {
        self.pending.wake();
        let sessions: Vec<_> = self.lock().sessions.values().cloned().collect();
        for session in sessions {
            if session.is_left(now) {
                self.close(&session, SessionEnd::Left);
            } else {
                session.release(now, &self.tools);
            }
        }
    }

    /// Whether there are no sessions.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// The number of sessions.
    pub(super) fn count(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// The epoch up to which all events are delivered to their sessions.
    pub(crate) fn delivered(&self) -> EpochStamp {
        *self.delivered.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_delivered(&self, stamp: EpochStamp) {
        *self.delivered.lock().unwrap_or_else(PoisonError::into_inner) = stamp;
    }

    pub(crate) fn depth(&self) -> SubscriptionDepth {
        let table = self.lock();
        let bytes = |session: &Arc<Session>| session.lock().outbox.bytes() as u64;
        let (sessions, regions) = (table.sessions.len() as u64, table.regions as u64);
        let held: Vec<_> = table.sessions.values().cloned().collect();
        drop(table);
        SubscriptionDepth { sessions, regions, bytes: held.iter().map(bytes).sum() }
    }

    /// Checks each change that a client requests, and passes the changes within the limits to
    /// `send`, in the order in which sessions change.
    ///
    /// Returns, for each request, the error if that request failed.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`].
    pub(crate) fn change(
        &self,
        session: &Session,
        requests: Vec<RegionRequest>,
        send: impl FnOnce(Vec<RegionChange>),
    ) -> Result<Vec<Option<ServiceError>>, ServiceError> {
        let mut state = session.lock();
        if state.end.is_some() {
            return Err(ServiceError::SessionGone);
        }
        let mut changes = Vec::with_capacity(requests.len());
        let State { regions, owner, .. } = &mut *state;
        let plan =
            |request| self.plan(regions, owner, request).map(|change| changes.push(change)).err();
        let failures = requests.into_iter().map(plan).collect();
        for change in &changes {
            if let RegionChange::Remove { id } = change {
                state.awaiting.remove(id);
                state.deferred.remove(id);
            }
        }
        if !changes.is_empty() {
            send(changes);
        }
        Ok(failures)
    }

    fn plan(
        &self,
        regions: &mut HashMap<u64, SessionRegion>,
        owner: &mut SessionOwner,
        request: RegionRequest,
    ) -> Result<RegionChange, ServiceError> {
        let unknown = |field| ServiceError::field(field, "the session has no region with this id");
        let bounds = self.tools.format.space.bounds();
        match request {
            RegionRequest::Add { region_id, followed } => {
                if regions.contains_key(&region_id) {
                    let problem = "the session already has a region with this id";
                    return Err(ServiceError::field("region_id", problem));
                }
                let (value, limit) = (regions.len() + 1, self.limits.session_regions_max);
                within("the number of the session's regions", value, limit)?;
                owner.add_region()?;
                let region = SessionRegion::new(RegionId(0), &followed, &bounds);
                let reserved = self.lock().reserve(region, None, &self.limits);
                let region = reserved.inspect_err(|_| owner.remove_region())?;
                regions.insert(region_id, region.clone());
                let subscription = followed.subscription;
                Ok(RegionChange::Add { region_id, region, subscription })
            }
            RegionRequest::Change { region_id, followed } => {
                let known = regions.get_mut(&region_id).ok_or_else(|| unknown("region_id"))?;
                let is_same = known.pattern == followed.pattern && !known.is_unsure;
                if !is_same && !followed.snapshot {
                    let problem = "differs from that of the region, which needs `snapshot`";
                    return Err(ServiceError::field("filter.name_pattern", problem));
                }
                let region = SessionRegion::new(known.id, &followed, &bounds);
                let region = self.lock().reserve(region, Some(&known.cells), &self.limits)?;
                // The place counts from now on, even if the engine refuses the change.
                known.cells = region.cells;
                // A change that is requested before this one is applied is compared with it.
                known.pattern.clone_from(&region.pattern);
                known.is_unsure = false;
                let subscription = followed.subscription;
                Ok(RegionChange::Alter { region_id, region, subscription })
            }
            RegionRequest::Remove { region_id } => {
                let region = regions.remove(&region_id).ok_or_else(|| unknown(""))?;
                owner.remove_region();
                self.lock().release(std::slice::from_ref(&region));
                Ok(RegionChange::Remove { id: region.id })
            }
        }
    }

    /// Completes a change that the engine applied or refused.
    pub(crate) fn settle(&self, session: &Session, change: &SettledChange, is_applied: bool) {
        let mut state = session.lock();
        match change {
            SettledChange::Add { region_id, region } if !is_applied => {
                // If the session was closed meanwhile, it has already released the region.
                if state.regions.get(region_id).is_some_and(|known| known.id == region.id) {
                    state.regions.remove(region_id);
                    state.owner.remove_region();
                    self.lock().release(std::slice::from_ref(region));
                }
            }
            SettledChange::Alter { region_id, region } => {
                let known = state.regions.get_mut(region_id);
                let mut table = self.lock();
                match known.filter(|known| known.id == region.id) {
                    Some(known) if is_applied => {
                        table.vertices -= known.vertices;
                        let (pattern, is_unsure) = (known.pattern.take(), known.is_unsure);
                        let cells = known.cells;
                        *known = SessionRegion { pattern, is_unsure, cells, ..region.clone() };
                    }
                    Some(known) => {
                        known.is_unsure |= known.pattern.is_some() || region.pattern.is_some();
                        table.vertices -= region.vertices;
                    }
                    None => table.vertices -= region.vertices,
                }
            }
            // The session no longer has the region, so the client cannot retry. Remove it later.
            SettledChange::Remove { id } if !is_applied => self.pending.remove([*id]),
            SettledChange::Add { .. } | SettledChange::Remove { .. } => {}
        }
    }
}

impl Table {
    /// Counts a region within the limits; one that replaces none gets an id. The one that it
    /// replaces, with these cells, is counted until the change is settled, but not its place.
    fn reserve(
        &mut self,
        region: SessionRegion,
        replaced: Option<&RegionCells>,
        limits: &ServerLimits,
    ) -> Result<SessionRegion, ServiceError> {
        let is_new = replaced.is_none();
        let regions = self.regions + usize::from(is_new);
        within("the number of the fleet's regions", regions, limits.fleet_regions_max)?;
        let vertices = self.vertices + region.vertices;
        let what = "the number of polygon vertices of the fleet's regions";
        within(what, vertices, limits.fleet_polygon_vertices_max)?;
        let what = "the number of the fleet's regions around the same place";
        replaced.iter().for_each(|cells| self.depth.remove(cells));
        let depth = self.depth.with(&region.cells);
        within(what, depth, limits.place_regions_max).inspect_err(|_| {
            replaced.iter().for_each(|cells| self.depth.add(cells));
        })?;
        (self.regions, self.vertices) = (regions, vertices);
        self.depth.add(&region.cells);
        if !is_new {
            return Ok(region);
        }
        self.last_region += 1;
        Ok(SessionRegion { id: RegionId(self.last_region), ..region })
    }

    fn release(&mut self, regions: &[SessionRegion]) {
        self.regions -= regions.len();
        self.vertices -= regions.iter().map(|region| region.vertices).sum::<usize>();
        regions.iter().for_each(|region| self.depth.remove(&region.cells));
    }
}

fn within(what: &'static str, value: usize, limit: usize) -> Result<(), ServiceError> {
    let (value, limit) = (value as u64, limit as u64);
    if value <= limit { Ok(()) } else { Err(ServiceError::Limit { what, value, limit }) }
}
