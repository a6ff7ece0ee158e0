//! How do calls reach an engine without blocking, and without a queue that grows?
//!
//! Room is counted before anything is sent: rows and messages for changes, queries for questions.
//! A stream waits for room, which stops its reading; a single call is refused. Channels are as long
//! as the room is large, so sending never blocks. Permits come in order of asking.

use std::sync::Arc;

use crossbeam_channel::{Receiver, Sender, bounded};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, TryAcquireError};

use super::job::{ChangeJob, ChangePermit, QueryJob, SubscriptionJob};
use crate::error::ServiceError;
use crate::limits::{BUSY_RETRY_MS, ServerLimits};

/// What waits in a fleet's queues or is under way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueDepth {
    /// Rows.
    pub rows: u64,
    /// Report messages and removals.
    pub messages: u64,
    /// Queries.
    pub queries: u64,
}

/// Asks the engine thread for something beside cycles.
#[derive(Debug)]
pub(super) enum Control {
    /// End at once; what waits is dropped.
    Stop,
}

/// The engine thread's ends. Callers keep a copy, to empty the queues of a fleet that ended.
#[derive(Clone, Debug)]
pub(super) struct QueueEnds {
    pub(super) changes: Receiver<ChangeJob>,
    pub(super) queries: Receiver<QueryJob>,
    pub(super) subscriptions: Receiver<SubscriptionJob>,
    /// That there are chores; see `subscription/chores.rs`.
    pub(super) pokes: Receiver<()>,
    pub(super) control: Receiver<Control>,
}

impl QueueEnds {
    /// Drops what waits, which closes the replies.
    pub(super) fn drain(&self) {
        while self.changes.try_recv().is_ok() {}
        while self.queries.try_recv().is_ok() {}
        while self.subscriptions.try_recv().is_ok() {}
    }
}

/// The callers' ends.
#[derive(Debug)]
pub(super) struct Queue {
    rows: Arc<Semaphore>,
    messages: Arc<Semaphore>,
    queries: Arc<Semaphore>,
    subscriptions: Arc<Semaphore>,
    limits: ServerLimits,
    change_sender: Sender<ChangeJob>,
    query_sender: Sender<QueryJob>,
    subscription_sender: Sender<SubscriptionJob>,
    control_sender: Sender<Control>,
    ends: QueueEnds,
}

/// Why there is no room.
#[derive(Debug)]
pub(super) enum NoRoom {
    /// Full: try again.
    Busy(ServiceError),
    /// The fleet takes nothing more.
    Closed,
}

impl Queue {
    /// `pokes` tells of chores.
    pub(super) fn new(limits: &ServerLimits, pokes: Receiver<()>) -> (Self, QueueEnds) {
        let (change_sender, changes) = bounded(limits.queue_messages_max);
        let (query_sender, queries) = bounded(limits.queue_queries_max);
        let (subscription_sender, subscriptions) = bounded(limits.queue_subscriptions_max);
        let (control_sender, control) = bounded(4);
        let ends = QueueEnds { changes, queries, subscriptions, pokes, control };
        let queue = Self {
            rows: Arc::new(Semaphore::new(limits.queue_rows_max)),
            messages: Arc::new(Semaphore::new(limits.queue_messages_max)),
            queries: Arc::new(Semaphore::new(limits.queue_queries_max)),
            subscriptions: Arc::new(Semaphore::new(limits.queue_subscriptions_max)),
            limits: limits.clone(),
            change_sender,
            query_sender,
            subscription_sender,
            control_sender,
            ends: ends.clone(),
        };
        (queue, ends)
    }

    /// A message with more rows than the queue holds takes all of it.
    fn row_permits(&self, rows: usize) -> u32 {
        rows.min(self.limits.queue_rows_max) as u32
    }

