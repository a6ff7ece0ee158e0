//! Every experiment at a small size: events against the model, files, what is left out.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod agreement;
mod files;

use super::options::Options;
use crate::harness::command::parsed;

/// Flags for small sizes: three cycles, circles large enough to contain objects.
fn options(flags: &[&str]) -> Options {
    let small = ["--objects", "1500", "--updates", "4500", "--cycle", "1500"];
    let small = [&small[..], &["--speed-range", "100-900"]].concat();
    // A repeated list flag would append to the list.
    let lists = [["--regions", "0,40,150"], ["--radius", "3000,9000"]];
    let lists = lists.iter().filter(|[name, _]| !flags.contains(name)).flatten().copied();
    parsed(&small.into_iter().chain(lists).collect::<Vec<_>>(), flags).unwrap()
}

#[test]
fn invalid_flags_are_refused() {
    for flags in [
        &["--objects", "0"][..],
        &["--updates", "0"],
        &["--cycle", "0"],
        &["--experiment", "fast"],
        &["--backends", "gpu"],
        &["--distribution", "hub"],
        &["--speed-range", "20-1"],
        &["--regions", "-1"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}
