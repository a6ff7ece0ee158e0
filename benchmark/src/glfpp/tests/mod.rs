//! Every experiment at a small size, its answers against a map and a scan; the files it writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod files;
mod rows_prepared;
mod sweeps;

use super::options::Options;
use crate::harness::command::parsed;

/// Flags for small sizes: three cycles, two threads.
fn options(flags: &[&str]) -> Options {
    let small = ["--objects", "3000", "--updates", "12000", "--cycle", "4000", "--threads", "2"];
    parsed(&small, flags).unwrap()
}

#[test]
fn invalid_flags_are_refused() {
    for flags in [
        &["--objects", "0"][..],
        &["--updates", "0"],
        &["--cycle", "0"],
        &["--experiment", "fast"],
        &["--backends", "gpu"],
        &["--pgrid-side", "64"],
        &["--pgrid-side", "64", "--pgrid-bucket-lines", "17"],
        &["--cuda-side", "0"],
        &["--cuda-side", "8193"],
        &["--cuda-way", "fast"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}
