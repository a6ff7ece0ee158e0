//! The share of the full number of programs that a run performs.

/// SHOAL_LOG_PROGRAMS_PERCENT percent of `full`; without it all of them.
pub(crate) fn scaled(full: u64) -> u64 {
    let percent = std::env::var("SHOAL_LOG_PROGRAMS_PERCENT").ok();
    let percent = percent.map_or(100, |text| text.parse().expect("it is a percentage"));
    (full * percent).div_ceil(100)
}
