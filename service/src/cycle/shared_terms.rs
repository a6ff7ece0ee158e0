//! The terms of a fleet, which change while it runs: on a follower with those of its leader, and
//! when it is promoted.

use std::sync::{PoisonError, RwLock};

use shoal_position_log::{PastTerm, Terms};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct SharedTerms(RwLock<Terms>);

impl SharedTerms {
    pub(crate) fn new(terms: Terms) -> Self {
        Self(RwLock::new(terms))
    }

    /// The current term.
    pub(crate) fn current(&self) -> u64 {
        self.read(Terms::current)
    }

    /// A copy.
    pub(crate) fn get(&self) -> Terms {
        self.read(Terms::clone)
    }

    /// Ends the current term at an epoch.
    pub(crate) fn begin(&self, term: u64, last_epoch: u64) {
        let mut terms = self.0.write().unwrap_or_else(PoisonError::into_inner);
        let ended = PastTerm { term: terms.current(), last_epoch };
        terms.extend(&[ended], term);
    }

    // A panic while the lock is held leaves the terms consistent.
    fn read<T>(&self, read: impl FnOnce(&Terms) -> T) -> T {
        read(&self.0.read().unwrap_or_else(PoisonError::into_inner))
    }
}
