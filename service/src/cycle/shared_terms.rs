//! The terms of a running fleet. They change when the leader of a follower begins a term, and when
//! the fleet is promoted.

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

    /// Returns a copy of the terms.
    pub(crate) fn get(&self) -> Terms {
        self.read(Terms::clone)
    }

    /// Ends the current term at `last_epoch` and makes `term` the current one.
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
