//! Tests of every codec on columns of every type and shape, and of small experiments and their
//! files.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod files;
mod round_trip;

use super::options::Options;
use crate::harness::command::parsed;

/// The sample file, relative to the package folder, in which tests run.
const SAMPLE: &str = "../sample";

/// Flags for small sizes and a single run.
fn options(flags: &[&str]) -> Options {
    let small = ["--rows", "4000", "--objects", "300", "--runs", "1", "--data", SAMPLE];
    parsed(&small, flags).unwrap()
}

#[test]
fn invalid_flags_are_refused() {
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
