//! The unanswered messages of a connection: a queue in sending order, bounded by permits.
//!
//! The sender acquires a permit for each message, and the reader of answers releases it.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

/// Messages in flight.
#[derive(Debug)]
pub struct InFlight<T> {
    queue: Mutex<VecDeque<T>>,
    permits: Semaphore,
    permits_max: u32,
}

impl<T> InFlight<T> {
    /// Nothing in flight, at most `permits_max`.
    #[must_use]
    pub fn new(permits_max: u32) -> Self {
        let permits = Semaphore::new(permits_max as usize);
        Self { queue: Mutex::default(), permits, permits_max }
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<T>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for capacity for one more message.
    pub async fn acquire(&self) {
        // The semaphore is never closed.
        if let Ok(permit) = self.permits.acquire().await {
            permit.forget();
        }
    }

    /// Waits until nothing is in flight.
    pub async fn drained(&self) {
        drop(self.permits.acquire_many(self.permits_max).await);
    }

    /// Adds a message after [`InFlight::acquire`].
    pub fn push(&self, sent: T) {
        self.queue().push_back(sent);
    }

    /// Removes the oldest message. Its permit returns with [`InFlight::release`].
    pub fn pop(&self) -> Option<T> {
        self.queue().pop_front()
    }

    /// Releases permits, once the answers are processed.
    pub fn release(&self, count: usize) {
        self.permits.add_permits(count);
    }

    /// Messages in flight.
    #[must_use]
    pub fn len(&self) -> usize {
        self.queue().len()
    }

    /// Whether nothing is in flight.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
