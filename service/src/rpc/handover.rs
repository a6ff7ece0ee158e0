//! Messages of an answer for a caller in this process, which takes them as they are.
//!
//! Such a caller marks its request with [`InProcess`](crate::access::InProcess) and finds a
//! [`Handover`] among the extensions of the response. The stream has an empty message for each one
//! in the handover, so that limits, errors and the end of a token act as on any other call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// See the file's head. Holds one message; clones share it.
#[derive(Debug)]
pub(crate) struct Handover<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
struct Slot<T> {
    message: Option<T>,
    /// The stream, while it waits until the message is taken.
    waiting: Option<Waker>,
}

impl<T> Clone for Handover<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Slot { message: None, waiting: None })))
    }
}

impl<T> Handover<T> {
    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a message.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut slot = self.slot();
        if slot.message.is_none() {
            return Poll::Ready(());
        }
        slot.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Puts a message, after [`Handover::poll_room`] was ready.
    pub(super) fn put(&self, message: T) {
        self.slot().message = Some(message);
    }

    /// Takes the message of the empty one that the stream returned last.
    pub(crate) fn take(&self) -> Option<T> {
        let mut slot = self.slot();
        let message = slot.message.take();
        let waiting = slot.waiting.take();
        drop(slot);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        message
    }
}
