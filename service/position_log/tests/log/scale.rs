//! The share of the usual number of programs that a run performs.

/// SHOAL_LOG_PROGRAMS_PERCENT percent of `full`; without it all of them. 10000 makes a million long
/// programs.
pub(crate) fn scaled(full: u64) -> u64 {
    let percent = std::env::var("SHOAL_LOG_PROGRAMS_PERCENT").ok();
    let percent = percent.map_or(100, |text| text.parse().expect("it is a percentage"));
    (full * percent).div_ceil(100)
}
