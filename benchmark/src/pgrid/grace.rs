//! Grace periods: a slot is reused after every worker has passed a quiescent point.
//!
//! A worker announces a quiescent point between two portions of work, when it holds no reference.
//! Entries retired before an announcement of all workers have no readers. Workers never wait:
//! retired entries remain in their worker's list until they are free.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// Announcement value of an idle worker.
const AT_REST: u64 = u64::MAX;

/// One announcement, on a separate pair of cache lines, because processors fetch pairs.
#[derive(Debug)]
#[repr(align(128))]
struct Announcement(AtomicU64);

/// The announcements of all workers.
#[derive(Debug)]
pub(super) struct Grace {
    clock: Announcement,
    announced: Vec<Announcement>,
}

impl Grace {
    pub(super) fn new(workers: usize) -> Self {
        let at_rest = || Announcement(AtomicU64::new(AT_REST));
        Self {
            clock: Announcement(AtomicU64::new(0)),
            announced: (0..workers).map(|_| at_rest()).collect(),
        }
    }

    /// Registers an idle worker. Announces 0 before it accesses the clock, so that a worker that
    /// accesses the clock later sees the announcement and frees nothing that this worker may read;
    /// this worker sees the changes of workers that accessed it earlier.
    pub(super) fn join(&self, worker: usize) {
        self.announced[worker].0.store(0, Release);
        self.pass(worker);
    }

    /// Announces a quiescent point; returns the stamp of entries retired so far.
    pub(super) fn pass(&self, worker: usize) -> u64 {
        let stamp = self.clock.0.fetch_add(1, AcqRel) + 1;
        self.announced[worker].0.store(stamp, Release);
        stamp
    }

    /// Marks a worker as idle until its next announcement.
    pub(super) fn leave(&self, worker: usize) {
        self.announced[worker].0.store(AT_REST, Release);
    }

    /// Entries with this stamp or an earlier one are free.
    pub(super) fn free_until(&self) -> u64 {
        self.announced.iter().map(|own| own.0.load(Acquire)).min().unwrap_or(AT_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_worker_determines_the_free_stamp() {
        let grace = Grace::new(3);
        grace.join(0);
        let early = grace.pass(0);
        let late = grace.pass(1);
        assert!(early < late && grace.free_until() == early);
        assert!(grace.pass(0) > late && grace.free_until() == late);
        grace.leave(1);
        grace.leave(0);
        assert_eq!(grace.free_until(), AT_REST);
    }
}
