//! Partitions: aligned ranges of event time that share no time.
//!
//! New fixes begin partitions of the shortest length. If these have few rows, aligned partitions of
//! 8, 64 or 512 times the length replace them.

/// A range of event time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Partition {
    /// Its first time, Unix milliseconds, a multiple of the length.
    pub start_ms: i64,
    /// Its length in milliseconds.
    pub length_ms: i64,
}

impl Partition {
    /// The partition of a length that contains a time.
    #[must_use]
    pub fn of(time_ms: i64, length_ms: i64) -> Self {
        // Saturates at the ends of the range of i64.
        let start_ms = time_ms.div_euclid(length_ms).saturating_mul(length_ms);
        Self { start_ms, length_ms }
    }

    /// The first time after it.
    #[must_use]
    pub fn end_ms(&self) -> i64 {
        self.start_ms.saturating_add(self.length_ms)
    }

    /// Whether some time is in both.
    #[must_use]
    pub fn shares_times(&self, other: &Self) -> bool {
        self.start_ms < other.end_ms() && other.start_ms < self.end_ms()
    }

    /// Whether it contains a time.
    #[must_use]
    pub fn contains(&self, time_ms: i64) -> bool {
        self.start_ms <= time_ms && time_ms < self.end_ms()
    }
}
