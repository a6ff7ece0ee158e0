//! The flags of `shoal-bench history`.
//!
//! The defaults build a small past in seconds; the recorded tables have `--fixes 200000000
//! --objects 100000`, which takes minutes and a gigabyte or two of disk, and `--device-rows
//! 268435200
//! --device-runs 8`.

use std::num::NonZero;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_codec::Aim;

use crate::harness::Common;
use crate::harness::command::value_name;

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// All fixes of one object.
    Trajectory,
    /// The state of all objects at a moment.
    AsOf,
    /// The objects within 1 km of a place during an hour.
    Passed,
    /// The number of fixes in a range of speeds. Zones do not limit speeds, so every fix is tested.
    Filter,
    /// The number of fixes in a square of 100 km during nearly the whole past.
    Region,
    /// In a device's memory: rows in a time window that cuts every tile, in the whole area.
    DeviceWindow,
    /// Rows in a window and half of the area.
    DeviceHalf,
    /// Rows in a window and a 64th of the area.
    DeviceSquare,
    /// The states of all objects at a moment, left on the device.
    DeviceAsOf,
    /// The same, copied to the host.
    DeviceAsOfCopied,
    /// The states of a million pairs of object and moment, copied to the host.
    DevicePairs,
}

impl Experiment {
    /// Whether the experiment queries runs in device memory.
    pub(super) fn is_on_device(self) -> bool {
        value_name(&self).starts_with("device-")
    }
}

/// The flags of `shoal-bench history`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "trajectory,as-of,passed,filter,region"
    )]
    pub(super) experiment: Vec<Experiment>,
    /// Fixes of the past.
    #[arg(long, default_value_t = 2_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) fixes: u64,
    /// Number of objects, at least 2.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(2..))]
    pub(super) objects: u64,
    /// Length of the past, minutes.
    #[arg(long, default_value_t = 1_440, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) minutes: u32,
    /// Name of the workload.
    #[arg(long, default_value = "hub")]
    pub(super) workload: String,
    /// Folder of the history; built there if missing, and kept [default: a temporary folder].
    #[arg(long)]
    pub(super) folder: Option<PathBuf>,
    /// MiB of encoded pages in memory; 0 reads everything from the disk, past the page cache.
    #[arg(long, default_value_t = 8_192)]
    pub(super) cache_mib: usize,
    /// Threads of `as-of`, `filter` and `region`; the other experiments use one [default: all
    /// cores].
    #[arg(long)]
    pub(super) threads: Option<NonZero<usize>>,
    /// Questions of `trajectory` and `passed`.
    #[arg(long, default_value_t = 300, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) questions: u32,
    /// Questions of the other experiments.
    #[arg(long, default_value_t = 9, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Timed passes over the questions, after one untimed pass.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) passes: u32,
    /// Rows of a run in a device's memory.
    #[arg(
        long,
        default_value_t = 4_000_000,
        value_parser = clap::value_parser!(u32).range(1_000..=268_435_456)
    )]
    pub(super) device_rows: u32,
    /// Runs in a device's memory; no object is in two runs.
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) device_runs: u32,
    /// Rows of each object of those runs, about one every five seconds.
    #[arg(long, default_value_t = 200, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) device_object_rows: u32,
    /// Planner aims for the blocks of those runs; a history uses small.
    #[arg(long, value_delimiter = ',', default_value = "small,fast")]
    pub(super) device_aim: Vec<Aim>,
    /// Write all fixes to this file or pipe first, for `benchmark/history_peers.py`.
    #[arg(long)]
    pub(super) export: Option<PathBuf>,
    /// Write the questions with their answers to this file as a JSON list.
    #[arg(long)]
    pub(super) answers: Option<PathBuf>,
    #[command(flatten)]
    pub(super) common: Common,
}
