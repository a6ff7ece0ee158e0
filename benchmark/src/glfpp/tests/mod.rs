//! Every experiment at a small size, its answers against a map and a scan; the files it writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod files;
mod rows_prepared;
mod sweeps;

use super::case::Case;
use super::options::Options;
use super::prepared::Prepared;
use super::row::Row;
use super::run::run_prepared;
use crate::harness::Output;
use crate::harness::command::parsed;
use crate::harness::table::agree;

/// Flags for small sizes: three cycles, two threads.
fn options(flags: &[&str]) -> Options {
    let small = ["--objects", "3000", "--updates", "12000", "--cycle", "4000", "--threads", "2"];
    parsed(&small, flags).unwrap()
}

/// Runs every backend on one case.
fn rows_of(case: &Case, options: &Options) -> Vec<Row> {
    let mut out = Output::new("a test".into());
    run_prepared(&Prepared::new(case).unwrap(), options, &mut out).unwrap();
    agree(out.rows()).unwrap();
    out.rows().to_vec()
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
        &["--cuda-method", "fast"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}