    /// Waits for room.
    pub(super) async fn room_for_change(&self, rows: usize) -> Result<ChangePermit, NoRoom> {
        let message = self.messages.clone().acquire_owned().await;
        let message = message.map_err(|_| NoRoom::Closed)?;
        let rows = self.rows.clone().acquire_many_owned(self.row_permits(rows)).await;
        let rows = rows.map_err(|_| NoRoom::Closed)?;
        Ok(ChangePermit { _message: message, _rows: rows })
    }

    /// Takes room that is there now.
    pub(super) fn try_room_for_change(&self, rows: usize) -> Result<ChangePermit, NoRoom> {
        let message = self.messages.clone().try_acquire_owned();
        let message = message.map_err(|error| {
            no_room(&error, "the queue of messages", self.limits.queue_messages_max)
        })?;
        let rows = self.rows.clone().try_acquire_many_owned(self.row_permits(rows));
        let rows =
            rows.map_err(|error| no_room(&error, "the queue of rows", self.limits.queue_rows_max))?;
        Ok(ChangePermit { _message: message, _rows: rows })
    }

    /// Waits for room.
    pub(super) async fn room_for_queries(
        &self,
        queries: usize,
    ) -> Result<OwnedSemaphorePermit, NoRoom> {
        let permits = queries.max(1) as u32;
        let room = self.queries.clone().acquire_many_owned(permits).await;
        room.map_err(|_| NoRoom::Closed)
    }

    /// Takes room that is there now.
    pub(super) fn try_room_for_queries(
        &self,
        queries: usize,
    ) -> Result<OwnedSemaphorePermit, NoRoom> {
        let permits = queries.max(1) as u32;
        let room = self.queries.clone().try_acquire_many_owned(permits);
        room.map_err(|error| no_room(&error, "the queue of queries", self.limits.queue_queries_max))
    }

    /// Takes room that is there now.
    pub(super) fn try_room_for_subscriptions(
        &self,
        changes: usize,
    ) -> Result<OwnedSemaphorePermit, NoRoom> {
        let limit = self.limits.queue_subscriptions_max;
        let permits = changes.clamp(1, limit) as u32;
        let room = self.subscriptions.clone().try_acquire_many_owned(permits);
        room.map_err(|error| no_room(&error, "the queue of changes of regions", limit))
    }

    /// Queues changes of regions that have room. A fleet that ended must be drained after this.
    pub(super) fn send_subscriptions(&self, job: SubscriptionJob) {
        let _ = self.subscription_sender.try_send(job);
    }

    /// Queues a change that has room. A fleet that ended must be drained after this.
    pub(super) fn send_change(&self, job: ChangeJob) {
        // There is room; were there none, the dropped job would close its reply.
        let _ = self.change_sender.try_send(job);
    }

    /// Queues queries that have room. A fleet that ended must be drained after this.
    pub(super) fn send_queries(&self, job: QueryJob) {
        let _ = self.query_sender.try_send(job);
    }

    /// Drops what waits in the queues of a fleet that ended.
    pub(super) fn drain(&self) {
        self.ends.drain();
    }

    /// Refuses everything from now on and asks the thread to end.
    pub(super) fn close(&self) {
        self.rows.close();
        self.messages.close();
        self.queries.close();
        self.subscriptions.close();
        // Full means that a stop waits there already.
        let _ = self.control_sender.try_send(Control::Stop);
    }

    pub(super) fn depth(&self) -> QueueDepth {
        let used = |limit: usize, semaphore: &Semaphore| {
            limit.saturating_sub(semaphore.available_permits()) as u64
        };
        QueueDepth {
            rows: used(self.limits.queue_rows_max, &self.rows),
            messages: used(self.limits.queue_messages_max, &self.messages),
            queries: used(self.limits.queue_queries_max, &self.queries),
        }
    }
}

fn no_room(error: &TryAcquireError, what: &'static str, limit: usize) -> NoRoom {
    match error {
        TryAcquireError::Closed => NoRoom::Closed,
        TryAcquireError::NoPermits => {
            let limit = limit as u64;
            NoRoom::Busy(ServiceError::Busy { what, limit, retry_ms: BUSY_RETRY_MS })
        }
    }
}
