//! The bounded queues between callers and an engine.
//!
//! Places are reserved before a job is sent. A change needs a place for each row and one for its
//! message. A query job needs a place for each query. A stream waits for places and reads no more
//! meanwhile; a single call is refused. The places bound the jobs in a channel, which has no bound
//! of its own: a channel with a bound would allocate all of it for a fleet without jobs. Clients
//! share the places (`shares`).

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::followed::{Followed, FollowedStep};
use super::jobs::{ChangeJob, ChangePermit, QueryJob, SubscriptionJob};
use crate::error::ServiceError;
use crate::limits::{BUSY_RETRY_MS, FOLLOW_QUEUE_BYTES_MAX, FOLLOW_STEP_BYTES, ServerLimits};
use crate::shares::{FairPlaces, NoPlaces, PlacesPermit, Requester};

/// The contents of a fleet's queues and of its cycles in flight.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Rows.
    pub rows: u64,
    /// Report messages and removals.
    pub messages: u64,
    /// Queries.
    pub queries: u64,
}

/// The receiving side of the queues, for the engine thread. Callers keep a copy to empty the queues
/// of a fleet that ended.
#[derive(Clone, Debug)]
pub(super) struct QueueReceivers {
    pub(super) changes: Receiver<ChangeJob>,
    pub(super) queries: Receiver<QueryJob>,
    pub(super) subscriptions: Receiver<SubscriptionJob>,
    /// The steps of replication that a follower applies.
    pub(super) followed: Receiver<FollowedStep>,
    /// Wakes the thread for work that sessions left; see
    /// `subscription/pending_changes.rs`.
    pub(super) wakeups: Receiver<()>,
    /// A message ends the thread at once; jobs that wait are dropped.
    pub(super) stop: Receiver<()>,
}

impl QueueReceivers {
    /// Drops the jobs that wait, which closes their replies.
    pub(super) fn drain(&self) {
        while self.changes.try_recv().is_ok() {}
        while self.queries.try_recv().is_ok() {}
        while self.subscriptions.try_recv().is_ok() {}
        while self.followed.try_recv().is_ok() {}
    }
}

/// A number of places, and their name in errors.
#[derive(Debug)]
struct Places {
    places: FairPlaces,
    limit: usize,
    what: &'static str,
}

impl Places {
    fn new(what: &'static str, limit: usize) -> Self {
        Self { places: FairPlaces::new(limit), limit, what }
    }

    fn error(&self, error: NoPlaces) -> ReserveError {
        match error {
            NoPlaces::Closed => ReserveError::Closed,
            NoPlaces::Full => ReserveError::Busy(ServiceError::Busy {
                what: self.what,
                limit: self.limit as u64,
                retry_ms: BUSY_RETRY_MS,
            }),
        }
    }

    async fn reserve(
        &self,
        client: Requester,
        places: usize,
    ) -> Result<PlacesPermit, ReserveError> {
        self.places.reserve(client, places).await.map_err(|error| self.error(error))
    }

    fn try_reserve(&self, client: Requester, places: usize) -> Result<PlacesPermit, ReserveError> {
        self.places.try_reserve(client, places).map_err(|error| self.error(error))
    }
}

/// The callers' side of the queues.
#[derive(Debug)]
pub(super) struct JobQueue {
    rows: Places,
    messages: Places,
    queries: Places,
    subscriptions: Places,
    /// Bytes of the steps that a follower applies; only its stream takes them.
    followed: Arc<Semaphore>,
    change_sender: Sender<ChangeJob>,
    query_sender: Sender<QueryJob>,
    subscription_sender: Sender<SubscriptionJob>,
    followed_sender: Sender<FollowedStep>,
    stop_sender: Sender<()>,
    receivers: QueueReceivers,
}

/// Why a place cannot be reserved.
#[derive(Debug)]
pub(super) enum ReserveError {
    /// Full: try again.
    Busy(ServiceError),
    /// The fleet ended.
    Closed,
}

