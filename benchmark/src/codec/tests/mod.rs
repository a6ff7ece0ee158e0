//! Every codec on columns of every type and shape; the experiments at a small size and their files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod round_trip;

use super::options::Options;
use crate::harness::command::parsed;

/// The product's own sample, from the package's folder, where tests run.
const SAMPLE: &str = "../sample";

/// Flags on top of small sizes and a single run.
fn options(flags: &[&str]) -> Options {
    let small = ["--rows", "4000", "--objects", "300", "--runs", "1", "--data", SAMPLE];
    parsed(&small, flags).unwrap()
}

#[test]
fn flags_without_sense_are_refused() {
    for flags in [
        &["--experiment", "fast"][..],
        &["--codecs", "zip"],
        &["--block-rows", "0"],
        &["--block-rows", "4194304"],
        &["--rows", "3"],
        &["--runs", "0"],
        &["--objects", "0"],
    ] {
        assert!(parsed::<Options>(&[], flags).is_err(), "{flags:?}");
    }
}
