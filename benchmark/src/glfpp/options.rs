//! The flags of `shoal-bench glfpp`.
//!
//! Flags of one backend begin with its name.

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_codec::PlanChoice;

use crate::harness::blocks::BLOCK_ROWS;
use crate::harness::{BackendName, Common};
use crate::pgrid::Roles;

/// The experiments.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// 10, 8, 5, 2 and 1 queries per 100 updates; objects are distributed uniformly.
    Mixed,
    /// Ten updates per query; objects are distributed around 1, 10 and 100 hot spots.
    Gauss,
    /// Ten times the objects, uniform and gauss; a query finds ten objects on average.
    Large,
    /// Cycles of 100,000 updates with 10,000 queries.
    Small,
    /// Updates alone, for several numbers of cells.
    CellsUpdates,
    /// Queries alone, for several numbers of cells.
    CellsQueries,
    /// Ten updates per query; rows have all attributes.
    Attributes,
    /// 0, 1 and 10 queries per 100 updates, to show how much queries slow down updates.
    UpdatesAlone,
    /// Ten updates per query; 0.1, 1, 10, 40 and 100 % of the objects and of ten times as many
    /// objects move in a cycle, as far as a cycle has room. A device updates its grid by either
    /// method, then by the one that it chooses.
    Moved,
    /// Ten updates per query; 1, 10 and 100 queries of a cycle have the same window.
    Overlap,
    /// A thousand updates per query; objects are vehicles on a road network, which report at its
    /// crossings, where the queries are.
    Network,
    /// Updates alone and queries alone, for several numbers of resident threads of the device.
    Threads,
}

/// All experiments but `moved`, `overlap`, `network` and, because it needs a device, `threads`.
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

/// How grids on a device are updated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum UpdateMethod {
    /// Delete, insert and move what moved.
    Apply,
    /// Build the grid from the newest positions.
    Rebuild,
}

/// The flags of `shoal-bench glfpp`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order. `threads` is for the backend `cuda`.
    #[arg(long, value_enum, value_delimiter = ',', default_values = EXPERIMENTS)]
    pub(super) experiment: Vec<Experiment>,
    /// Backends, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "pgrid,cpu")]
    pub(super) backends: Vec<BackendName>,
    /// Objects of each run; `large` has ten times as many.
    #[arg(long, default_value_t = 10_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Updates of each run after warm-up; `cells-queries` has a tenth as many queries.
    #[arg(long, default_value_t = 40_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) updates: u64,
    /// Updates of one cycle; `small` has its own.
    #[arg(long, default_value_t = 4_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) cycle: u64,
    /// Threads of each backend on the CPU; 0 = one per core.
    #[arg(long, default_value_t = 0)]
    pub(super) threads: usize,
    /// Place the queries of `gauss` near the objects instead of anywhere. Windows of every
    /// distribution are then sized so that a query finds ten objects on average.
    #[arg(long)]
    pub(super) windows_follow: bool,
    /// Plans of the blocks of rows: raw, fixes, planned. A backend decodes the blocks of a cycle as
    /// part of the cycle; the first reports of objects are raw.
    #[arg(long, default_value_t = PlanChoice::Raw, value_name = "PLAN")]
    pub(super) input: PlanChoice,
    /// Most rows of a block.
    #[arg(
        long,
        default_value_t = BLOCK_ROWS,
        value_parser = clap::value_parser!(u32).range(1..=i64::from(BLOCK_ROWS))
    )]
    pub(super) block_rows: u32,
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
    /// Threads of the baseline that only apply updates, and threads that only answer queries, as in
    /// the paper (4:10), which has two more threads that distribute requests [default: all threads
    /// do both].
    #[arg(long, value_name = "UPDATES:QUERIES", value_parser = roles, conflicts_with = "threads")]
    pub(super) pgrid_roles: Option<Roles>,
    /// Cells along each axis of the CUDA backend's grids [default: by the number of objects].
    #[arg(long, value_parser = clap::value_parser!(u32).range(1..=8_192))]
    pub(super) cuda_side: Option<u32>,
    /// How the CUDA backend updates its grids [default: by the method that it expects to take less
    /// time].
    #[arg(long, value_enum)]
    pub(super) cuda_method: Option<UpdateMethod>,
    /// Resident threads of the CUDA backend's kernels [default: as many as fit]. Rounded down to
    /// whole warps on each multiprocessor, from 256 threads on to whole blocks.
    #[arg(long)]
    pub(super) cuda_threads: Option<u32>,
    /// Leave the rows of the CUDA backend in pageable memory.
    #[arg(long)]
    pub(super) pageable: bool,
    /// Report when each stage of the CUDA backend ran, their overlap, and the share of the bus
    /// bandwidth that its copies reach.
    #[arg(long)]
    pub(super) timeline: bool,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Parses the roles of the baseline's threads.
fn roles(text: &str) -> Result<Roles, String> {
    let numbers = text.split_once(':').map(|(updates, queries)| (updates.parse(), queries.parse()));
    match numbers {
        Some((Ok(updates @ 1..=1024), Ok(queries @ 1..=1024))) => Ok(Roles { updates, queries }),
        _ => Err("two numbers of threads from 1 to 1024, such as 4:10".to_owned()),
    }
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
