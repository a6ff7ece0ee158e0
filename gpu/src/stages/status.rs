//! Status that callers read without waiting for a cycle's answers.

use std::sync::{Arc, Condvar, Mutex, PoisonError};

use shoal_engine::GridUpdates;

/// Status that callers read without waiting for a cycle's answers.
#[derive(Debug, Default)]
pub(crate) struct Status {
    now: Mutex<Now>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Now {
    /// Cycles whose stage dispatch has ended.
    pub(crate) dispatched: u64,
    pub(crate) ended: bool,
    pub(crate) objects: u64,
    /// Least deadline of any object; `None` if none expires.
    pub(crate) deadline_ms: Option<i64>,
    /// Cycles whose events are reported.
    pub(crate) reported: u64,
    /// The next time at which a membership may change without a new fix.
    pub(crate) due_ms: Option<i64>,
    /// How the reported cycles updated the grids.
    pub(crate) grid_updates: GridUpdates,
}

impl Status {
    /// Waits until `cycles` cycles are dispatched or the driver has ended; returns the current
    /// number of objects and their least deadline.
    pub(crate) fn after(&self, cycles: u64) -> (u64, Option<i64>) {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while now.dispatched < cycles && !now.ended {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        (now.objects, now.deadline_ms)
    }

    /// Waits until the events of `cycles` cycles are reported or the driver has ended; returns the
    /// next time at which a membership may change without a new fix.
    pub(crate) fn due_after(&self, cycles: u64) -> Option<i64> {
        let mut now = self.now.lock().unwrap_or_else(PoisonError::into_inner);
        while now.reported < cycles && !now.ended {
            now = self.changed.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        now.due_ms
    }

    /// How the reported cycles updated the grids.
    pub(crate) fn grid_updates(&self) -> GridUpdates {
        self.now.lock().unwrap_or_else(PoisonError::into_inner).grid_updates
    }

    pub(crate) fn set(&self, change: impl FnOnce(&mut Now)) {
        change(&mut self.now.lock().unwrap_or_else(PoisonError::into_inner));
        self.changed.notify_all();
    }
}

/// Wakes waiting callers when the driver ends, even by a panic.
pub(crate) struct End(pub(crate) Arc<Status>);

impl Drop for End {
    fn drop(&mut self) {
        self.0.set(|now| now.ended = true);
    }
}
