//! Latencies: microseconds in an HDR histogram of three digits up to an hour; longer ones count as
//! an hour. One histogram per connection and kind, added at the end, so recording takes no lock.

use std::fmt;
use std::time::Duration;

use hdrhistogram::Histogram;
use serde::Serialize;

/// The longest recorded latency: an hour.
const LATENCY_US_MAX: u64 = 3_600_000_000;

/// Latencies of one kind.
#[derive(Clone, Debug)]
pub struct Latency(Histogram<u64>);

/// Latencies in milliseconds; zeros where nothing was measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Percentiles {
    /// Half were at most this.
    pub p50: f64,
    /// 99 in 100 were at most this.
    pub p99: f64,
    /// 999 in 1,000 were at most this.
    pub p999: f64,
    /// The longest.
    pub max: f64,
}

impl fmt::Display for Percentiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { p50, p99, p999, max } = self;
        write!(f, "p50 {p50:.2}  p99 {p99:.2}  p99.9 {p999:.2}  max {max:.2} ms")
    }
}

impl Latency {
    /// Records `latency` once for each of the `count` units of a message.
    pub fn record(&mut self, latency: Duration, count: u64) {
        let us = u64::try_from(latency.as_micros()).unwrap_or(u64::MAX);
        self.0.saturating_record_n(us.clamp(1, LATENCY_US_MAX), count);
    }

    /// Adds the latencies of another connection.
    pub fn add(&mut self, other: &Self) {
        self.0.add(&other.0).expect("all histograms have the same range");
    }

    /// Number of counted latencies.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The percentiles of all counted latencies.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        if self.0.is_empty() {
            return Percentiles::default();
        }
        let ms = |us: u64| us as f64 / 1_000.0;
        let at = |quantile: f64| ms(self.0.value_at_quantile(quantile).min(self.0.max()));
        Percentiles { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: ms(self.0.max()) }
    }
}

impl Default for Latency {
    fn default() -> Self {
        let histogram = Histogram::new_with_bounds(1, LATENCY_US_MAX, 3);
        Self(histogram.expect("constant bounds that the histogram accepts"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_the_values() {
        let mut latency = Latency::default();
        for ms in 1..=1_000 {
            latency.record(Duration::from_millis(ms), 1);
        }
        let seen = latency.percentiles();
        for (value, expected) in
            [(seen.p50, 500.0), (seen.p99, 990.0), (seen.p999, 999.0), (seen.max, 1_000.0)]
        {
            assert!((value / expected - 1.0).abs() < 0.002, "{value} for {expected}");
        }
    }

    #[test]
    fn a_message_counts_for_each_of_its_units_and_parts_add_up() {
        let (mut one, mut other) = (Latency::default(), Latency::default());
        one.record(Duration::from_millis(1), 99);
        other.record(Duration::from_millis(100), 1);
        one.add(&other);
        assert_eq!(one.count(), 100);
        let seen = one.percentiles();
        assert!(seen.p99 < 1.01 && seen.p999 > 99.0, "{seen:?}");
    }

    #[test]
    fn nothing_and_the_unmeasurable_are_no_panic() {
        assert_eq!(Latency::default().percentiles(), Percentiles::default());
        let mut latency = Latency::default();
        latency.record(Duration::ZERO, 1);
        latency.record(Duration::MAX, 1);
        assert!(latency.percentiles().max >= 3_599_000.0);
    }
}
