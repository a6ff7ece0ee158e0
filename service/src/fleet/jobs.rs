//! The jobs in a fleet's queues and their replies.
//!
//! A job holds its permits, so its places in the queue become free when the job is dropped after
//! its cycle. Replies go through one-shot channels; a closed channel means that the caller left.

use std::sync::Arc;

use shoal_engine::{Query, RequestOutcome};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::job_answers::JobAnswers;
use super::receipt_refusals::{ConvertedRequest, DroppedOnReceipt, RefusedRows};
use crate::cycle::BatchId;
use crate::error::ServiceError;
use crate::shares::{PlacesPermit, Requester};
use crate::subscription::{RegionChange, Session};

/// A reserved place in the queue of changes.
#[derive(Debug)]
pub struct ChangePermit {
    pub(super) client: Requester,
    pub(super) _message: PlacesPermit,
    pub(super) rows: PlacesPermit,
}

impl ChangePermit {
    /// Keeps the places of `rows` rows and returns the others.
    pub(crate) fn shrink(&mut self, rows: usize) {
        self.rows.shrink(rows);
    }
}

/// A change that waits for its cycle.
#[derive(Debug)]
pub(super) struct ChangeJob {
    pub(super) converted: ConvertedRequest,
    pub(super) batch: Option<BatchId>,
    pub(super) reply: oneshot::Sender<ChangeReply>,
    pub(super) permit: ChangePermit,
}

impl ChangeJob {
    /// Refuses a numbered change with an error of its producer and number.
    pub(super) fn refuse(self, error: impl FnOnce(String, u64) -> ServiceError) {
        if let Some(BatchId { producer, batch_seq }) = &self.batch {
            let error = error(producer.to_string(), *batch_seq);
            // A closed channel means that the client left.
            let _ = self.reply.send(ChangeReply::Refused(error));
        }
    }
}

/// The outcome of a change.
#[derive(Debug)]
pub enum ChangeReply {
    /// Applied in `epoch`, or failed alone: see `RequestOutcome::block_error`.
    Settled {
        /// Its cycle.
        epoch: u64,
        /// The outcome of its rows, without a list of refused ones.
        outcome: RequestOutcome,
        /// Rows refused on receipt or by the engine.
        refused: Box<RefusedRows>,
        /// Measures dropped on receipt.
        dropped: Option<Box<DroppedOnReceipt>>,
    },
    /// The change was applied earlier; the state after `epoch` shows it.
    Duplicate {
        /// A cycle at or after the one that applied it.
        epoch: u64,
    },
    /// Nothing was applied: the number is not the producer's next one, or the engine refused the
    /// cycle.
    Refused(ServiceError),
}

/// Queries that wait for their cycle; one cycle answers them all.
#[derive(Debug)]
pub(super) struct QueryJob {
    pub(super) client: Requester,
    pub(super) queries: Vec<Query>,
    pub(super) terms: QueryTerms,
}

/// The conditions of an answer and its destination.
#[derive(Debug)]
pub(super) struct QueryTerms {
    /// The answer's epoch must not be before this.
    pub(super) epoch_min: u64,
    /// Whether its cycle contains no other queries, so that its large answer needs no copy.
    pub(super) alone: bool,
    /// See [`super::QueryRequest::rows_work`].
    pub(super) rows_work: u64,
    pub(super) deadline: Option<Instant>,
    /// Whether an earlier cycle reached its work limit before these queries.
    pub(super) was_put_off: bool,
    pub(super) reply: oneshot::Sender<QueryReply>,
    pub(super) _permit: PlacesPermit,
}

impl QueryTerms {
    /// True when the caller left or its deadline passed.
    pub(super) fn is_abandoned(&self, now: Instant) -> bool {
        self.reply.is_closed() || self.deadline.is_some_and(|deadline| deadline <= now)
    }
}

/// The answers to one job, or why there are none.
pub(super) type QueryReply = Result<JobAnswers, ServiceError>;

/// Changes of a session's regions that wait for their cycle; one cycle applies them all.
#[derive(Debug)]
pub(super) struct SubscriptionJob {
    pub(super) session: Arc<Session>,
    pub(super) changes: Vec<RegionChange>,
    pub(super) reply: oneshot::Sender<SubscriptionReply>,
    pub(super) _permit: PlacesPermit,
}

/// The epoch from which the changes are in effect, or why the engine refused the cycle.
pub(super) type SubscriptionReply = Result<u64, shoal_engine::EngineError>;
