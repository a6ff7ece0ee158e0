//! The flags of `shoal-bench glfpp`.
//!
//! Flags of one backend begin with its name and say nothing to the others.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::experiments::Files;

/// The experiments, by the names of the paper's figures and ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Updates with 10, 8, 5, 2 and 1 queries in a hundred, uniform.
    Mixed,
    /// Ten to one over 1, 10 and 100 hot-spots.
    Gauss,
    /// Ten times the objects, uniform and gauss, windows scaled to ten results.
    Large,
    /// Cycles of 100,000 updates with 10,000 queries.
    Small,
    /// Updates alone over the number of cells.
    CellsUpdates,
    /// Queries alone over the number of cells.
    CellsQueries,
    /// Ten to one, rows with all attributes.
    Attributes,
    /// Updates alone, then with 1 and 10 queries in a hundred: what updates lose.
    UpdatesAlone,
    /// Updates alone and queries alone over the threads that a device runs at a time.
    Threads,
}

/// All but `threads`, which is for a device alone.
const EXPERIMENTS: [&str; 8] = [
    "mixed",
    "gauss",
    "large",
    "small",
    "cells-updates",
    "cells-queries",
    "attributes",
    "updates-alone",
];

/// How grids on a device are brought up to a cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum UpdateWay {
    /// What moved is deleted, inserted and moved.
    Apply,
    /// From the newest positions.
    Rebuild,
}

impl UpdateWay {
    /// The way's name as it is written.
    #[cfg(feature = "cuda")]
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Apply => "apply",
            Self::Rebuild => "rebuild",
        }
    }
}

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum BackendName {
    /// The baseline of the paper, on all cores.
    Pgrid,
    /// Shoal's engine on all cores.
    Cpu,
    /// Shoal's engine on the first NVIDIA GPU.
    Cuda,
}

/// What to run.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order; `threads` is for the backend `cuda` alone.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_values = EXPERIMENTS
    )]
    pub(super) experiment: Vec<Experiment>,
    /// Backends, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pgrid,cpu")]
    pub(super) backends: Vec<BackendName>,
    /// Objects of each run; `large` takes ten times as many.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Updates of each run, the cycle that warms up not counted; `cells-queries` asks a tenth as
    /// many queries.
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) updates: u64,
    /// Updates of one cycle; `small` has its own.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) cycle: u64,
    /// Threads of each backend on the CPU; 0 means one per core.
    #[arg(long, default_value_t = 0)]
    pub(super) threads: usize,
    /// Seed of the workloads.
    #[arg(long, default_value_t = 1)]
    pub(super) seed: u64,
    /// Queries of `gauss` gather where the objects are, instead of lying anywhere.
    #[arg(long)]
    pub(super) windows_follow: bool,
    /// Cells along an axis of the baseline, instead of tuning; needs `--pgrid-bucket-lines`.
    #[arg(
        long,
        requires = "pgrid_bucket_lines",
        value_parser = clap::value_parser!(u32).range(1..=32_768)
    )]
    pub(super) pgrid_side: Option<u32>,
    /// Cache lines of a bucket of the baseline; 1 holds 3 objects, 4 hold 15, 16 hold 63.
    #[arg(
        long,
        requires = "pgrid_side",
        value_parser = clap::value_parser!(u32).range(1..=16)
    )]
    pub(super) pgrid_bucket_lines: Option<u32>,
    /// Cells along each axis of the CUDA backend's grids, instead of as many as the objects call
    /// for.
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8_192))]
    pub(super) cuda_side: Option<u32>,
    /// How the CUDA backend brings grids up to a cycle, instead of the cheaper way.
    #[arg(long, value_enum)]
    pub(super) cuda_way: Option<UpdateWay>,
    /// Threads of the CUDA backend's kernels on the device at a time, instead of as many as fit;
    /// rounded down to whole warps on each multiprocessor, from 256 threads on to whole blocks.
    #[arg(long)]
    pub(super) cuda_threads: Option<u32>,
    /// Leaves the rows of the CUDA backend in ordinary memory instead of page-locked one.
    #[arg(long)]
    pub(super) pageable: bool,
    /// Tells when each stage of the CUDA backend ran, how much at the same time, and how near its
    /// copies come to what the bus allows.
    #[arg(long)]
    pub(super) timeline: bool,
    /// Writes the rows to this file as CSV.
    #[arg(long)]
    pub(super) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) files: Files,
}

impl Options {
    /// Threads of a backend on the CPU.
    pub(super) fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, std::num::NonZero::get),
            given => given,
        }
    }
}
