//! How much answer may wait for clients that read slowly?
//!
//! Bytes of all answers that are held, server-wide. Room is taken before the engine is asked, for
//! as much as the answer can be at most, and given back down to what it is. It is free again when
//! the answer was sent or given up.

use std::sync::Arc;
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ServiceError;
use crate::limits::{ANSWER_WAIT_MS_MAX, BUSY_RETRY_MS};

/// Counted in pieces, so that a terabyte fits the counter.
const PIECE_BYTES: u64 = 1 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    pieces: Arc<Semaphore>,
    bytes_max: u64,
    gauge: Gauge,
}

/// A share of the budget.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl AnswerBudget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Self {
        let pieces = usize::try_from(bytes_max / PIECE_BYTES).unwrap_or(Semaphore::MAX_PERMITS);
        Self { pieces: Arc::new(Semaphore::new(pieces)), bytes_max, gauge }
    }

    /// Takes room that is there now.
    pub(crate) fn try_room(&self, bytes: u64) -> Option<AnswerRoom> {
        let pieces = u32::try_from(bytes.div_ceil(PIECE_BYTES)).ok()?;
        let permit = self.pieces.clone().try_acquire_many_owned(pieces).ok()?;
        self.gauge.inc_by(room_bytes(&permit));
        Some(AnswerRoom { permit, gauge: self.gauge.clone() })
    }

    /// Waits for room, in turn.
    ///
    /// # Errors
    /// [`ServiceError::Limit`] when it can never be had, [`ServiceError::Busy`] when others hold it
    /// for too long: two that wait for each other both end so.
    pub(crate) async fn room(&self, bytes: u64) -> Result<AnswerRoom, ServiceError> {
        if bytes > self.bytes_max {
            let (what, limit) = ("the size of the answer in bytes", self.bytes_max);
            return Err(ServiceError::Limit { what, value: bytes, limit });
        }
        let pieces = bytes.div_ceil(PIECE_BYTES) as u32;
        let wait = Duration::from_millis(ANSWER_WAIT_MS_MAX);
        let permit = self.pieces.clone().acquire_many_owned(pieces);
        let permit = tokio::time::timeout(wait, permit).await.ok().and_then(Result::ok);
        let permit = permit.ok_or(ServiceError::Busy {
            what: "the memory for answers",
            limit: self.bytes_max,
            retry_ms: BUSY_RETRY_MS,
        })?;
        self.gauge.inc_by(room_bytes(&permit));
        Ok(AnswerRoom { permit, gauge: self.gauge.clone() })
    }
}

impl AnswerRoom {
    /// Gives back what is not needed for `bytes`.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let needed = usize::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(usize::MAX);
        let surplus = self.permit.num_permits().saturating_sub(needed);
        if let Some(surplus) = self.permit.split(surplus) {
            self.gauge.dec_by(room_bytes(&surplus));
        }
    }
}

impl Drop for AnswerRoom {
    fn drop(&mut self) {
        self.gauge.dec_by(room_bytes(&self.permit));
    }
}

fn room_bytes(permit: &OwnedSemaphorePermit) -> i64 {
    (permit.num_permits() as u64 * PIECE_BYTES) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn room_is_bounded_and_comes_back() {
        let gauge = Gauge::default();
        let budget = AnswerBudget::new(10 << 10, gauge.clone());
        assert!(matches!(budget.room(11 << 10).await, Err(ServiceError::Limit { .. })));
        let mut room = budget.room(10 << 10).await.unwrap();
        assert!(matches!(budget.room(1).await, Err(ServiceError::Busy { .. })));
        assert!(budget.try_room(1).is_none());
        room.shrink(1500);
        assert_eq!(gauge.get(), 2 << 10);
        let other = budget.try_room(8 << 10).unwrap();
        assert_eq!(gauge.get(), 10 << 10);
        drop((room, other));
        assert_eq!(gauge.get(), 0);
        assert!(budget.room(10 << 10).await.is_ok());
    }
}
