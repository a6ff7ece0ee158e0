//! The memory for answers that slow clients have not read yet, server-wide.
//!
//! A request reserves the largest size of its answer before the engine runs it, and returns the
//! rest when the size is known. The reservation ends when the answer was sent or dropped. A
//! delivered answer may remain as a spare: spares are released, oldest first, before a request
//! waits or fails for lack of memory.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::error::ServiceError;
use crate::limits::{ANSWER_WAIT_MS_MAX, BUSY_RETRY_MS};

/// Unit of the semaphore, so that it can count a terabyte.
const PIECE_BYTES: u64 = 1 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    pieces: Arc<Semaphore>,
    bytes_max: u64,
    gauge: Gauge,
    spares: Mutex<Spares>,
}

/// Delivered answers that are kept until their memory is needed.
#[derive(Debug, Default)]
struct Spares {
    /// Numbered in the order of delivery.
    held: BTreeMap<u64, Arc<dyn fmt::Debug + Send + Sync>>,
    next: u64,
    /// Requests that wait for memory. Nothing is kept while there are any.
    waiting: usize,
}

/// A reservation.
#[derive(Debug)]
pub(crate) struct AnswerRoom {
    permit: OwnedSemaphorePermit,
    gauge: Gauge,
}

impl AnswerBudget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Self {
        let pieces = usize::try_from(bytes_max / PIECE_BYTES).unwrap_or(Semaphore::MAX_PERMITS);
        let spares = Mutex::default();
        Self { pieces: Arc::new(Semaphore::new(pieces)), bytes_max, gauge, spares }
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves memory that is free or that spares release.
    pub(crate) fn try_room(&self, bytes: u64) -> Option<AnswerRoom> {
        if bytes > self.bytes_max {
            return None;
        }
        let pieces = bytes.div_ceil(PIECE_BYTES) as u32;
        loop {
            if let Ok(permit) = self.pieces.clone().try_acquire_many_owned(pieces) {
                self.gauge.inc_by(room_bytes(&permit));
                return Some(AnswerRoom { permit, gauge: self.gauge.clone() });
            }
            // Freed outside the lock: it may be many megabytes.
            let oldest = self.spares().held.pop_first();
            drop(oldest?);
        }
    }

    /// Keeps a delivered answer, which owns its reservation, until the memory is needed.
    pub(crate) fn keep<T>(self: &Arc<Self>, delivered: Arc<T>) -> Spare<T>
    where
        T: fmt::Debug + Send + Sync + 'static,
    {
        let held = Arc::downgrade(&delivered);
        let mut spares = self.spares();
        let number = spares.next;
        spares.next += 1;
        if spares.waiting == 0 {
            spares.held.insert(number, delivered);
        }
        drop(spares);
        Spare { budget: self.clone(), number, held }
    }

    /// Waits for memory, in order of request.
    ///
    /// # Errors
    /// [`ServiceError::Limit`] beyond the budget, [`ServiceError::Busy`] when others hold it for
    /// too long, which also ends a deadlock.
    pub(crate) async fn room(&self, bytes: u64) -> Result<AnswerRoom, ServiceError> {
        if bytes > self.bytes_max {
            let (what, limit) = ("the size of the answer in bytes", self.bytes_max);
            return Err(ServiceError::Limit { what, value: bytes, limit });
        }
        if let Some(room) = self.try_room(bytes) {
            return Ok(room);
        }
        let _waiting = Waiting::new(self);
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

/// A request that waits for memory.
struct Waiting<'a>(&'a AnswerBudget);

impl<'a> Waiting<'a> {
    fn new(budget: &'a AnswerBudget) -> Self {
        let mut spares = budget.spares();
        spares.waiting += 1;
        // Delivered after `try_room` released the last one.
        let held = std::mem::take(&mut spares.held);
        drop(spares);
        drop(held);
        Self(budget)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.spares().waiting -= 1;
    }
}

/// Access to a delivered answer until its memory is needed. Dropping it releases the answer.
#[derive(Debug)]
pub(crate) struct Spare<T> {
    budget: Arc<AnswerBudget>,
    number: u64,
    held: Weak<T>,
}

impl<T> Spare<T> {
    /// The answer, if it is still held.
    pub(crate) fn get(&self) -> Option<Arc<T>> {
        self.held.upgrade()
    }
}

impl<T> Drop for Spare<T> {
    fn drop(&mut self) {
        let held = self.budget.spares().held.remove(&self.number);
        drop(held);
    }
}

impl AnswerRoom {
    /// Returns what exceeds `bytes`.
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

    #[tokio::test(start_paused = true)]
    async fn spares_give_way_oldest_first() {
        let gauge = Gauge::default();
        let budget = Arc::new(AnswerBudget::new(10 << 10, gauge.clone()));
        let spare = |bytes| budget.keep(Arc::new(budget.try_room(bytes).unwrap()));
        let (first, second) = (spare(4 << 10), spare(4 << 10));
        assert!(budget.try_room(11 << 10).is_none() && first.get().is_some());
        let room = budget.room(5 << 10).await.unwrap();
        assert!(first.get().is_none() && second.get().is_some());
        // One that is read again is no spare, and goes back among them as the newest.
        let again = second.get().unwrap();
        drop(second);
        assert!(budget.try_room(2 << 10).is_none());
        let (second, third) = (budget.keep(again), spare(1 << 10));
        let other = budget.try_room(2 << 10).unwrap();
        assert!(second.get().is_none() && third.get().is_some());
        drop((room, other, third));
        assert_eq!(gauge.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_while_an_answer_waits() {
        let budget = Arc::new(AnswerBudget::new(10 << 10, Gauge::default()));
        let delivered = Arc::new(budget.try_room(10 << 10).unwrap());
        let waiter = {
            let budget = budget.clone();
            tokio::spawn(async move { budget.room(1).await.is_ok() })
        };
        tokio::task::yield_now().await;
        let spare = budget.keep(delivered);
        assert!(waiter.await.unwrap() && spare.get().is_none());
        let spare = budget.keep(Arc::new(budget.try_room(1).unwrap()));
        assert!(spare.get().is_some(), "nothing waits any more");
    }
}
