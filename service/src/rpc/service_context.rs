//! What all calls share: fleets, limits, metrics, the answer budget and the shutdown signal.
//!
//! It implements the gRPC services. Handlers get fleets only from here, and only if the [`Call`]
//! may use them. It counts long-lived streams, so that their number is bounded.

use std::num::NonZero;
use std::sync::Arc;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use super::follow_budget::FollowBudget;
use crate::access::{Call, Counted, CountedQuota};
use crate::answer_budget::AnswerBudget;
use crate::cycle::{FleetName, FleetSpec};
use crate::error::ServiceError;
use crate::fleet::{Fleet, Registry};
use crate::follower::Replication;
use crate::limits::{
    BUSY_RETRY_MS, HISTORY_ANSWER_SHARE, QUERY_VERTICES_MAX, ServerLimits, WAITING_VERTICES_MAX,
};
use crate::metrics::Metrics;
use crate::shares::{FairPlaces, FairWorkers, NoPlaces, PlacesPermit, Requester};
use crate::subscription::SessionHandle;

/// See the module documentation.
#[derive(Clone, Debug)]
pub struct ServiceContext {
    registry: Arc<Registry>,
    pub(super) replication: Arc<Replication>,
    pub(super) limits: ServerLimits,
    pub(super) answers: Arc<AnswerBudget>,
    /// The share of the answer budget that queries of the history may use.
    pub(super) history_answers: Arc<AnswerBudget>,
    metrics: Arc<Metrics>,
    streams: FairPlaces,
    /// Limits the memory of queries and regions in progress, counted as vertices of polygons.
    vertices: FairPlaces,
    /// The same for those that were decoded and wait.
    waiting_vertices: FairPlaces,
    /// Limits memory and reads of the streams to followers.
    pub(super) follow_budget: FollowBudget,
    /// Workers for long computations.
    pub(super) workers: FairWorkers,
    /// Workers for the steps of history queries.
    pub(super) history_workers: FairWorkers,
    pub(super) cores: usize,
    stopping: watch::Receiver<bool>,
}

/// Counts a long-lived stream as open until this is dropped.
#[derive(Debug)]
pub(super) struct OpenStream {
    _place: PlacesPermit,
    _of_token: Option<Counted>,
    gauge: Gauge,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.gauge.dec();
    }
}

impl ServiceContext {
    /// Creates the context; `stopping` becomes true when the server shuts down.
    ///
    /// # Errors
    /// [`ServiceError::Io`].
    pub(crate) fn new(
        registry: Arc<Registry>,
        replication: Arc<Replication>,
        limits: ServerLimits,
        metrics: Arc<Metrics>,
        stopping: watch::Receiver<bool>,
    ) -> Result<Self, ServiceError> {
        let answers = registry.answers();
        let history_bytes = limits.answer_bytes_max as u64 / HISTORY_ANSWER_SHARE;
        let history_answers = Arc::new(AnswerBudget::new(history_bytes, Gauge::default()));
        let streams = FairPlaces::new(limits.streams_max);
        let cores = std::thread::available_parallelism().map_or(1, NonZero::get);
        let vertices = FairPlaces::new(QUERY_VERTICES_MAX);
        let waiting_vertices = FairPlaces::new(WAITING_VERTICES_MAX);
        let workers = FairWorkers::start("worker", cores)?;
        let history_workers = FairWorkers::start("past", cores)?;
        let follow_budget = FollowBudget::new(limits.follower_bytes_max);
        Ok(Self {
            registry,
            replication,
            limits,
            answers,
            history_answers,
            metrics,
            streams,
            vertices,
            waiting_vertices,
            follow_budget,
            workers,
            history_workers,
            cores,
            stopping,
        })
    }

    /// Finds the fleet named in a field of a request; an empty name means `default`.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`]; those of [`ServiceContext::named_fleet`].
    pub(super) fn fleet(
        &self,
        call: &Call,
        field: &str,
        name: &str,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.named_fleet(call, &FleetName::of_request(field, name)?)
    }

    /// Finds the fleet with this name, if the caller may use it.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`], also for fleets that the caller may not see;
    /// [`ServiceError::PermissionDenied`], [`ServiceError::Recovering`].
    pub(super) fn named_fleet(
        &self,
        call: &Call,
        name: &FleetName,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.registry.check_ready()?;
        call.check_fleet(name)?;
        call.allowed(Some(name));
        self.registry.find(name)
    }

    /// As [`ServiceContext::named_fleet`], for a fleet that the call does not change.
    pub(super) fn seen_fleet(
        &self,
        call: &Call,
        name: &FleetName,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.registry.check_ready()?;
        call.check_fleet(name)?;
        self.registry.find(name)
    }

    /// Creates a fleet.
    ///
    /// # Errors
    /// [`ServiceError::PermissionDenied`], [`ServiceError::Quota`]; those of [`Registry::create`].
    pub(super) async fn create_fleet(
        &self,
        call: &Call,
        name: FleetName,
        spec: FleetSpec,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.registry.check_ready()?;
        call.check_new_fleet(&name)?;
        let _creating = match call.account() {
            Some(account) => {
                let allowed = account.may_create(|| self.administered(call).len()).await;
                Some(allowed.map_err(|error| call.refused(Some(&name), error))?)
            }
            None => None,
        };
        call.allowed(Some(&name));
        self.registry.create(name, spec).await
    }

