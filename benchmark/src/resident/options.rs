//! The flags of `shoal-bench resident`.
//!
//! Issue 21 asks for two thousand million rows: `--rows 268435200 --runs 8`.

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_codec::Aim;

use crate::harness::Files;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Rows in a window of time that cuts every tile, everywhere.
    Window,
    /// Rows in a window and half of the area.
    Half,
    /// Rows in a window and a 64th of the area.
    Square,
    /// The states of all objects at a moment, left on the device.
    AsOf,
    /// The same, copied to the host.
    AsOfCopied,
    /// The states of a million pairs of object and moment, copied to the host.
    Pairs,
}

/// The flags of `shoal-bench resident`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "window,half,square,as-of,as-of-copied,pairs"
    )]
    pub(super) experiment: Vec<Experiment>,
    /// Rows of a run.
    #[arg(
        long,
        default_value_t = 4_000_000,
        value_parser = clap::value_parser!(u32).range(1_000..=268_435_456)
    )]
    pub(super) rows: u32,
    /// Runs, each with objects of its own.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Rows of an object, about one each five seconds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) object_rows: u32,
    /// Aims of the blocks; histories have small.
    #[arg(long, value_delimiter = ',', default_value = "small,fast")]
    pub(super) aim: Vec<Aim>,
    /// Measured repetitions; the median counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) repetitions: u32,
    /// Seed of runs and questions.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    #[command(flatten)]
    pub(super) files: Files,
}
