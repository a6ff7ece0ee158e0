//! Counters of a run for the progress line: relaxed atomics. The summary uses the exact tallies of
//! the tasks.

use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of a run.
#[derive(Debug, Default)]
pub struct Counters {
    /// Rows acknowledged since the clock started, whatever their outcome.
    pub rows: Count,
    /// Rows acknowledged before the clock started.
    pub preloaded: Count,
    /// Queries answered.
    pub queries: Count,
    /// Events that subscribers received since the clock started.
    pub events: Count,
    /// Rows refused.
    pub refused: Count,
    /// Answers compared with the oracle.
    pub verified: Count,
    /// Compared answers that are wrong.
    pub mismatches: Count,
    /// Reports without an ack.
    pub reports_in_flight: Count,
    /// Messages of queries without an answer.
    pub query_messages_in_flight: Count,
    /// Received acks and chunks of answers, for stall detection.
    pub arrivals: Count,
}

/// One count.
#[derive(Debug, Default)]
pub struct Count(AtomicU64);

impl Count {
    /// Adds `count`.
    pub fn add(&self, count: u64) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    /// Subtracts `count`.
    pub fn sub(&self, count: u64) {
        self.0.fetch_sub(count, Ordering::Relaxed);
    }

    /// The current count.
    #[must_use]
    pub fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}
