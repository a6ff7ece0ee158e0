//! Faults of a stream: numbers and memberships that contradict earlier messages.
//!
//! The first few are kept in words.

use crate::limits::MISMATCHES_REPORTED_MAX;

/// Faults of one or more streams.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Messages and events that are missing.
    pub lost: u64,
    /// Messages and events that came twice.
    pub repeated: u64,
    /// Messages and events out of their order.
    pub misordered: u64,
    /// The first of them.
    pub problems: Vec<String>,
}

impl Counts {
    /// Counts missing ones.
    pub fn lose(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.lost += count;
        self.report(count, "lost", text);
    }

    /// Counts repeated ones.
    pub fn repeat(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.repeated += count;
        self.report(count, "repeated", text);
    }

    /// Counts misordered ones.
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

    /// Whether nothing was wrong.
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
