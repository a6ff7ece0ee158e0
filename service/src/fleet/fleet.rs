//! How does a call talk to a fleet?
//!
//! The handle that calls hold: it counts room, queues work and turns the end of the engine into the
//! error that says why. Nothing here blocks a thread. Dropping the last handle ends the engine.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use shoal_engine::{EngineOptions, Query, Request, Space};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use super::answered::Answered;
use super::job::{
    ChangeJob, ChangePermit, ChangeReply, QueryJob, SubscriptionJob, SubscriptionReply,
};
use super::name::FleetName;
use super::producers::BatchId;
use super::queue::{NoRoom, Queue, QueueDepth};
use super::shared::{FleetState, Shared};
use super::token::Token;
use super::view::FleetView;
use crate::error::ServiceError;
use crate::metrics::FleetMetrics;
use crate::subscription::{RegionRequest, Session, Sessions, SubscriptionDepth};

/// A running fleet, as its callers see it.
#[derive(Debug)]
pub struct Fleet {
    shared: Arc<Shared>,
    queue: Queue,
    /// True once the engine's thread ended and its memory is free.
    ended: watch::Receiver<bool>,
}

/// Some queries of one request, and what their answers must satisfy.
#[derive(Debug, Default)]
pub struct Question {
    /// All answered at one epoch.
    pub queries: Vec<Query>,
    /// The answer's epoch is not before this.
    pub epoch_min: u64,
    /// The answer is large: no other queries in its cycle.
    pub alone: bool,
    /// Not asked any more after this.
    pub deadline: Option<Instant>,
    /// Wait for room in the queue; else a full one refuses.
    pub patient: bool,
}

impl Fleet {
    pub(super) fn new(shared: Arc<Shared>, queue: Queue, ended: watch::Receiver<bool>) -> Self {
        Self { shared, queue, ended }
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &FleetName {
        &self.shared.name
    }

    /// What its engine was started with.
    #[must_use]
    pub fn options(&self) -> &EngineOptions {
        &self.shared.options
    }

    /// Where its objects live.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.shared.options.space
    }

    /// The number that names this run of its engine.
    #[must_use]
    pub fn term(&self) -> u64 {
        self.shared.options.term
    }

    /// How it looks after its last cycle.
    #[must_use]
    pub fn view(&self) -> FleetView {
        self.shared.view()
    }

    /// What waits in its queues.
    #[must_use]
    pub fn depth(&self) -> QueueDepth {
        self.queue.depth()
    }

    /// Who subscribes to it.
    pub(crate) fn sessions(&self) -> &Arc<Sessions> {
        &self.shared.sessions
    }

    /// What its sessions hold.
    #[must_use]
    pub fn subscriptions(&self) -> SubscriptionDepth {
        self.shared.sessions.depth()
    }

