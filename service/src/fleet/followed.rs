//! The steps that a follower applies: cycles of its leader's log, clock updates and changes of
//! terms.
//!
//! A step waits in a queue of its own, bounded by bytes; the engine's thread takes the steps in
//! order, between cycles of queries.

use std::sync::Arc;

use bytes::Bytes;
use shoal_engine::Request;
use shoal_position_log::CycleHeader;
use tokio::sync::OwnedSemaphorePermit;

use crate::cycle::BatchId;
use crate::names::NameChanges;

/// A cycle of a leader's log.
#[derive(Debug)]
pub(crate) struct FollowedCycle {
    pub(crate) header: CycleHeader,
    /// See `CycleInput::event_clock_max_ms`.
    pub(crate) event_clock_max_ms: Option<i64>,
    pub(crate) requests: Arc<Vec<Request>>,
    /// For each request the number that its producer gave it, if any.
    pub(crate) batches: Vec<Option<BatchId>>,
    /// Names that its rows may use and that no earlier cycle has; they enter the fleet's table when
    /// the cycle is queued.
    pub(crate) names: Option<NameChanges>,
    /// Its record in the log.
    pub(crate) encoded: Bytes,
}

/// A step of replication.
#[derive(Debug)]
pub(crate) enum Followed {
    /// A cycle is applied.
    Cycle(FollowedCycle),
    /// The leader's cycles after the previous step have changed nothing but the clock.
    Clock {
        /// Epoch of the last of these cycles.
        epoch: u64,
        /// The leader's clock after that cycle.
        clock_ms: i64,
    },
    /// The leader has begun a term; the former one ended at this epoch.
    Term {
        /// The new term.
        term: u64,
        /// Last epoch of the former one.
        last_epoch: u64,
    },
    /// The fleet becomes a leader, and begins this term at its last epoch.
    Lead {
        /// The new term.
        term: u64,
    },
}

/// A step in the queue.
#[derive(Debug)]
pub(super) struct FollowedStep {
    pub(super) step: Followed,
    pub(super) _permit: OwnedSemaphorePermit,
}

impl Followed {
    /// Bytes that the step takes in the queue.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Cycle(cycle) => cycle.encoded.len(),
            _ => 0,
        }
    }
}
