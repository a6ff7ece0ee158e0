//! Parts of an answer for a caller in this process, which takes them as the service has them.
//!
//! Such a caller marks its request with [`InProcess`](crate::access::InProcess) and finds a
//! [`Handover`] among the extensions of the response. The stream has an empty message for each part
//! in the handover, so that limits, errors and the end of a token act as on any other call.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};

/// See the file's head. Holds one part; clones share it.
#[derive(Debug)]
pub(crate) struct Handover<T>(Arc<Mutex<Slot<T>>>);

#[derive(Debug)]
struct Slot<T> {
    part: Option<T>,
    /// The stream, while it waits until the part is taken.
    waiting: Option<Waker>,
}

impl<T> Clone for Handover<T> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<T> Default for Handover<T> {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Slot { part: None, waiting: None })))
    }
}

impl<T> Handover<T> {
    fn slot(&self) -> MutexGuard<'_, Slot<T>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until there is room for a part.
    pub(super) fn poll_room(&self, context: &Context<'_>) -> Poll<()> {
        let mut slot = self.slot();
        if slot.part.is_none() {
            return Poll::Ready(());
        }
        slot.waiting = Some(context.waker().clone());
        Poll::Pending
    }

    /// Puts a part, after [`Handover::poll_room`] was ready.
    pub(super) fn put(&self, part: T) {
        self.slot().part = Some(part);
    }

    /// Takes the part of the empty message that the stream returned last.
    pub(crate) fn take(&self) -> Option<T> {
        let mut slot = self.slot();
        let part = slot.part.take();
        let waiting = slot.waiting.take();
        drop(slot);
        if let Some(waiting) = waiting {
            waiting.wake();
        }
        part
    }
}
