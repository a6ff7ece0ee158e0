//! The history of a fleet as readers see it: the current version, replaced by the writer.
//!
//! A reader takes a version once per query. The lock is held for a copy of a pointer.

use std::sync::{Arc, Mutex, PoisonError};

use crate::version::Version;

/// Gives out versions; clones are the same history.
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

    /// Replaces the version; the former lives while readers hold it.
    pub(crate) fn replace(&self, version: Version) {
        let version = Arc::new(version);
        let mut current = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *current, version);
        drop(current);
        // The last holder of a version removes files: not under the lock.
        drop(former);
    }
}
