//! Which reports of a connection have no ack yet?
//!
//! A queue in the order of sending, bounded by permits: the sender waits for one, the reader of
//! acks gives it back. Full permits mean that nothing is under way.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::verify::SentRows;

/// A report under way.
#[derive(Debug)]
pub struct Sent {
    /// The moment at which it should have been sent.
    pub intended: Instant,
    /// The moment at which it was handed to the stream.
    pub sent: Instant,
    /// Rows of the message.
    pub rows: u32,
    /// The rows themselves, when answers are verified.
    pub columns: Option<SentRows>,
    /// Sent before the clock started: counts for no rate.
    pub is_preload: bool,
}

/// The reports under way of one connection.
#[derive(Debug)]
pub struct InFlight {
    queue: Mutex<VecDeque<Sent>>,
    permits: Semaphore,
    permits_max: u32,
}

impl InFlight {
    /// Nothing under way, at most `permits_max`.
    #[must_use]
    pub fn new(permits_max: u32) -> Self {
        Self {
            queue: Mutex::new(VecDeque::new()),
            permits: Semaphore::new(permits_max as usize),
            permits_max,
        }
    }

    /// Waits until one more may be under way.
    pub async fn room(&self) {
        // The semaphore is never closed; without a permit there would be one too many, no more.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }

    /// Waits until nothing is under way.
    pub async fn drained(&self) {
        drop(self.permits.acquire_many(self.permits_max).await);
    }

    /// Adds a report for which [`InFlight::room`] was waited.
    pub fn push(&self, sent: Sent) {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).push_back(sent);
    }

    /// Takes the oldest report out; `None` when there is none. Its permit returns with
    /// [`InFlight::release`].
    pub fn pop(&self) -> Option<Sent> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    /// Gives permits back, once all that an ack brings is done.
    pub fn release(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// Reports under way.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// True when nothing is under way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
