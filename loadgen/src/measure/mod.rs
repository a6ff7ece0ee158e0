//! Measurements of a run: pace, latency, counts, progress, summary.

pub mod allowance;
pub mod counters;
pub mod latency;
pub mod pace;
pub mod progress;
pub mod summary;
pub mod totals;

pub use allowance::Allowance;
pub use counters::Counters;
pub use latency::{Latency, Percentiles};
pub use pace::Pace;
pub use summary::{Summary, write_json};
pub use totals::Totals;
