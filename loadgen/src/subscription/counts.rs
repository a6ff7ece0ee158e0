//! What was wrong with what was told?
//!
//! Numbers of messages and memberships that contradict what was told before. The first few are kept
//! in words.

use crate::limits::MISMATCHES_TOLD_MAX;

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
    pub told: Vec<String>,
}

impl Counts {
    /// Counts missing ones.
    pub fn lose(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.lost += count;
        self.tell(count, "lost", text);
    }

    /// Counts those that came twice.
    pub fn repeat(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.repeated += count;
        self.tell(count, "repeated", text);
    }

    /// Counts those out of order.
    pub fn misorder(&mut self, count: u64, text: impl FnOnce() -> String) {
        self.misordered += count;
        self.tell(count, "misordered", text);
    }

    /// Adds what another stream had.
    pub fn add(&mut self, other: &Self) {
        self.lost += other.lost;
        self.repeated += other.repeated;
        self.misordered += other.misordered;
        let room = MISMATCHES_TOLD_MAX.saturating_sub(self.told.len());
        self.told.extend(other.told.iter().take(room).cloned());
    }

    /// Whether nothing was wrong.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        self.lost + self.repeated + self.misordered == 0
    }

    fn tell(&mut self, count: u64, what: &str, text: impl FnOnce() -> String) {
        if count > 0 && self.told.len() < MISMATCHES_TOLD_MAX {
            self.told.push(format!("{count} {what}: {}", text()));
        }
    }
}
