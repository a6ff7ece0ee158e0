//! Every experiment at a small size, its answers against a map and a scan; the files it writes.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod answers;
mod files;
mod rows_prepared;
mod sweeps;

use clap::Parser;

use super::options::Options;

/// The flags as a program would read them.
#[derive(Parser)]
#[command(args_override_self = true)]
struct Flags {
    #[command(flatten)]
    options: Options,
}

/// Flags on top of small sizes: three cycles, two threads.
fn options(flags: &[&str]) -> Options {
    let small =
        ["glfpp", "--objects", "3000", "--updates", "12000", "--cycle", "4000", "--threads", "2"];
    Flags::try_parse_from(small.iter().chain(flags)).unwrap().options
}

#[test]
fn flags_without_sense_are_refused() {
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
        assert!(Flags::try_parse_from(["glfpp"].iter().chain(flags)).is_err(), "{flags:?}");
    }
}
