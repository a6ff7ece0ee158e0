//! A histogram of the times to write and sync a group. Its bounds double, so that percentiles are
//! exact to a factor of two.
//!
//! The metric of the same name has the same bounds, but it cannot be read back.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// The first bound; each one after it is twice the one before, up to 26 s.
const FIRST: Duration = Duration::from_micros(50);
const BOUNDS: usize = 20;

/// See the file's head.
#[derive(Debug, Default)]
pub(super) struct SyncTimes {
    /// Number of times up to each bound and above the previous one; times above the last bound
    /// count there.
    counts: [AtomicU64; BOUNDS],
}

fn bound(index: usize) -> Duration {
    FIRST * (1 << index)
}

impl SyncTimes {
    pub(super) fn record(&self, time: Duration) {
        let index = (0..BOUNDS - 1).find(|&index| time <= bound(index)).unwrap_or(BOUNDS - 1);
        self.counts[index].fetch_add(1, Ordering::Relaxed);
    }

    /// Number of times.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().map(|count| count.load(Ordering::Relaxed)).sum()
    }

    /// The least bound that `percent` percent of the times do not exceed; `None` without times.
    pub(super) fn percentile(&self, percent: u64) -> Option<Duration> {
        let wanted = (self.count() * percent).div_ceil(100).max(1);
        let mut passed = 0;
        let index = self.counts.iter().position(|count| {
            passed += count.load(Ordering::Relaxed);
            passed >= wanted
        })?;
        Some(bound(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_bounds_of_the_times() {
        let times = SyncTimes::default();
        assert_eq!((times.count(), times.percentile(50)), (0, None));
        for micros in 1..=98 {
            times.record(Duration::from_micros(micros));
        }
        assert_eq!(times.percentile(50), Some(FIRST));
        assert_eq!(times.percentile(52), Some(2 * FIRST));
        times.record(Duration::from_millis(3));
        times.record(Duration::from_secs(3_600));
        assert_eq!(times.count(), 100);
        assert_eq!(times.percentile(98), Some(2 * FIRST));
        assert_eq!(times.percentile(99), Some(64 * FIRST));
        assert_eq!(times.percentile(100), Some(bound(BOUNDS - 1)));
    }
}