    /// Queues changes of a session's regions; says which there is no room for, and what is to be
    /// waited for if there are others.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::SessionGone`]; that the fleet is gone.
    pub(crate) fn change_regions(
        &self,
        session: &Arc<Session>,
        requests: Vec<RegionRequest>,
    ) -> Result<ChangedRegions, ServiceError> {
        let permit = self.queue.try_room_for_subscriptions(requests.len());
        let _permit = permit.map_err(|no_room| self.refused(no_room))?;
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

    /// The epoch from which queued changes hold; 0 when there are none.
    ///
    /// # Errors
    /// [`ServiceError::Engine`], [`ServiceError::SessionGone`]; that the fleet is gone.
    pub(crate) async fn changed_epoch(
        &self,
        pending: Option<oneshot::Receiver<SubscriptionReply>>,
    ) -> Result<u64, ServiceError> {
        let Some(pending) = pending else { return Ok(0) };
        match pending.await {
            Ok(epoch) => Ok(epoch?),
            // Dropped by a running fleet for a session that ended.
            Err(_) if self.state() == FleetState::Running => Err(ServiceError::SessionGone),
            Err(_) => Err(self.gone()),
        }
    }

    /// Its counters.
    #[must_use]
    pub fn metrics(&self) -> &FleetMetrics {
        &self.shared.metrics
    }

    /// Whether it takes requests.
    #[must_use]
    pub fn state(&self) -> FleetState {
        self.shared.state()
    }

    /// Why it takes no requests any more.
    #[must_use]
    pub fn gone(&self) -> ServiceError {
        self.shared.gone()
    }

    /// Waits until its engine has ended; says why.
    pub(crate) async fn ended(self: Arc<Self>) -> ServiceError {
        // An error means that the thread is gone without a word.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
        self.gone()
    }

    /// The epoch that a client's token asks for; 0 without a token.
    ///
    /// # Errors
    /// [`ServiceError::Token`], [`ServiceError::TokenTerm`].
    pub fn epoch_min(&self, token: &[u8]) -> Result<u64, ServiceError> {
        if token.is_empty() {
            return Ok(0);
        }
        let epoch = Token::parse(token)?.epoch_of(self.term()).ok_or_else(|| {
            let fleet = self.name().as_str().to_owned();
            ServiceError::TokenTerm { fleet, term: self.term() }
        })?;
        // Tokens are made after their epoch was applied, so a greater one was made up.
        if epoch > self.view().epoch {
            return Err(ServiceError::Token("its epoch is in the future"));
        }
        Ok(epoch)
    }

    fn refused(&self, no_room: NoRoom) -> ServiceError {
        match no_room {
            NoRoom::Busy(error) => error,
            NoRoom::Closed => self.gone(),
        }
    }

    /// Waits until the queue has room for a change of `rows`.
    ///
    /// # Errors
    /// That the fleet is gone.
    pub async fn room(&self, rows: usize) -> Result<ChangePermit, ServiceError> {
        self.queue.room_for_change(rows).await.map_err(|no_room| self.refused(no_room))
    }

    /// Room for a change of `rows`, if there is any now.
    ///
    /// # Errors
    /// [`ServiceError::Busy`]; that the fleet is gone.
    pub fn try_room(&self, rows: usize) -> Result<ChangePermit, ServiceError> {
        self.queue.try_room_for_change(rows).map_err(|no_room| self.refused(no_room))
    }

    /// Queues a change; what became of it comes later.
    pub fn change(
        self: &Arc<Self>,
        permit: ChangePermit,
        request: Request,
        batch: Option<BatchId>,
    ) -> PendingChange {
        let (reply, receiver) = oneshot::channel();
        self.queue.send_change(ChangeJob { request, batch, reply, permit });
        self.drain_if_ended();
        PendingChange { receiver, fleet: self.clone() }
    }

    /// Asks; the answers come from one epoch and are held for this caller alone.
    ///
    /// # Errors
    /// [`ServiceError::Busy`], [`ServiceError::Engine`]; that the fleet is gone.
    pub async fn ask(&self, question: Question) -> Result<Answered, ServiceError> {
        let Question { queries, epoch_min, alone, deadline, patient } = question;
        let room = if patient {
            self.queue.room_for_queries(queries.len()).await
        } else {
            self.queue.try_room_for_queries(queries.len())
        };
        let permit = room.map_err(|no_room| self.refused(no_room))?;
        let (reply, receiver) = oneshot::channel();
        let job = QueryJob { queries, epoch_min, alone, deadline, reply, _permit: permit };
        self.queue.send_queries(job);
        self.drain_if_ended();
        match receiver.await {
            Ok(reply) => reply?.made_apart().await.ok_or_else(|| self.gone()),
            Err(_) if deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                Err(ServiceError::Deadline)
            }
            Err(_) => Err(self.gone()),
        }
    }

    /// A job that was sent while the thread ended would wait for ever. Either the thread's last
    /// look at the queue comes after the job, or the thread's end, told before that look, is seen
    /// here.
    fn drain_if_ended(&self) {
        if self.state() != FleetState::Running {
            self.queue.drain();
        }
    }

    /// Ends the fleet: what is under way is told `state` as the reason. Returns when its memory is
    /// free.
    pub async fn end(&self, state: FleetState) {
        self.shared.end(state);
        self.queue.close();
        // An error means that the thread is gone, which is what is waited for.
        let _ = self.ended.clone().wait_for(|ended| *ended).await;
    }
}

/// Changes of regions under way.
#[derive(Debug)]
pub(crate) struct ChangedRegions {
    /// For each request in order, why it failed.
    pub(crate) failures: Vec<Option<ServiceError>>,
    /// Of the others; see [`Fleet::changed_epoch`].
    pub(crate) pending: Option<oneshot::Receiver<SubscriptionReply>>,
}

/// A change under way.
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
