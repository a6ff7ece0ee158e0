//! A fleet as calls see it: reserves places, queues jobs, and turns the end of the engine into an
//! error with its reason.
//!
//! Nothing here blocks a thread. Dropping the last handle ends the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use shoal_engine::{EngineOptions, Query, Space};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::durability::Durability;
use super::fleet_name::FleetName;
use super::fleet_shared::{FleetShared, FleetState};
use super::fleet_view::FleetView;
use super::job_answers::JobAnswers;
use super::job_queue::{JobQueue, QueueDepth, ReserveError};
use super::jobs::{
    ChangeJob, ChangePermit, ChangeReply, QueryJob, SubscriptionJob, SubscriptionReply,
};
use super::producers::BatchId;
use super::receipt_refusals::ConvertedRequest;
use super::token::Token;
use crate::error::ServiceError;
use crate::metrics::FleetMetrics;
use crate::persistence::FleetLog;
use crate::subscription::{RegionRequest, Session, Sessions, SubscriptionDepth};

/// A handle of a fleet.
#[derive(Debug)]
pub struct Fleet {
    shared: Arc<FleetShared>,
    queue: JobQueue,
    /// True once the engine's thread ended and its memory is free.
    ended: watch::Receiver<bool>,
}

/// Queries that one epoch answers, and the conditions of their answer.
#[derive(Debug, Default)]
pub struct QueryRequest {
    /// The queries.
    pub queries: Vec<Query>,
    /// The answer's epoch is not before this.
    pub epoch_min: u64,
    /// The answer is large: no other queries in its cycle.
    pub alone: bool,
    /// The queries are dropped at this time.
    pub deadline: Option<Instant>,
    /// Wait for a place in the queue; otherwise a full queue refuses.
    pub patient: bool,
}

impl Fleet {
    pub(super) fn new(
        shared: Arc<FleetShared>,
        queue: JobQueue,
        ended: watch::Receiver<bool>,
    ) -> Self {
        Self { shared, queue, ended }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &FleetName {
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

    /// The number of this run of its engine.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.shared.options.term
    }

    /// Its log, if the server keeps one.
    #[must_use]
    pub fn log(&self) -> Option<&Arc<FleetLog>> {
        self.shared.persistence.log.as_ref()
    }

    /// What its acknowledgements stand for unless a message says otherwise.
    #[must_use]
    pub fn durability(&self) -> Durability {
        self.shared.persistence.durability
    }

    /// The level of a change that asks for `requested`.
    ///
    /// # Errors
    /// [`ServiceError::Field`] for `Logged` without a log; [`ServiceError::LogSpace`] and
    /// [`ServiceError::LogFailed`] while the log takes no changes.
    pub fn accept(&self, requested: Option<Durability>) -> Result<Durability, ServiceError> {
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
    pub async fn survives(&self, durability: Durability, epoch: u64) -> Result<(), ServiceError> {
        match (durability, self.log()) {
            (Durability::Logged, Some(log)) => log.durable(epoch).await,
            _ => Ok(()),
        }
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

    /// The sessions of its subscribers.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.shared.sessions
    }

    /// The contents of its sessions.
    #[must_use]
    pub fn subscriptions(&self) -> SubscriptionDepth {
        self.shared.sessions.depth()
    }

    /// Queues changes of a session's regions. Returns those beyond a limit, and the reply of the
    /// others.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::SessionGone`]; that the fleet ended.
    pub(crate) fn change_regions(
        &self,
        session: &Arc<Session>,
        requests: Vec<RegionRequest>,
    ) -> Result<ChangedRegions, ServiceError> {
        let permit = self.queue.try_reserve_subscriptions(requests.len());
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

    /// The epoch from which queued changes hold; 0 without any.
    ///
    /// # Errors
    /// [`ServiceError::Engine`], [`ServiceError::SessionGone`]; that the fleet ended.
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
        let Some(epoch) = token.epoch_of(self.term()) else {
            return self.check_past_terms(&token).map(|()| 0);
        };
        // The server issues a token after its epoch was applied, so a later one is forged.
        if epoch > self.view().epoch {
            return Err(ServiceError::Token("its epoch is in the future"));
        }
        Ok(epoch)
    }

    /// Confirms that the state contains the epochs of a token of earlier terms.
    fn check_past_terms(&self, token: &Token) -> Result<(), ServiceError> {
        let fleet = || self.name().as_str().to_owned();
        let mut error = Err(ServiceError::TokenTerm { fleet: fleet(), term: self.term() });
        for past in self.shared.persistence.terms.past() {
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

    /// Waits for a place in the queue for a change of `rows`.
    ///
    /// # Errors
    /// That the fleet ended.
    pub async fn reserve(&self, rows: usize) -> Result<ChangePermit, ServiceError> {
        self.queue.reserve_change(rows).await.map_err(|error| self.reserve_error(error))
    }

    /// Reserves a place in the queue for a change of `rows`, if there is one.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; that the fleet ended.
    pub fn try_reserve(&self, rows: usize) -> Result<ChangePermit, ServiceError> {
        self.queue.try_reserve_change(rows).map_err(|error| self.reserve_error(error))
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

    /// Answers queries at one epoch; the answers share no memory with those of other calls.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::Engine`]; that the fleet ended.
    pub async fn query(&self, request: QueryRequest) -> Result<JobAnswers, ServiceError> {
        let QueryRequest { queries, epoch_min, alone, deadline, patient } = request;
        let permit = if patient {
            self.queue.reserve_queries(queries.len()).await
        } else {
            self.queue.try_reserve_queries(queries.len())
        };
        let _permit = permit.map_err(|error| self.reserve_error(error))?;
        let (reply, receiver) = oneshot::channel();
        let job = QueryJob { queries, epoch_min, alone, deadline, reply, _permit };
        self.queue.send_queries(job);
        self.drain_if_ended();
        match receiver.await {
            Ok(reply) => reply?.detached().await.ok_or_else(|| self.gone()),
            Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                Err(ServiceError::Deadline)
            }
            Err(_) => Err(self.gone()),
        }
    }

    /// A job that was sent while the thread ended would wait for ever. Either the thread drains the
    /// queue after the job was sent, or the state, which the thread sets before that, is seen here.
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
    /// For each change, in order, why it is refused.
    pub(crate) failures: Vec<Option<ServiceError>>,
    /// The reply of the others; see [`Fleet::changed_epoch`].
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
