//! The interface of a fleet for calls: reserves places in its queues, queues jobs, and returns the
//! reason as an error when the engine has ended.
//!
//! Nothing here blocks a thread. Dropping the last handle ends the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use shoal_engine::{EngineOptions, Query, Space};
use shoal_position_log::Terms;
use tokio::sync::{OwnedSemaphorePermit, oneshot, watch};
use tokio::time::Instant;

use super::fleet_shared::{FleetShared, FleetState};
use super::fleet_view::FleetView;
use super::followed::{Followed, FollowedCycle};
use super::job_answers::JobAnswers;
use super::job_queue::{JobQueue, QueueDepth, ReserveError};
use super::jobs::{
    ChangeJob, ChangePermit, ChangeReply, QueryJob, QueryTerms, SubscriptionJob, SubscriptionReply,
};
use super::receipt_refusals::ConvertedRequest;
use super::role::{Following, Role, Staleness};
use super::token::Token;
use crate::cycle::{BatchId, CurrentName, Durability, FleetName};
use crate::error::ServiceError;
use crate::limits::{BUSY_RETRY_MS, FOLLOW_WAIT_MS_MAX, LIGHT_WORKER_ROWS_MIN, WORKER_ROWS_MIN};
use crate::metrics::FleetMetrics;
use crate::persistence::{ErasureRoom, FleetFolder, FleetLog, HistoryReading, PastVersion};
use crate::shares::Requester;
use crate::subscription::{
    FanOutThreads, RegionRequest, Session, SessionOwner, Sessions, SubscriptionDepth,
};

/// A handle of a fleet.
#[derive(Debug)]
pub struct Fleet {
    pub(super) shared: Arc<FleetShared>,
    queue: JobQueue,
    fan_out: FanOutThreads,
    /// True once the engine's thread ended and its memory is free.
    ended: watch::Receiver<bool>,
}

/// Queries that are answered at one epoch, and the conditions of their answer.
#[derive(Debug, Default)]
pub struct QueryRequest {
    /// The requesting client.
    pub client: Requester,
    /// The queries.
    pub queries: Vec<Query>,
    /// The lowest epoch at which the queries may be answered.
    pub epoch_min: u64,
    /// Whether the cycle may contain no other queries, because the answer is large.
    pub alone: bool,
    /// Work of copying the rows of the answers, in words of 8 bytes, if the caller knows it; work
    /// that the engine counts comes in addition.
    pub rows_work: u64,
    /// The queries are dropped at this time.
    pub deadline: Option<Instant>,
    /// Whether to wait for a place in the queue; otherwise a full queue refuses the request.
    pub patient: bool,
}

impl Fleet {
    pub(super) fn new(
        shared: Arc<FleetShared>,
        queue: JobQueue,
        fan_out: FanOutThreads,
        ended: watch::Receiver<bool>,
    ) -> Self {
        Self { shared, queue, fan_out, ended }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> FleetName {
        self.shared.name.get()
    }

    /// Its name, which changes when the fleet is renamed.
    pub(crate) fn current_name(&self) -> &CurrentName {
        &self.shared.name
    }

    /// The options of its engine.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.shared.options
    }

