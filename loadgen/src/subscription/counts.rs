//! Counts faults of a stream: numbers and memberships that contradict earlier messages.
//!
//! Descriptions of the first few are kept.

use crate::limits::MISMATCHES_REPORTED_MAX;

/// Faults of one or more streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Missing messages and events.
    pub lost: u64,
    /// Repeated messages and events.
    pub repeated: u64,
    /// Misordered messages and events.
    pub misordered: u64,
    /// Descriptions of the first faults.
    pub problems: Vec<String>,
}

impl Counts {
    /// Counts missing messages or events.
    pub fn lose(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.lost += count;
        self.report(count, "lost", text);
    }

    /// Counts repeated messages or events.
    pub fn repeat(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.repeated += count;
        self.report(count, "repeated", text);
    }

    /// Counts misordered messages or events.
    pub fn misorder(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.misordered += count;
        self.report(count, "misordered", text);
    }

    /// Adds the faults of another stream.
    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.misordered += other.misordered;
        let room = MISMATCHES_REPORTED_MAX.saturating_sub(self.problems.len());
        self.problems.extend(other.problems.iter().take(room).cloned());
    }

    /// Whether there are no faults.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.repeated + self.misordered == 0
    }

    fn report(&mut self, count: u64, what: &str, text: impl FnOnce() -> String) {
        if count > 0 && self.problems.len() < MISMATCHES_REPORTED_MAX {
            self.problems.push(format!("{count} {what}: {}", text()));
        }
    }
}
