//! The history of a fleet for readers. It holds the current version, which the writer replaces.
//!
//! A reader takes a version once per query. The lock is held only while a pointer is copied.

use std::sync::{Arc, Mutex, PoisonError};

use crate::version::Version;

/// Provides the current version. Clones refer to the same history.
#[derive(Clone, Debug)]
pub struct History(Arc<Mutex<Arc<Version>>>);

impl History {
    pub(crate) fn new(version: Arc<Version>) -> Self {
        Self(Arc::new(Mutex::new(version)))
    }

    /// The current version.
    #[must_use]
    pub fn version(&self) -> Arc<Version> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the version. The former one exists until its last reader drops it.
    pub(crate) fn replace(&self, version: Version) {
        let version = Arc::new(version);
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *current, version);
        drop(current);
        // Dropping the last reference to a version removes files, so it happens after the lock is
        // released.
        drop(former);
    }
}
