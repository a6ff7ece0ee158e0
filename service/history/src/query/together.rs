//! A result that the parts of a query build together.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The handle of one part to the shared result.
#[derive(Debug)]
pub(super) struct Together<T>(Arc<Shared<T>>);

#[derive(Debug)]
struct Shared<T> {
    found: Mutex<T>,
    /// Parts that have not ended.
    parts: AtomicUsize,
}

impl<T: Default> Together<T> {
    /// One handle for each of `parts` parts.
    pub(super) fn of(parts: usize) -> Vec<Self> {
        let shared = Shared { found: Mutex::default(), parts: AtomicUsize::new(parts) };
        let shared = Arc::new(shared);
        (0..parts).map(|_| Self(shared.clone())).collect()
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, T> {
        self.0.found.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Ends a part; must be called once for each. The last one takes the result of all parts; the
    /// others get `None`.
    pub(super) fn end(&self) -> Option<T> {
        let left = self.0.parts.fetch_sub(1, Ordering::AcqRel) - 1;
        (left == 0).then(|| std::mem::take(&mut *self.lock()))
    }
}
