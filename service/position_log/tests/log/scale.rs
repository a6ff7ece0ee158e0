//! The number of random programs in a test run, and their seeds. The default first seed is 0.
//!
//! SHOAL_LOG_PROGRAMS_PERCENT scales the number: 10000 makes a million long programs.
//! SHOAL_LOG_PROGRAMS_SEED sets the first seed, for programs that no run has tried.

use std::ops::Range;

fn set(name: &str, usual: u64) -> u64 {
    let text = std::env::var(name).ok();
    text.map_or(usual, |text| text.parse().unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// The seeds of `full` programs, scaled by the environment variables.
pub(crate) fn seeds(full: u64) -> Range<u64> {
    let first = set("SHOAL_LOG_PROGRAMS_SEED", 0);
    first..first + (full * set("SHOAL_LOG_PROGRAMS_PERCENT", 100)).div_ceil(100)
}