    /// Gives a fleet another name.
    ///
    /// # Errors
    /// [`ServiceError::FleetName`]; those of [`ServiceContext::named_fleet`] and of
    /// [`Registry::rename`].
    pub(super) async fn rename_fleet(
        &self,
        call: &Call,
        name: &FleetName,
        new_name: &str,
    ) -> Result<Arc<Fleet>, ServiceError> {
        self.registry.check_ready()?;
        call.check_fleet(name)?;
        let new_name = FleetName::new("new_name", new_name)?;
        call.check_new_fleet(&new_name)?;
        call.allowed(Some(name));
        call.allowed(Some(&new_name));
        self.registry.rename(name, new_name).await
    }

    /// Deletes a fleet.
    ///
    /// # Errors
    /// Those of [`ServiceContext::named_fleet`] and of [`Registry::delete`].
    pub(super) async fn delete_fleet(
        &self,
        call: &Call,
        name: &FleetName,
    ) -> Result<(), ServiceError> {
        self.registry.check_ready()?;
        call.check_fleet(name)?;
        call.allowed(Some(name));
        self.registry.delete(name).await
    }

    /// Returns up to `count` fleets that the caller may see, sorted by name and after the name
    /// `after`, and whether more follow.
    pub(super) fn fleet_page(
        &self,
        call: &Call,
        after: Option<&FleetName>,
        count: usize,
    ) -> (Vec<Arc<Fleet>>, bool) {
        self.registry.list_page(after, count, |name| call.sees(name))
    }

    /// The fleets that the caller may administer.
    pub(super) fn administered(&self, call: &Call) -> Vec<Arc<Fleet>> {
        let mut fleets = self.registry.list();
        fleets.retain(|fleet| call.administers(&fleet.name()));
        fleets
    }

    /// Checks that the session of a handle does not belong to a fleet other than `requested`.
    ///
    /// # Errors
    /// [`ServiceError::SessionOtherFleet`], or [`ServiceError::SessionGone`] if the caller may not
    /// see that fleet.
    pub(super) fn check_session_fleet(
        &self,
        call: &Call,
        handle: &SessionHandle,
        requested: &Fleet,
    ) -> Result<(), ServiceError> {
        match self.registry.session_fleet(handle, requested) {
            None => Ok(()),
            Some(owner) if call.sees(&owner.name()) => Err(ServiceError::SessionOtherFleet {
                fleet: requested.name().as_str().into(),
                session_fleet: owner.name().as_str().into(),
            }),
            Some(_) => Err(ServiceError::SessionGone),
        }
    }

    /// The latest event time that is accepted now.
    pub(super) fn time_max_ms(&self) -> i64 {
        self.registry.time_max_ms()
    }

    /// Name of the engine that runs the fleets.
    pub(super) fn engine_name(&self) -> &'static str {
        self.registry.engine_name()
    }

    /// Whether fleets are kept across restarts.
    pub(super) fn has_data(&self) -> bool {
        self.registry.has_data()
    }

    /// Confirms that the fleets are recovered.
    ///
    /// # Errors
    /// [`ServiceError::Recovering`].
    pub(super) fn check_ready(&self) -> Result<(), ServiceError> {
        self.registry.check_ready()
    }

    /// Confirms that followers may copy the logs of this server.
    ///
    /// # Errors
    /// [`ServiceError::Recovering`], [`ServiceError::Follower`], [`ServiceError::NoLog`].
    pub(super) fn check_log_leader(&self) -> Result<(), ServiceError> {
        self.registry.check_ready()?;
        self.registry.check_leader()?;
        if self.registry.has_data() { Ok(()) } else { Err(ServiceError::NoLog) }
    }

    /// Waits until queries or regions with this [work](super::region::work) may be converted.
    ///
    /// # Errors
    /// [`ServiceError::Busy`] if too many wait; [`ServiceError::ShuttingDown`].
    pub(super) async fn reserve_work(
        &self,
        client: Requester,
        work: usize,
    ) -> Result<PlacesPermit, ServiceError> {
        let reserved = self.vertices.reserve_within(&self.waiting_vertices, client, work).await;
        reserved.map_err(|error| match error {
            NoPlaces::Closed => ServiceError::ShuttingDown,
            NoPlaces::Full => self.count(ServiceError::Busy {
                what: "the vertices of queries and regions that wait",
                limit: WAITING_VERTICES_MAX as u64,
                retry_ms: BUSY_RETRY_MS,
            }),
        })
    }

    /// Counts a long-lived stream as open until the result is dropped.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; [`ServiceError::Quota`]; [`ServiceError::ShuttingDown`].
    pub(super) fn open_stream(&self, call: &Call) -> Result<OpenStream, ServiceError> {
        if *self.stopping.borrow() {
            return Err(ServiceError::ShuttingDown);
        }
        let _of_token = call.hold(CountedQuota::Streams, 1).map_err(|error| self.count(error))?;
        let place = self.streams.try_reserve(call.client(), 1);
        let busy = || ServiceError::Busy {
            what: "the number of open streams",
            limit: self.limits.streams_max as u64,
            retry_ms: BUSY_RETRY_MS,
        };
        let _place = place.map_err(|_| self.count(busy()))?;
        self.metrics.streams.inc();
        Ok(OpenStream { _place, _of_token, gauge: self.metrics.streams.clone() })
    }

    /// Completes when the server shuts down.
    pub(super) async fn stopped(&self) {
        // The sender lives as long as the server.
        let _ = self.stopping.clone().wait_for(|stopping| *stopping).await;
    }

    /// Counts `error` in the metrics if it means that a queue or a budget is full; returns it.
    pub(super) fn count(&self, error: ServiceError) -> ServiceError {
        if matches!(error, ServiceError::Busy { .. } | ServiceError::Quota { .. }) {
            self.metrics.busy.inc();
        }
        error
    }
}