    /// The space of its objects.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.shared.options.space
    }

    /// Current term.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.shared.persistence.terms.current()
    }

    /// Its log, if the server keeps one.
    #[must_use]
    pub fn log(&self) -> Option<&Arc<FleetLog>> {
        self.shared.persistence.log.as_ref()
    }

    /// The current version of its history, if the server keeps one.
    pub(crate) fn past(&self) -> Option<PastVersion> {
        let log = self.log()?;
        log.history().map(|history| history.past(log))
    }

    /// Reserves capacity for an erasure from the history and the log.
    ///
    /// # Errors
    /// [`ServiceError::NoHistory`], [`ServiceError::History`].
    pub(crate) fn reserve_erasure(&self, objects: usize) -> Result<ErasureRoom, ServiceError> {
        let history = self.log().and_then(|log| log.history());
        let history = history.ok_or_else(|| ServiceError::NoHistory(self.name().to_string()))?;
        Ok(history.reserve_erasure(objects)?)
    }

    /// The progress of its history, if the server keeps one.
    #[must_use]
    pub fn history_reading(&self) -> Option<HistoryReading> {
        let log = self.log()?;
        log.history().map(|history| history.reading(log))
    }

    /// Default durability of its acknowledgements.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.shared.persistence.durability
    }

    /// See `CreateFleetRequest.event_clock_lead`; has no effect with a system clock.
    pub(crate) fn event_clock_lead_ms(&self) -> i64 {
        self.shared.persistence.event_clock_lead_ms
    }

    /// Number of rows from which a worker reads a report.
    pub(crate) fn worker_rows_min(&self) -> usize {
        if self.shared.has_light_clients() { LIGHT_WORKER_ROWS_MIN } else { WORKER_ROWS_MIN }
    }

    /// Whether requests must contain the newest times of their rows, because the event clock is
    /// bounded.
    pub(crate) fn uses_newest_times(&self) -> bool {
        self.shared.event_clock_lead_ms().is_some()
    }

    /// Confirms that the fleet accepts changes; returns the durability level of a change that
    /// requests `requested`.
    ///
    /// # Errors
    /// [`ServiceError::Field`] for `Logged` without a log; [`ServiceError::LogSpace`] and
    /// [`ServiceError::LogFailed`] while the log takes no changes; [`ServiceError::Follower`] and
    /// [`ServiceError::Fenced`].
    pub fn accept(&self, requested: Option<Durability>) -> Result<Durability, ServiceError> {
        self.check_leader()?;
        let Some(log) = self.log() else {
            return match requested {
                Some(Durability::Logged) => Err(ServiceError::no_data("durability")),
                _ => Ok(Durability::Applied),
            };
        };
        log.check()?;
        Ok(requested.unwrap_or(self.durability()))
    }

    /// Waits until the changes up to `epoch` survive at this level.
    ///
    /// # Errors
    /// [`ServiceError::LogFailed`], [`ServiceError::LogSpace`]; the changes are applied in memory.
    /// [`ServiceError::Fenced`].
    pub async fn survives(&self, durability: Durability, epoch: u64) -> Result<(), ServiceError> {
        if let (Durability::Logged, Some(log)) = (durability, self.log()) {
            log.durable(epoch).await?;
            // The change is durable, but the fleet may have been fenced meanwhile.
            return self.check_leader();
        }
        Ok(())
    }

    /// Confirms that the replication role allows changes.
    fn check_leader(&self) -> Result<(), ServiceError> {
        match self.shared.role() {
            Role::Leader { opens: None } => Ok(()),
            Role::Leader { opens: Some(opens) } => {
                let wait = opens.saturating_duration_since(Instant::now().into_std());
                if wait.is_zero() {
                    self.shared.open();
                    return Ok(());
                }
                Err(ServiceError::Recovering { retry_ms: wait.as_millis() as u64 + 1 })
            }
            Role::Follower(following) => {
                Err(ServiceError::Follower { leader: following.leader.to_string() })
            }
            Role::Fenced { term, last_epoch } => {
                let fleet = self.name().as_str().to_owned();
                Err(ServiceError::Fenced { fleet, term, last_epoch })
            }
        }
    }

    /// Its replication role.
    pub(crate) fn role(&self) -> Role {
        self.shared.role()
    }

    /// Sets its replication role.
    pub(crate) fn set_role(&self, role: Role) {
        self.shared.set_role(role);
    }

    /// Sets the time from which a leader that waits accepts changes.
    pub(crate) fn open_at(&self, time: std::time::Instant) {
        self.shared.open_at(time);
    }

    /// Its replication progress, if it follows a leader.
    pub(crate) fn following(&self) -> Option<Arc<Following>> {
        self.shared.following()
    }

    /// How current its state is, if it follows a leader.
    pub(crate) fn staleness(&self) -> Option<Staleness> {
        self.following().map(|following| following.staleness())
    }

    /// Its terms.
    pub(crate) fn terms(&self) -> Terms {
        self.shared.persistence.terms.get()
    }

    /// Its files, if the server keeps any.
    pub(crate) fn folder(&self) -> Option<&FleetFolder> {
        self.shared.persistence.folder.as_ref()
    }

    /// Waits for capacity, then queues a replication step. Cycles must go through
    /// [`Fleet::follow_cycle`].
    ///
    /// # Errors
    /// The error with which the fleet ended.
    pub(crate) async fn follow(&self, step: Followed) -> Result<(), ServiceError> {
        let permit = self.room_for(&step).await?;
        if let (Followed::Term { term, .. } | Followed::Lead { term }, Some(names)) =
            (&step, self.names())
        {
            names.skip(*term);
        }
        self.send_followed(step, permit);
        Ok(())
    }

    /// Waits for capacity, then queues a cycle of the leader. Its names are added to the table at
    /// the same time, so that a follower promoted during the wait knows no name that its log lacks.
    ///
    /// # Errors
    /// The fleet ended, or the names contradict the table.
    pub(crate) async fn follow_cycle(&self, cycle: FollowedCycle) -> Result<(), String> {
        let step = Followed::Cycle(cycle);
        let permit = self.room_for(&step).await.map_err(|error| error.to_string())?;
        if let Followed::Cycle(FollowedCycle { names: Some(names), .. }) = &step
            && let Some(table) = self.names()
        {
            table.restore(names)?;
        }
        self.send_followed(step, permit);
        Ok(())
    }

    async fn room_for(&self, step: &Followed) -> Result<OwnedSemaphorePermit, ServiceError> {
        let permit = self.queue.reserve_followed(step).await;
        permit.map_err(|error| self.reserve_error(error))
    }

    fn send_followed(&self, step: Followed, permit: OwnedSemaphorePermit) {
        self.queue.send_followed(step, permit);
        self.drain_if_ended();
    }

    /// Its state after the last cycle.
    #[must_use]
    pub fn view(&self) -> FleetView {
        self.shared.view()
    }

    /// The depth of its queues.
    #[must_use]
    pub fn depth(&self) -> QueueDepth {
        self.queue.depth()
    }

    /// Opens a session with its first reader. Returns `None` if the fleet has ended.
    ///
    /// # Errors
    /// Those of [`Sessions::open`]; [`ServiceError::Io`] if the threads of its subscriptions cannot
    /// be started.
    pub(crate) fn open_session(
        &self,
        owner: SessionOwner,
        retention_ms: Option<u64>,
    ) -> Result<Option<Arc<Session>>, ServiceError> {
        self.fan_out.start()?;
        self.shared.sessions.open(owner, retention_ms)
    }

    /// The sessions of its subscribers.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.shared.sessions
    }

    /// The contents of its sessions.
    #[must_use]
    pub fn subscriptions(&self) -> SubscriptionDepth {
        self.shared.sessions.depth()
    }

    /// Queues changes of a session's regions. Returns the error of each refused change, and the
    /// pending reply of the others.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::SessionGone`]; the error with which the fleet ended.
    pub(crate) fn change_regions(
        &self,
        client: Requester,
        session: &Arc<Session>,
        requests: Vec<RegionRequest>,
    ) -> Result<ChangedRegions, ServiceError> {
        let permit = self.queue.try_reserve_subscriptions(client, requests.len());
        let _permit = permit.map_err(|error| self.reserve_error(error))?;
        let mut pending = None;
        let send = |changes| {
            let (reply, receiver) = oneshot::channel();
            let job = SubscriptionJob { session: session.clone(), changes, reply, _permit };
            self.queue.send_subscriptions(job);
            pending = Some(receiver);
        };
        let failures = self.shared.sessions.change(session, requests, send)?;
        self.drain_if_ended();
        Ok(ChangedRegions { failures, pending })
    }

    /// Waits until queued region changes are applied; returns the epoch from which they are in
    /// effect, 0 if none were queued.
    ///
    /// # Errors
    /// [`ServiceError::Engine`], [`ServiceError::SessionGone`]; the error with which the fleet
    /// ended.
    pub(crate) async fn changed_epoch(
        &self,
        pending: Option<oneshot::Receiver<SubscriptionReply>>,
    ) -> Result<u64, ServiceError> {
        let Some(pending) = pending else { return Ok(0) };
        match pending.await {
            Ok(epoch) => Ok(epoch?),
            // A running fleet drops the jobs of a session that ended.
            Err(_) if self.state() == FleetState::Running => Err(ServiceError::SessionGone),
            Err(_) => Err(self.gone()),
        }
    }

    /// Its counters.
    #[must_use]
    pub fn metrics(&self) -> &FleetMetrics {
        &self.shared.metrics
    }

    /// Whether it accepts requests.
    #[must_use]
    pub fn state(&self) -> FleetState {
        self.shared.state()
    }

    /// The reason why it no longer accepts requests.
    #[must_use]
    pub fn gone(&self) -> ServiceError {
        self.shared.ended_error()
    }

    /// Whether its engine has ended.
    pub(crate) fn has_ended(&self) -> bool {
        *self.ended.borrow()
    }

    /// Waits until its engine has ended; returns the reason.
    pub(crate) async fn ended(self: Arc<Self>) -> ServiceError {
        // An error means that the thread ended by a panic.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        self.gone()
    }

    /// The epoch of this fleet in a client's token; 0 without a token.
    ///
    /// # Errors
    /// [`ServiceError::Token`], [`ServiceError::TokenTerm`], [`ServiceError::TokenLost`].
    pub fn epoch_min(&self, token: &[u8]) -> Result<u64, ServiceError> {
        if token.is_empty() {
            return Ok(0);
        }
        let token = Token::parse(token)?;
        let following = self.following();
        let is_follower = following.is_some();
        let may_diverge = following.is_some_and(|following| !following.is_continued());
        let Some(epoch) = token.epoch_of(self.term()) else {
            let checked = self.check_past_terms(&token).map(|()| 0);
            return checked.map_err(|error| match error {
                // The leader may have begun a term that has not arrived here.
                ServiceError::TokenTerm { .. } if is_follower => self.behind(0),
                // Until the leader has continued this log, a term that began here may be unknown to
                // it. In that case the leader may have the epoch.
                ServiceError::TokenLost { epoch, .. } if may_diverge => self.behind(epoch),
                error => error,
            });
        };
        // The server issues a token after its epoch was applied, so a later one is forged.
        if epoch > self.view().epoch && !is_follower {
            return Err(ServiceError::Token("its epoch is in the future"));
        }
        Ok(epoch)
    }

    /// The error of a query whose token is ahead of a follower.
    fn behind(&self, epoch: u64) -> ServiceError {
        let (fleet, applied_epoch) = (self.name().as_str().to_owned(), self.view().epoch);
        ServiceError::FollowerBehind { fleet, epoch, applied_epoch, retry_ms: BUSY_RETRY_MS }
    }

    /// On a follower, waits until an epoch is applied.
    ///
    /// # Errors
    /// [`ServiceError::FollowerBehind`].
    pub async fn wait_for_epoch(&self, epoch: u64) -> Result<(), ServiceError> {
        let Some(following) = self.following().filter(|_| epoch > self.view().epoch) else {
            return Ok(());
        };
        let longest = Duration::from_millis(FOLLOW_WAIT_MS_MAX);
        let reached = tokio::time::timeout(longest, following.reached(epoch)).await;
        reached.map_err(|_| self.behind(epoch))
    }

    /// Confirms that the state contains the epochs of a token of earlier terms.
    fn check_past_terms(&self, token: &Token) -> Result<(), ServiceError> {
        let fleet = || self.name().as_str().to_owned();
        let mut error = Err(ServiceError::TokenTerm { fleet: fleet(), term: self.term() });
        for past in self.terms().past() {
            match token.epoch_of(past.term) {
                Some(epoch) if epoch > past.last_epoch => {
                    let last_epoch = past.last_epoch;
                    return Err(ServiceError::TokenLost { fleet: fleet(), epoch, last_epoch });
                }
                Some(_) => error = Ok(()),
                None => {}
            }
        }
        error
    }

    fn reserve_error(&self, error: ReserveError) -> ServiceError {
        match error {
            ReserveError::Busy(error) => error,
            ReserveError::Closed => self.gone(),
        }
    }

    /// Waits for places in the queue for a change of `rows` rows.
    ///
    /// # Errors
    /// That the fleet ended.
    pub async fn reserve(
        &self,
        client: Requester,
        rows: usize,
    ) -> Result<ChangePermit, ServiceError> {
        self.queue.reserve_change(client, rows).await.map_err(|error| self.reserve_error(error))
    }

    /// Reserves places in the queue for a change of `rows` rows, if they are free.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; that the fleet ended.
    pub fn try_reserve(
        &self,
        client: Requester,
        rows: usize,
    ) -> Result<ChangePermit, ServiceError> {
        self.queue.try_reserve_change(client, rows).map_err(|error| self.reserve_error(error))
    }

    /// Queues a change; its outcome comes later.
    pub fn change(
        self: &Arc<Self>,
        permit: ChangePermit,
        request: impl Into<ConvertedRequest>,
        batch: Option<BatchId>,
    ) -> PendingChange {
        let (reply, receiver) = oneshot::channel();
        let converted = request.into();
        self.queue.send_change(ChangeJob { converted, batch, reply, permit });
        self.drain_if_ended();
        PendingChange { receiver, fleet: self.clone() }
    }

    /// Answers queries at one epoch; see `JobAnswers::detached`.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::Engine`], [`ServiceError::Deadline`],
    /// [`ServiceError::FollowerBehind`]; the error with which the fleet ended.
    pub async fn query(&self, request: QueryRequest) -> Result<JobAnswers, ServiceError> {
        let QueryRequest { client, queries, epoch_min, alone, rows_work, deadline, patient } =
            request;
        self.wait_for_epoch(epoch_min).await?;
        let permit = if patient {
            self.queue.reserve_queries(client, queries.len()).await
        } else {
            self.queue.try_reserve_queries(client, queries.len())
        };
        let _permit = permit.map_err(|error| self.reserve_error(error))?;
        let (reply, receiver) = oneshot::channel();
        let was_put_off = false;
        let terms =
            QueryTerms { epoch_min, alone, rows_work, deadline, was_put_off, reply, _permit };
        self.queue.send_queries(QueryJob { client, queries, terms });
        self.drain_if_ended();
        match receiver.await {
            Ok(Err(_)) if self.state() != FleetState::Running => Err(self.gone()),
            Ok(reply) => reply,
            Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                Err(ServiceError::Deadline)
            }
            Err(_) => Err(self.gone()),
        }
    }

    /// Drains the queue if the fleet has ended. A job that is sent while the thread ends would
    /// otherwise wait forever: if the thread has drained the queue before the job was sent, it has
    /// set the state before that, so this call sees it.
    fn drain_if_ended(&self) {
        if self.state() != FleetState::Running {
            self.queue.drain();
        }
    }

    /// Ends the fleet: jobs in progress get `state` as the reason. Returns when its memory is free.
    pub async fn end(&self, state: FleetState) {
        self.shared.end(state);
        self.queue.close();
        // An error means that the thread ended, too.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// Subscription changes in progress.
#[derive(Debug)]
pub(crate) struct ChangedRegions {
    /// For each change, in order, the reason why it was refused; `None` if it was queued.
    pub(crate) failures: Vec<Option<ServiceError>>,
    /// The pending reply to the queued changes; see [`Fleet::changed_epoch`].
    pub(crate) pending: Option<oneshot::Receiver<SubscriptionReply>>,
}

/// A change in progress.
#[derive(Debug)]
pub struct PendingChange {
    receiver: oneshot::Receiver<ChangeReply>,
    fleet: Arc<Fleet>,
}

impl PendingChange {
    /// The fleet it was sent to.
    #[must_use]
    pub fn fleet(&self) -> &Arc<Fleet> {
        &self.fleet
    }
}

impl Future for PendingChange {
    type Output = Result<ChangeReply, ServiceError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let reply = ready!(Pin::new(&mut self.receiver).poll(context));
        Poll::Ready(reply.map_err(|_| self.fleet.gone()))
    }
}