impl JobQueue {
    /// `wakeups` are passed through to the engine thread.
    pub(super) fn new(limits: &ServerLimits, wakeups: Receiver<()>) -> (Self, QueueReceivers) {
        let (change_sender, changes) = unbounded();
        let (query_sender, queries) = unbounded();
        let (subscription_sender, subscriptions) = unbounded();
        // The semaphore `followed` bounds its bytes.
        let (followed_sender, followed) = unbounded();
        let (stop_sender, stop) = bounded(1);
        let receivers = QueueReceivers { changes, queries, subscriptions, followed, wakeups, stop };
        let queue = Self {
            rows: Places::new("the queue of rows", limits.queue_rows_max),
            messages: Places::new("the queue of messages", limits.queue_messages_max),
            queries: Places::new("the queue of queries", limits.queue_queries_max),
            subscriptions: Places::new(
                "the queue of subscription changes",
                limits.queue_subscriptions_max,
            ),
            followed: Arc::new(Semaphore::new(FOLLOW_QUEUE_BYTES_MAX)),
            change_sender,
            query_sender,
            subscription_sender,
            followed_sender,
            stop_sender,
            receivers: receivers.clone(),
        };
        (queue, receivers)
    }

    /// Waits for the places of a change.
    pub(super) async fn reserve_change(
        &self,
        client: Requester,
        rows: usize,
    ) -> Result<ChangePermit, ReserveError> {
        let _message = self.messages.reserve(client, 1).await?;
        let rows = self.rows.reserve(client, rows).await?;
        Ok(ChangePermit { client, _message, rows })
    }

    /// Reserves the places of a change, if they are free.
    pub(super) fn try_reserve_change(
        &self,
        client: Requester,
        rows: usize,
    ) -> Result<ChangePermit, ReserveError> {
        let _message = self.messages.try_reserve(client, 1)?;
        let rows = self.rows.try_reserve(client, rows)?;
        Ok(ChangePermit { client, _message, rows })
    }

    /// Waits for the places of queries.
    pub(super) async fn reserve_queries(
        &self,
        client: Requester,
        queries: usize,
    ) -> Result<PlacesPermit, ReserveError> {
        self.queries.reserve(client, queries.max(1)).await
    }

    /// Reserves the places of queries, if they are free.
    pub(super) fn try_reserve_queries(
        &self,
        client: Requester,
        queries: usize,
    ) -> Result<PlacesPermit, ReserveError> {
        self.queries.try_reserve(client, queries.max(1))
    }

    /// Reserves the places of subscription changes, if they are free.
    pub(super) fn try_reserve_subscriptions(
        &self,
        client: Requester,
        changes: usize,
    ) -> Result<PlacesPermit, ReserveError> {
        self.subscriptions.try_reserve(client, changes.max(1))
    }

    /// Queues a change whose places are reserved. A fleet that ended must be drained after this.
    pub(super) fn send_change(&self, job: ChangeJob) {
        // The queue has a receiver, so sending does not fail.
        let _ = self.change_sender.send(job);
    }

    /// As [`JobQueue::send_change`].
    pub(super) fn send_queries(&self, job: QueryJob) {
        let _ = self.query_sender.send(job);
    }

    /// As [`JobQueue::send_change`].
    pub(super) fn send_subscriptions(&self, job: SubscriptionJob) {
        let _ = self.subscription_sender.send(job);
    }

    /// Waits for queue capacity for a replication step.
    pub(super) async fn reserve_followed(
        &self,
        step: &Followed,
    ) -> Result<OwnedSemaphorePermit, ReserveError> {
        // A step that is larger than the queue takes the whole queue.
        let bytes = (FOLLOW_STEP_BYTES + step.bytes()).min(FOLLOW_QUEUE_BYTES_MAX) as u32;
        let permit = self.followed.clone().acquire_many_owned(bytes).await;
        permit.map_err(|_| ReserveError::Closed)
    }

    /// Queues a replication step.
    pub(super) fn send_followed(&self, step: Followed, _permit: OwnedSemaphorePermit) {
        let _ = self.followed_sender.send(FollowedStep { step, _permit });
    }

    /// Drops the jobs in the queues of a fleet that ended.
    pub(super) fn drain(&self) {
        self.receivers.drain();
    }

    /// Refuses every later reservation and asks the thread to end.
    pub(super) fn close(&self) {
        let Self { rows, messages, queries, subscriptions, .. } = self;
        for places in [rows, messages, queries, subscriptions] {
            places.places.close();
        }
        self.followed.close();
        // An error means that a request to stop is already queued.
        let _ = self.stop_sender.try_send(());
    }

    pub(super) fn depth(&self) -> QueueDepth {
        QueueDepth {
            rows: self.rows.places.held() as u64,
            messages: self.messages.places.held() as u64,
            queries: self.queries.places.held() as u64,
        }
    }
}
