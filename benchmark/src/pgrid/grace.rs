//! When may a slot be used again? After every worker has passed a quiescent point.
//!
//! A worker announces itself between two portions of work, when it holds no place that it read
//! before. What was given up before an announcement of all workers can no longer be in anybody's
//! hands. Nobody waits: what is not yet free stays in its worker's list.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Release};

/// In place of an announcement: this worker holds nothing.
const AT_REST: u64 = u64::MAX;

/// One announcement, on cache lines of its own: processors fetch pairs of lines.
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

    /// Takes a worker in that was at rest. The early announcement comes before the clock is
    /// touched: whoever touches it later sees it, whoever did so before is seen by this worker.
    pub(super) fn join(&self, worker: usize) {
        self.announced[worker].0.store(0, Release);
        self.pass(worker);
    }

    /// Says that a worker holds nothing, and gives the stamp of what it gave up until now.
    pub(super) fn pass(&self, worker: usize) -> u64 {
        let stamp = self.clock.0.fetch_add(1, AcqRel) + 1;
        self.announced[worker].0.store(stamp, Release);
        stamp
    }

    /// Says that a worker holds nothing and will not until it passes again.
    pub(super) fn leave(&self, worker: usize) {
        self.announced[worker].0.store(AT_REST, Release);
    }

    /// What bears this stamp or an earlier one is free.
    pub(super) fn free_until(&self) -> u64 {
        self.announced.iter().map(|own| own.0.load(Acquire)).min().unwrap_or(AT_REST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_worker_decides() {
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
