//! The flags of `shoal-bench log`.
//!
//! The defaults write about 100 GB in all, never more than a few GB at once.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use serde::Serialize;
use shoal_codec::PlanChoice;

use crate::harness::{BackendName, Common};

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Write and sync groups; compared with raw writes of the same sizes with the same syncs.
    Append,
    /// Read and verify frames; compared with a plain sequential read with a checksum.
    Read,
    /// Replay the tail of a log through the engine; compared with the engine alone.
    Recover,
    /// Export, write, read and load a checkpoint.
    Checkpoint,
    /// Cycles with and without concurrent checkpoints; the group columns show cycle times.
    Busy,
}

/// When writes are synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Durability {
    /// After each group.
    Logged,
    /// Once, at the end.
    Applied,
}

/// The flags of `shoal-bench log`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "append,read,recover,checkpoint,busy"
    )]
    pub(super) experiment: Vec<Experiment>,
    /// Folder on the disk to be measured [default: the folder of temporary files]. A folder with
    /// the process number is created in it and removed at the end.
    #[arg(long)]
    pub(super) folder: Option<PathBuf>,
    /// Bytes of client blocks of each run of `append` and `read`.
    #[arg(long, default_value = "256MiB", value_parser = byte_count)]
    pub(super) bytes: u64,
    /// Maximum bytes of client blocks of a group for `append` and `read`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "64KiB,256KiB,1MiB,2MiB,8MiB",
        value_parser = byte_count
    )]
    pub(super) groups: Vec<u64>,
    /// Plans of the blocks: raw, fixes, planned.
    #[arg(long, value_delimiter = ',', default_value = "raw,fixes,planned")]
    pub(super) plans: Vec<PlanChoice>,
    /// Durability levels of `append`.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "logged,applied")]
    pub(super) durability: Vec<Durability>,
    /// Rows of a block; fewer if a group would otherwise have less than four raw blocks.
    #[arg(
        long,
        default_value_t = 8_192,
        value_parser = clap::value_parser!(u32).range(1..=250_000)
    )]
    pub(super) block_rows: u32,
    /// Bytes of a segment of the log. Segments are zeroed before the clock starts.
    #[arg(long, default_value = "64MiB", value_parser = byte_count)]
    pub(super) segment: u64,
    /// Runs of each contender, in turn; the median is shown.
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Name of the workload.
    #[arg(long, default_value = "uniform")]
    pub(super) workload: String,
    /// Objects, except in `checkpoint`.
    #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) objects: u64,
    /// Updates in the log of `recover`, rounded up to whole blocks, and of each run of `busy`.
    #[arg(long, default_value_t = 20_000_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(super) tail: u64,
    /// Updates of one cycle of `recover` and `busy`.
    #[arg(
        long,
        default_value_t = 1 << 18,
        value_parser = clap::value_parser!(u32).range(1..=4_000_000)
    )]
    pub(super) cycle: u32,
    /// Pause between two checkpoints of `busy`, as a multiple of the duration of the last one; the
    /// server uses 3.
    #[arg(long, default_value_t = 3)]
    pub(super) pause: u32,
    /// Objects of a checkpoint.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000000,10000000",
        value_parser = clap::value_parser!(u64).range(1..)
    )]
    pub(super) checkpoint_objects: Vec<u64>,
    /// The engine of `recover`, `checkpoint` and `busy`.
    #[arg(long, value_enum, default_value = "cpu")]
    pub(super) backend: BackendName,
    #[command(flatten)]
    pub(super) common: Common,
}

const UNITS: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("", 1)];

/// Parses a number of bytes such as `64KiB`.
fn byte_count(text: &str) -> Result<u64, String> {
    let wrong =
        || format!("{text:?} is not a number of bytes above 0, such as 4096, 64KiB or 2MiB");
    let (digits, unit) = UNITS
        .iter()
        .find_map(|(name, unit)| Some((text.strip_suffix(name)?, unit)))
        .ok_or_else(wrong)?;
    let count: u64 = digits.trim_end().parse().map_err(|_| wrong())?;
    count.checked_mul(*unit).filter(|bytes| *bytes > 0).ok_or_else(wrong)
}

/// A number of bytes as text.
pub(super) fn byte_text(bytes: u64) -> String {
    let unit = UNITS.iter().find(|(_, unit)| bytes.is_multiple_of(*unit));
    let text = unit.map(|(name, unit)| format!("{} {name}", bytes / unit)).unwrap_or_default();
    text.trim_end().to_owned()
}
