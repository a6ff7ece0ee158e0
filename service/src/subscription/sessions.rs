//! Which sessions does a fleet have, and is there room for one more, or for more regions?
//!
//! Opens, finds and closes them, and counts what they share: regions and vertices of the fleet.
//! Knows its engine by numbers alone; changes go there as jobs, what nobody waits for as chores.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use shoal_engine::{RegionId, Space};

use super::chores::Chores;
use super::handle::SessionHandle;
use super::message::Told;
use super::pool::Pool;
use super::session::{Session, SessionEnd};
use super::standing::{Change, Standing, Wanted};
use crate::answer_budget::AnswerBudget;
use crate::error::ServiceError;
use crate::limits::ServerLimits;
use crate::metrics::FleetMetrics;

/// What all sessions of a fleet use.
#[derive(Debug)]
pub(crate) struct SessionTools {
    pub(crate) space: Space,
    pub(crate) answers: Arc<AnswerBudget>,
    pub(crate) pool: Arc<Pool>,
    pub(crate) metrics: FleetMetrics,
    pub(crate) bytes_max: usize,
    pub(crate) messages_max: usize,
}

/// What sessions of a fleet hold.
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
    is_ended: bool,
}

/// See the file's head.
#[derive(Debug)]
pub(crate) struct Sessions {
    pub(crate) tools: SessionTools,
    pub(crate) chores: Chores,
    term: u64,
    limits: ServerLimits,
    table: Mutex<Table>,
    open: AtomicUsize,
    told: Mutex<Told>,
}

