//! Times of cycles, recorded in microseconds, read as quantiles in milliseconds.

use std::time::Duration;

use hdrhistogram::Histogram;

use crate::error::BenchmarkError;

/// Maximum recorded time, microseconds; longer times are clamped to it.
const TIME_US_MAX: u64 = 600_000_000;

/// Times of some cycles.
pub(crate) struct CycleTimes(Histogram<u64>);

impl CycleTimes {
    pub(crate) fn new() -> Result<Self, BenchmarkError> {
        let times = Histogram::new_with_bounds(1, TIME_US_MAX, 3);
        times.map(Self).map_err(|error| BenchmarkError::WorkloadRows(error.to_string()))
    }

    pub(crate) fn add(&mut self, took: Duration) {
        self.0.saturating_record(took.as_micros() as u64);
    }

    /// The longest time, milliseconds.
    pub(crate) fn longest_ms(&self) -> f64 {
        self.0.max() as f64 / 1e3
    }

    /// The quantile `share` of the times, milliseconds.
    pub(crate) fn quantile_ms(&self, share: f64) -> f64 {
        self.0.value_at_quantile(share) as f64 / 1e3
    }
}
