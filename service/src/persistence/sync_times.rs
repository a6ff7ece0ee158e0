//! The times to write and sync a group, of which percentiles can be read. The metric of the same
//! name has wide bounds and cannot be read back.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use hdrhistogram::Histogram;

/// The greatest recorded time, microseconds: an hour. Longer times count as this one.
const TIME_US_MAX: u64 = 3_600_000_000;
/// Significant decimal digits of a recorded time.
const DIGITS: u8 = 2;

/// See the file's head. Takes 26 KiB.
#[derive(Debug)]
pub(super) struct SyncTimes(Mutex<Histogram<u64>>);

impl SyncTimes {
    pub(super) fn new() -> Self {
        #[allow(clippy::expect_used, reason = "the bounds are constants")]
        let times = Histogram::new_with_bounds(1, TIME_US_MAX, DIGITS).expect("valid bounds");
        Self(Mutex::new(times))
    }

    /// A panic of another thread leaves it valid.
    fn times(&self) -> MutexGuard<'_, Histogram<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn record(&self, time: Duration) {
        self.times().saturating_record(u64::try_from(time.as_micros()).unwrap_or(u64::MAX));
    }

    /// Number of times.
    pub(super) fn count(&self) -> u64 {
        self.times().len()
    }

    /// The least time, to one percent, that `percent` percent of the times do not exceed; `None`
    /// without times.
    pub(super) fn percentile(&self, percent: u32) -> Option<Duration> {
        let times = self.times();
        let value = || times.value_at_percentile(percent.into());
        (!times.is_empty()).then(|| Duration::from_micros(value()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_times_to_one_percent() {
        let times = SyncTimes::new();
        assert_eq!((times.count(), times.percentile(50)), (0, None));
        for micros in 1..=98 {
            times.record(Duration::from_micros(100 * micros));
        }
        times.record(Duration::from_millis(30));
        times.record(Duration::from_secs(36_000));
        assert_eq!(times.count(), 100);
        for (percent, expected_us) in
            [(0, 100), (1, 100), (50, 5_000), (98, 9_800), (99, 30_000), (100, TIME_US_MAX)]
        {
            let found_us = times.percentile(percent).map_or(0.0, |time| time.as_micros() as f64);
            let ratio = found_us / expected_us as f64;
            assert!((0.999..1.01).contains(&ratio), "{percent}: {found_us}");
        }
    }
}
