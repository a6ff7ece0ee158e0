//! The memory for answers that slow clients have not read yet, server-wide.
//!
//! A request reserves the largest size of its answer before the engine runs it, and returns the
//! rest when the size is known. The reservation ends when the answer was sent or dropped. A
//! delivered answer may remain as a spare: spares are released, oldest first, before a request
//! waits or fails for lack of memory. Small answers have a reserve of their own.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use prometheus_client::metrics::gauge::Gauge;
use tokio::sync::watch;

use crate::error::ServiceError;
use crate::limits::{ANSWER_WAIT_MS_MAX, BUSY_RETRY_MS, SMALL_ANSWERS_SHARE};
use crate::shares::{FairPlaces, PlacesPermit, Requester};

/// Bytes of a piece, the unit of reservations.
const PIECE_BYTES: u64 = 1 << 10;

/// See the file's head.
#[derive(Debug)]
pub(crate) struct AnswerBudget {
    pieces: FairPlaces,
    /// Pieces for small answers when `pieces` has none left.
    reserve: FairPlaces,
    /// Number of requests that wait for memory.
    waiting: watch::Sender<usize>,
    bytes_max: u64,
    gauge: Gauge,
    spares: Mutex<Spares>,
}

/// Delivered answers that are kept until their memory is needed.
#[derive(Debug, Default)]
struct Spares {
    /// The answers by number, in the order of delivery.
    held: BTreeMap<u64, Arc<dyn fmt::Debug + Send + Sync>>,
    next: u64,
}

/// A reservation.
#[derive(Debug)]
pub(crate) struct AnswerReservation {
    permit: PlacesPermit,
    gauge: Gauge,
}

impl AnswerBudget {
    pub(crate) fn new(bytes_max: u64, gauge: Gauge) -> Self {
        let reserve = FairPlaces::exact(pieces(bytes_max / SMALL_ANSWERS_SHARE));
        let pieces = FairPlaces::exact(pieces(bytes_max));
        let (waiting, spares) = (watch::Sender::default(), Mutex::default());
        Self { pieces, reserve, waiting, bytes_max, gauge, spares }
    }

    fn spares(&self) -> MutexGuard<'_, Spares> {
        self.spares.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reserves memory without waiting, releasing spares if needed; `None` if there is not enough.
    pub(crate) fn try_room(&self, client: Requester, bytes: u64) -> Option<AnswerReservation> {
        if bytes > self.bytes_max {
            return None;
        }
        loop {
            if let Ok(permit) = self.pieces.try_reserve(client, pieces(bytes)) {
                return Some(self.room_of(permit));
            }
            // Spares stay if other requests would get their memory.
            if !self.pieces.is_first(client, pieces(bytes)) {
                return None;
            }
            // Freed outside the lock: it may be many megabytes.
            let oldest = self.spares().held.pop_first();
            drop(oldest?);
        }
    }

    /// Reserves memory for a small answer from the reserve; `None` if the reserve has not enough.
    pub(crate) fn small_room(&self, client: Requester, bytes: u64) -> Option<AnswerReservation> {
        let permit = self.reserve.try_reserve(client, pieces(bytes)).ok()?;
        Some(self.room_of(permit))
    }

    fn room_of(&self, permit: PlacesPermit) -> AnswerReservation {
        self.gauge.inc_by(room_bytes(&permit));
        AnswerReservation { permit, gauge: self.gauge.clone() }
    }

    /// Waits until at least one request waits for memory.
    pub(crate) async fn is_wanted(&self) {
        // An error cannot occur: `self` owns the sender.
        let _ = self.waiting.subscribe().wait_for(|waiting| *waiting > 0).await;
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
        // Nothing is kept while a request waits.
        if *self.waiting.borrow() == 0 {
            spares.held.insert(number, delivered);
        }
        drop(spares);
        Spare { budget: self.clone(), number, held }
    }

    /// Reserves memory, which clients share; waits until enough is free.
    ///
    /// # Errors
    /// [`ServiceError::Limit`] if `bytes` exceeds the budget; [`ServiceError::Busy`] if the memory
    /// is not free in time, which also ends a deadlock.
    pub(crate) async fn room(
        &self,
        client: Requester,
        bytes: u64,
    ) -> Result<AnswerReservation, ServiceError> {
        let wait = Duration::from_millis(ANSWER_WAIT_MS_MAX);
        let room = tokio::time::timeout(wait, self.room_in_turn(client, bytes)).await;
        room.unwrap_or_else(|_| Err(self.busy()))
    }

    /// Like [`Self::room`], without a limit on the waiting time.
    ///
    /// # Errors
    /// [`ServiceError::Limit`] beyond the budget.
    pub(crate) async fn room_in_turn(
        &self,
        client: Requester,
        bytes: u64,
    ) -> Result<AnswerReservation, ServiceError> {
        if bytes > self.bytes_max {
            let (what, limit) = ("the size of the answer in bytes", self.bytes_max);
            return Err(ServiceError::Limit { what, value: bytes, limit });
        }
        if let Some(room) = self.try_room(client, bytes) {
            return Ok(room);
        }
        let _waiting = Waiting::new(self);
        let permit = self.pieces.reserve(client, pieces(bytes)).await;
        permit.map(|permit| self.room_of(permit)).map_err(|_| self.busy())
    }

    fn busy(&self) -> ServiceError {
        let (what, limit) = ("the memory for answers", self.bytes_max);
        ServiceError::Busy { what, limit, retry_ms: BUSY_RETRY_MS }
    }
}

/// A request that waits for memory.
struct Waiting<'a>(&'a AnswerBudget);

