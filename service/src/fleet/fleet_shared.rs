//! The part of a fleet that its engine thread and its callers share: identity, options, whether it
//! runs, and the view after the last cycle.
//!
//! It holds no queue: dropping the last caller's handle must end the thread.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};
use std::time::Instant;

use shoal_engine::{Clock, EngineOptions};

use super::fleet_view::FleetView;
use super::role::{Following, Role};
use crate::cycle::{CurrentName, Durability, SharedTerms};
use crate::error::ServiceError;
use crate::limits::EVENT_CLOCK_LEAD_FREE_MS;
use crate::metrics::FleetMetrics;
use crate::names::NameTable;
use crate::persistence::{FleetFolder, FleetLog};
use crate::subscription::Sessions;

/// Whether a fleet accepts requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum FleetState {
    /// It accepts requests.
    Running = 0,
    /// It was deleted.
    Deleted = 1,
    /// Its engine failed.
    Failed = 2,
    /// The server is shutting down.
    ShutDown = 3,
}

/// What a fleet keeps across restarts.
#[derive(Debug)]
pub(super) struct FleetPersistence {
    /// Its log, if the server keeps one.
    pub(super) log: Option<Arc<FleetLog>>,
    /// Its current term and the terms of earlier runs.
    pub(super) terms: Arc<SharedTerms>,
    /// Its files, if the server keeps any.
    pub(super) folder: Option<FleetFolder>,
    /// The names of its objects, if they have names.
    pub(super) names: Option<Arc<NameTable>>,
    /// Default durability of acknowledgements.
    pub(super) durability: Durability,
    /// See `CreateFleetRequest.event_clock_lead`.
    pub(super) event_clock_lead_ms: i64,
}

/// See the file's head.
#[derive(Debug)]
pub(super) struct FleetShared {
    pub(super) name: CurrentName,
    pub(super) options: EngineOptions,
    pub(super) metrics: FleetMetrics,
    pub(super) sessions: Arc<Sessions>,
    pub(super) persistence: FleetPersistence,
    state: AtomicU8,
    has_light_clients: AtomicBool,
    role: RwLock<Role>,
    view: Mutex<FleetView>,
}

impl FleetShared {
    pub(super) fn new(
        name: CurrentName,
        options: EngineOptions,
        metrics: FleetMetrics,
        sessions: Arc<Sessions>,
        persistence: FleetPersistence,
        role: Role,
        view: FleetView,
    ) -> Self {
        let (state, view) = (AtomicU8::new(FleetState::Running as u8), Mutex::new(view));
        let role = RwLock::new(role);
        let has_light_clients = AtomicBool::new(false);
        Self { name, options, metrics, sessions, persistence, state, has_light_clients, role, view }
    }

    pub(super) fn state(&self) -> FleetState {
        match self.state.load(Ordering::SeqCst) {
            0 => FleetState::Running,
            1 => FleetState::Deleted,
            2 => FleetState::Failed,
            _ => FleetState::ShutDown,
        }
    }

    /// Ends the fleet. If called more than once, the first reason is kept.
    pub(super) fn end(&self, state: FleetState) {
        let running = FleetState::Running as u8;
        let (success, failure) = (Ordering::SeqCst, Ordering::SeqCst);
        // An error means that an earlier reason holds.
        let _ = self.state.compare_exchange(running, state as u8, success, failure);
    }

    /// The reason why requests are no longer accepted.
    pub(super) fn ended_error(&self) -> ServiceError {
        let name = self.name.to_string();
        match self.state() {
            FleetState::Deleted => ServiceError::FleetDeleted(name),
            FleetState::ShutDown => ServiceError::ShuttingDown,
            FleetState::Running | FleetState::Failed => ServiceError::FleetFailed(name),
        }
    }

    /// The lead of its event clock, milliseconds; `None` for a system clock or an unbounded event
    /// clock.
    pub(super) fn event_clock_lead_ms(&self) -> Option<i64> {
        let lead_ms = self.persistence.event_clock_lead_ms;
        let is_bounded = self.options.clock == Clock::Event && lead_ms < EVENT_CLOCK_LEAD_FREE_MS;
        is_bounded.then_some(lead_ms)
    }

    /// Whether light clients waited lately, as of the last cycle; see `light_clients`.
    pub(super) fn has_light_clients(&self) -> bool {
        self.has_light_clients.load(Ordering::Relaxed)
    }

    pub(super) fn set_has_light_clients(&self, has_light_clients: bool) {
        self.has_light_clients.store(has_light_clients, Ordering::Relaxed);
    }

    pub(super) fn role(&self) -> Role {
        self.role.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn set_role(&self, role: Role) {
        *self.role.write().unwrap_or_else(PoisonError::into_inner) = role;
    }

    /// Accepts changes from now on, if the fleet is still a leader.
    pub(super) fn open(&self) {
        let mut role = self.role.write().unwrap_or_else(PoisonError::into_inner);
        if let Role::Leader { opens } = &mut *role {
            *opens = None;
        }
    }

    /// Sets the time from which a waiting leader accepts changes.
    pub(super) fn open_at(&self, time: Instant) {
        let mut role = self.role.write().unwrap_or_else(PoisonError::into_inner);
        if let Role::Leader { opens: Some(opens) } = &mut *role {
            *opens = time;
        }
    }

    /// Its replication progress, if it follows a leader.
    pub(super) fn following(&self) -> Option<Arc<Following>> {
        match self.role() {
            Role::Follower(following) => Some(following),
            _ => None,
        }
    }

    pub(super) fn view(&self) -> FleetView {
        *self.view.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update_view(&self, update: impl FnOnce(&mut FleetView)) {
        update(&mut self.view.lock().unwrap_or_else(PoisonError::into_inner));
    }
}
