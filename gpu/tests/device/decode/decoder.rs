//! The decoder under test, and the number of cases that a test runs.

use shoal_gpu::{Decoder, Gpu};

/// Device memory of the tests.
const BUDGET_BYTES: u64 = 8 << 30;

pub(super) fn decoder() -> Decoder {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Decoder::new(&gpu, BUDGET_BYTES).unwrap()
}

/// Returns the number in environment variable `variable`, or `usual` if it is not set.
pub(super) fn count(variable: &str, usual: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