impl<'a> Waiting<'a> {
    fn new(budget: &'a AnswerBudget) -> Self {
        let mut spares = budget.spares();
        budget.waiting.send_modify(|waiting| *waiting += 1);
        // Delivered after `try_room` released the last one.
        let held = std::mem::take(&mut spares.held);
        drop(spares);
        drop(held);
        Self(budget)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.waiting.send_modify(|waiting| *waiting -= 1);
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

impl AnswerReservation {
    /// Keeps `bytes` of the reservation and releases the rest.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let before = room_bytes(&self.permit);
        self.permit.shrink(pieces(bytes));
        self.gauge.dec_by(before - room_bytes(&self.permit));
    }
}

impl Drop for AnswerReservation {
    fn drop(&mut self) {
        self.gauge.dec_by(room_bytes(&self.permit));
    }
}

fn room_bytes(permit: &PlacesPermit) -> i64 {
    (permit.places() as u64 * PIECE_BYTES) as i64
}

/// Number of pieces that hold `bytes` bytes.
fn pieces(bytes: u64) -> usize {
    usize::try_from(bytes.div_ceil(PIECE_BYTES)).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Requester = Requester::PROCESS;

    #[tokio::test(start_paused = true)]
    async fn room_is_bounded_and_comes_back() {
        let gauge = Gauge::default();
        let budget = AnswerBudget::new(10 << 10, gauge.clone());
        assert!(matches!(budget.room(CLIENT, 11 << 10).await, Err(ServiceError::Limit { .. })));
        let mut room = budget.room(CLIENT, 10 << 10).await.unwrap();
        assert!(matches!(budget.room(CLIENT, 1).await, Err(ServiceError::Busy { .. })));
        assert!(budget.try_room(CLIENT, 1).is_none());
        room.shrink(1500);
        assert_eq!(gauge.get(), 2 << 10);
        let other = budget.try_room(CLIENT, 3 << 10).unwrap();
        assert_eq!(gauge.get(), 5 << 10);
        // This client has half; another finds room at once.
        assert!(budget.try_room(CLIENT, 1 << 10).is_none());
        assert!(budget.room(Requester::at(1), 2 << 10).await.is_ok());
        drop((room, other));
        assert_eq!(gauge.get(), 0);
        assert!(budget.room(CLIENT, 10 << 10).await.is_ok());
    }

    #[tokio::test(start_paused = true)]
    async fn small_answers_have_a_reserve_when_others_hold_all() {
        let budget = Arc::new(AnswerBudget::new(1 << 20, Gauge::default()));
        let take = |client| budget.try_room(Requester::at(client), 10 << 10);
        let held: Vec<_> = (0..200).cycle().take(2000).filter_map(take).collect();
        assert!(held.len() > 90 && budget.try_room(Requester::at(500), 64 << 10).is_none());
        assert!(budget.small_room(Requester::at(500), 8 << 10).is_some());
        assert!(budget.small_room(Requester::at(500), 65 << 10).is_none());
        let mut wanted = at_once(budget.is_wanted());
        assert!(wanted.is_none());
        let waits = {
            let budget = budget.clone();
            tokio::spawn(async move { budget.room(Requester::at(500), 64 << 10).await.is_ok() })
        };
        tokio::task::yield_now().await;
        wanted = at_once(budget.is_wanted());
        assert!(wanted.is_some());
        drop(held);
        assert!(waits.await.unwrap());
        assert!(at_once(budget.is_wanted()).is_none());
    }

    /// What a future yields at once.
    fn at_once<F: Future>(future: F) -> Option<F::Output> {
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        match std::pin::pin!(future).poll(&mut context) {
            std::task::Poll::Ready(output) => Some(output),
            std::task::Poll::Pending => None,
        }
    }

    #[tokio::test(start_paused = true)]
    async fn spares_give_way_oldest_first() {
        let gauge = Gauge::default();
        let budget = Arc::new(AnswerBudget::new(16 << 10, gauge.clone()));
        let room = |client, bytes| budget.try_room(Requester::at(client), bytes);
        let spare = |client, bytes| budget.keep(Arc::new(room(client, bytes).unwrap()));
        let (first, second) = (spare(1, 4 << 10), spare(2, 4 << 10));
        assert!(room(3, 17 << 10).is_none() && first.get().is_some());
        let waited = budget.room(Requester::at(3), 7 << 10).await.unwrap();
        assert!(first.get().is_none() && second.get().is_some());
        // One that is read again is no spare, and goes back among them as the newest.
        let again = second.get().unwrap();
        drop(second);
        assert!(room(4, 5 << 10).is_none());
        let (second, third) = (budget.keep(again), spare(5, 1 << 10));
        let other = room(6, 4 << 10).unwrap();
        assert!(second.get().is_none() && third.get().is_some());
        drop((waited, other, third));
        assert_eq!(gauge.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn nothing_is_kept_while_an_answer_waits() {
        let budget = Arc::new(AnswerBudget::new(10 << 10, Gauge::default()));
        let delivered = Arc::new(budget.try_room(CLIENT, 10 << 10).unwrap());
        let waiter = {
            let budget = budget.clone();
            tokio::spawn(async move { budget.room(CLIENT, 1).await.is_ok() })
        };
        tokio::task::yield_now().await;
        let spare = budget.keep(delivered);
        assert!(waiter.await.unwrap() && spare.get().is_none());
        let spare = budget.keep(Arc::new(budget.try_room(CLIENT, 1).unwrap()));
        assert!(spare.get().is_some(), "nothing waits any more");
    }
}
