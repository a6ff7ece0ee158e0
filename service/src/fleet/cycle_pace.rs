//! How many rows a cycle takes, so that no cycle is long.
//!
//! A request waits for the cycle in progress and for its own. Longer cycles cost little less per
//! row, so under load the rows of a cycle follow the time that rows have taken lately.

use std::time::Duration;

use crate::limits::{CYCLE_PACE_ROWS_MIN, CYCLE_TIME_MS};

/// See the file's head.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct CyclePace {
    /// Nanoseconds of a row, on average over some cycles; 0 before the first.
    row_ns: f64,
}

impl CyclePace {
    /// Rows that are expected to take [`CYCLE_TIME_MS`], at least [`CYCLE_PACE_ROWS_MIN`].
    pub(super) fn rows_max(self) -> usize {
        // A quotient beyond the range of integers becomes the largest one.
        let rows = CYCLE_TIME_MS as f64 * 1e6 / self.row_ns;
        (rows as usize).max(CYCLE_PACE_ROWS_MIN)
    }

    /// Learns from a cycle with this many rows, whose other work is like that of `other_work` rows.
    /// A cycle with few rows, or with more other work, says little about the cost of a row.
    pub(super) fn learn(&mut self, rows: usize, other_work: u64, time: Duration) {
        // Messages stay whole, so a cycle may have half of its rows. It must count all the same, or
        // the least number would be kept for ever.
        if rows < CYCLE_PACE_ROWS_MIN / 2 || other_work > rows as u64 {
            return;
        }
        let row_ns = time.as_nanos() as f64 / rows as f64;
        self.row_ns = if self.row_ns == 0.0 { row_ns } else { (3.0 * self.row_ns + row_ns) / 4.0 };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_follow_the_time_of_rows_alone() {
        let ms = Duration::from_millis;
        let mut pace = CyclePace::default();
        assert_eq!(pace.rows_max(), usize::MAX);
        // Says nothing: few rows, or many queries beside them.
        pace.learn(CYCLE_PACE_ROWS_MIN / 2 - 1, 0, ms(900));
        pace.learn(100_000, 100_001, ms(900));
        assert_eq!(pace.rows_max(), usize::MAX);
        pace.learn(100_000, 50, ms(CYCLE_TIME_MS));
        assert_eq!(pace.rows_max(), 100_000);
        for _ in 0..40 {
            pace.learn(100_000, 0, ms(CYCLE_TIME_MS / 2));
        }
        assert!((199_000..=200_000).contains(&pace.rows_max()), "{}", pace.rows_max());
        for _ in 0..40 {
            pace.learn(100_000, 0, ms(1_000));
        }
        assert_eq!(pace.rows_max(), CYCLE_PACE_ROWS_MIN);
        // Cycles of messages that do not fill the least number lead back.
        for _ in 0..40 {
            pace.learn(CYCLE_PACE_ROWS_MIN - 1_000, 0, ms(1));
        }
        assert!(pace.rows_max() > 5 * CYCLE_PACE_ROWS_MIN, "{}", pace.rows_max());
    }
}
