//! Counts the rows of a log after its newest checkpoint, and estimates how long a recovery takes to
//! replay them.
//!
//! The rate is that of the last recovery, if it replayed enough rows to measure it, else a constant
//! of the engine.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use crate::limits::{
    RECOVERY_MEASURED_ROWS_MIN, RECOVERY_ROWS_PER_S_CPU, RECOVERY_ROWS_PER_S_CUDA,
};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct LogTail {
    rows_per_s: AtomicU64,
    /// Number of rows that were logged in this run or replayed at its start.
    logged: AtomicU64,
    checkpoint: Mutex<CheckpointRows>,
}

#[derive(Debug, Default)]
struct CheckpointRows {
    /// How many of the logged rows the newest checkpoint contains.
    contained: u64,
    /// Epoch of the checkpoint that is being written, and the number of rows logged when it began.
    begun: Option<(u64, u64)>,
}

impl Default for LogTail {
    fn default() -> Self {
        Self {
            rows_per_s: AtomicU64::new(RECOVERY_ROWS_PER_S_CPU),
            logged: AtomicU64::default(),
            checkpoint: Mutex::default(),
        }
    }
}

impl LogTail {
    /// Records that a recovery has replayed `rows` rows after a checkpoint in `time`.
    pub(super) fn replayed(&self, engine: &str, rows: u64, time: Duration) {
        let known =
            if engine == "cuda" { RECOVERY_ROWS_PER_S_CUDA } else { RECOVERY_ROWS_PER_S_CPU };
        let is_measured = rows >= RECOVERY_MEASURED_ROWS_MIN && !time.is_zero();
        let rate = if is_measured { (rows as f64 / time.as_secs_f64()) as u64 } else { known };
        self.rows_per_s.store(rate.max(1), Ordering::Relaxed);
        self.logged.store(rows, Ordering::Relaxed);
    }

    pub(super) fn add(&self, rows: u64) {
        self.logged.fetch_add(rows, Ordering::Relaxed);
    }

    /// Records that a checkpoint begins; it contains the rows logged so far.
    pub(super) fn begin_checkpoint(&self, epoch: u64) {
        let mut checkpoint = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        checkpoint.begun = Some((epoch, self.logged.load(Ordering::Relaxed)));
    }

    /// Number of rows after the newest checkpoint, whose epoch is `checkpoint_epoch`.
    pub(crate) fn rows(&self, checkpoint_epoch: u64) -> u64 {
        let mut checkpoint = self.checkpoint.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, rows)) = checkpoint.begun.filter(|(epoch, _)| *epoch <= checkpoint_epoch) {
            *checkpoint = CheckpointRows { contained: rows, begun: None };
        }
        self.logged.load(Ordering::Relaxed).saturating_sub(checkpoint.contained)
    }

    /// Estimates how long a recovery takes to replay `rows` rows.
    pub(crate) fn replay_time(&self, rows: u64) -> Duration {
        Duration::from_secs_f64(rows as f64 / self.rows_per_s.load(Ordering::Relaxed) as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_behind_the_newest_complete_checkpoint_are_the_tail() {
        let tail = LogTail::default();
        tail.replayed("cpu", 1_000, Duration::from_secs(1));
        tail.add(500);
        assert_eq!(tail.rows(0), 1_500);
        tail.begin_checkpoint(7);
        tail.add(100);
        // Checkpoint 7 is not complete, so the newest complete one is older.
        assert_eq!(tail.rows(6), 1_600);
        assert_eq!(tail.rows(7), 100);
        tail.add(1);
        assert_eq!((tail.rows(7), tail.rows(9)), (101, 101));
        assert_eq!(tail.replay_time(RECOVERY_ROWS_PER_S_CPU), Duration::from_secs(1));
        let rows = 2 * RECOVERY_MEASURED_ROWS_MIN;
        tail.replayed("cpu", rows, Duration::from_millis(500));
        assert_eq!(tail.replay_time(4 * rows), Duration::from_secs(2));
    }
}