impl Sessions {
    pub(crate) fn new(
        tools: SessionTools,
        chores: Chores,
        term: u64,
        limits: ServerLimits,
    ) -> Self {
        let (table, open, told) = (Mutex::default(), AtomicUsize::new(0), Mutex::default());
        Self { tools, chores, term, limits, table, open, told }
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens a session with a reader, which is number 1. None when the fleet ended.
    ///
    /// # Errors
    /// [`ServiceError::Limit`], [`ServiceError::Io`].
    pub(crate) fn open(
        &self,
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
        let session = Arc::new(Session::new(handle, retention, self.tools.pool.clone()));
        table.sessions.insert(handle.session, session.clone());
        self.open.store(table.sessions.len(), Ordering::Release);
        Ok(Some(session))
    }

    /// The session that a client's handle names.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`], [`ServiceError::Token`].
    pub(crate) fn find(&self, brought: &SessionHandle) -> Result<Arc<Session>, ServiceError> {
        let session = self.lock().sessions.get(&brought.session).cloned();
        let session = session.filter(|_| brought.term == self.term);
        let session = session.ok_or(ServiceError::SessionGone)?;
        session.handle.authenticate(brought)?;
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
        self.chores.remove(regions.into_iter().map(|standing| standing.region));
    }

    /// Ends all sessions, and every one to come.
    pub(crate) fn end(&self) {
        let sessions: Vec<_> = {
            let mut table = self.lock();
            table.is_ended = true;
            table.sessions.values().cloned().collect()
        };
        sessions.iter().for_each(|session| self.close(session, SessionEnd::FleetGone));
    }

    /// Ends sessions that were left for too long, and takes back what others wait for.
    pub(crate) fn sweep(&self, now: Instant) {
        self.chores.remind();
        let sessions: Vec<_> = self.lock().sessions.values().cloned().collect();
        for session in sessions {
            if session.is_left(now) {
                self.close(&session, SessionEnd::Left);
            } else {
                session.release(now, &self.tools);
            }
        }
    }

    /// Whether anybody is to be told anything.
    pub(crate) fn is_empty(&self) -> bool {
        self.count() == 0
    }

    /// How many there are.
    pub(super) fn count(&self) -> usize {
        self.open.load(Ordering::Acquire)
    }

    /// Up to which epoch all events are in their sessions.
    pub(crate) fn told(&self) -> Told {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_told(&self, told: Told) {
        *self.told.lock().unwrap_or_else(PoisonError::into_inner) = told;
    }

    pub(crate) fn depth(&self) -> SubscriptionDepth {
        let table = self.lock();
        let bytes = |session: &Arc<Session>| session.lock().outbox.bytes() as u64;
        let (sessions, regions) = (table.sessions.len() as u64, table.regions as u64);
        let held: Vec<_> = table.sessions.values().cloned().collect();
        drop(table);
        SubscriptionDepth { sessions, regions, bytes: held.iter().map(bytes).sum() }
    }

    /// Makes room for what a client wants of a session's regions, one by one, and hands the changes
    /// that have room to `send`, in the order in which sessions changed.
    ///
    /// # Errors
    /// [`ServiceError::SessionGone`]; inside, why a region cannot be had.
    pub(crate) fn change(
        &self,
        session: &Session,
        wanted: Vec<Wanted>,
        send: impl FnOnce(Vec<Change>),
    ) -> Result<Vec<Option<ServiceError>>, ServiceError> {
        let mut state = session.lock();
        if state.end.is_some() {
            return Err(ServiceError::SessionGone);
        }
        let mut changes = Vec::with_capacity(wanted.len());
        let mut plan = |wanted| {
            let regions = &mut state.regions;
            self.plan(regions, wanted).map(|change| changes.push(change)).err()
        };
        let failures = wanted.into_iter().map(&mut plan).collect();
        for change in &changes {
            if let Change::Remove { region } = change {
                state.awaiting.remove(region);
                state.deferred.remove(region);
            }
        }
        if !changes.is_empty() {
            send(changes);
        }
        Ok(failures)
    }

    fn plan(
        &self,
        regions: &mut HashMap<u64, Standing>,
        wanted: Wanted,
    ) -> Result<Change, ServiceError> {
        let unknown = |field| ServiceError::field(field, "the session has no region with this id");
        match wanted {
            Wanted::Add { region_id, subscription, snapshot } => {
                if regions.contains_key(&region_id) {
                    let problem = "the session already has a region with this id";
                    return Err(ServiceError::field("region_id", problem));
                }
                let (value, limit) = (regions.len() + 1, self.limits.session_regions_max);
                within("the number of the session's regions", value, limit)?;
                let standing = Standing::new(RegionId(0), &subscription, snapshot);
                let standing = self.lock().reserve(standing, true, &self.limits)?;
                regions.insert(region_id, standing);
                Ok(Change::Add { region_id, standing, subscription })
            }
            Wanted::Change { region_id, subscription, snapshot } => {
                let region = regions.get(&region_id).ok_or_else(|| unknown("region_id"))?.region;
                let standing = Standing::new(region, &subscription, snapshot);
                let standing = self.lock().reserve(standing, false, &self.limits)?;
                Ok(Change::Alter { region_id, standing, subscription })
            }
            Wanted::Remove { region_id } => {
                let standing = regions.remove(&region_id).ok_or_else(|| unknown(""))?;
                self.lock().release(&[standing]);
                Ok(Change::Remove { region: standing.region })
            }
        }
    }

    /// The engine carried a change out, or refused it.
    pub(crate) fn settle(&self, session: &Session, change: &SettledChange, is_applied: bool) {
        let mut state = session.lock();
        match *change {
            SettledChange::Add { region_id, standing } if !is_applied => {
                // Whoever closed the session meanwhile released it.
                let is_its = |of: &mut Standing| of.region == standing.region;
                if state.regions.get_mut(&region_id).is_some_and(is_its) {
                    state.regions.remove(&region_id);
                    self.lock().release(&[standing]);
                }
            }
            SettledChange::Alter { region_id, standing } => {
                let known = state.regions.get_mut(&region_id);
                let known = known.filter(|of| of.region == standing.region);
                let mut table = self.lock();
                match known {
                    Some(of) if is_applied => {
                        table.vertices -= of.vertices;
                        *of = standing;
                    }
                    _ => table.vertices -= standing.vertices,
                }
            }
            // Nobody knows it any more, so nobody would ask again.
            SettledChange::Remove { region } if !is_applied => self.chores.remove([region]),
            SettledChange::Add { .. } | SettledChange::Remove { .. } => {}
        }
    }
}

/// A change without what it brought to the engine.
#[derive(Clone, Copy, Debug)]
pub(crate) enum SettledChange {
    Add { region_id: u64, standing: Standing },
    Alter { region_id: u64, standing: Standing },
    Remove { region: RegionId },
}

impl Table {
    /// Counts a region, with a number of its own if it is new.
    fn reserve(
        &mut self,
        standing: Standing,
        is_new: bool,
        limits: &ServerLimits,
    ) -> Result<Standing, ServiceError> {
        let regions = self.regions + usize::from(is_new);
        within("the number of the fleet's regions", regions, limits.fleet_regions_max)?;
        let vertices = self.vertices + standing.vertices;
        let what = "the number of polygon vertices of the fleet's regions";
        within(what, vertices, limits.fleet_polygon_vertices_max)?;
        (self.regions, self.vertices) = (regions, vertices);
        if !is_new {
            return Ok(standing);
        }
        self.last_region += 1;
        Ok(Standing { region: RegionId(self.last_region), ..standing })
    }

    fn release(&mut self, regions: &[Standing]) {
        self.regions -= regions.len();
        self.vertices -= regions.iter().map(|standing| standing.vertices).sum::<usize>();
    }
}

fn within(what: &'static str, value: usize, limit: usize) -> Result<(), ServiceError> {
    let (value, limit) = (value as u64, limit as u64);
    if value <= limit { Ok(()) } else { Err(ServiceError::Limit { what, value, limit }) }
}
