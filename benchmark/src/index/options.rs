//! The flags of `shoal-bench index`.
//!
//! The defaults suit a CPU; a device takes more searches (`--searches 67108864`).

use clap::{Args, ValueEnum};
use serde::Serialize;

use crate::harness::Common;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Experiment {
    /// Build all inner nodes over 5 to 25 million keys, the source's first experiment.
    Inner,
    /// 5,120 and 25,600 searches with 64 keys a node, with and without the border branch: the
    /// source's second experiment. On the device only.
    Border,
    /// Searches in every structure.
    Find,
}

/// Where it runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// All cores.
    Cpu,
    /// The first CUDA device.
    Cuda,
}

/// Type of the keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum KeyType {
    /// Random integers of 64 bits.
    Word,
    /// An object and a time: 512 times of each object, a minute apart.
    Pair,
}

/// How requests choose keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Distribution {
    /// Every key with equal probability.
    Uniform,
    /// 90 % of requests choose from every hundredth key.
    Skewed,
    /// Every key with equal probability; requests are in the order of keys.
    Sorted,
}

/// A structure over sorted keys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Structure {
    /// The CSB+-tree.
    Tree,
    /// Binary search in the sorted keys.
    LowerBound,
    /// Binary search in breadth-first order.
    Eytzinger,
    /// Nodes of 128 bytes in breadth-first order. Every key is in exactly one node.
    KAry,
    /// Binary search in a bucket, found by a table of offsets.
    Offsets,
    /// A hash table with linear probing, at most half full.
    Hash,
    /// `std::collections::BTreeMap`, on the CPU only.
    BtreeMap,
}

/// The flags of `shoal-bench index`.
#[derive(Args, Clone, Debug)]
pub(crate) struct Options {
    /// Experiments, in this order.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "inner,border,find")]
    pub(super) experiment: Vec<Experiment>,
    /// CPU, device or both.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "cpu")]
    pub(super) places: Vec<Place>,
    /// Types of keys.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "word,pair")]
    pub(super) key_types: Vec<KeyType>,
    /// Numbers of keys of `find`.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "1000000,25000000,100000000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000)
    )]
    pub(super) keys: Vec<u32>,
    /// Numbers of keys of `inner`. `border` uses the greatest of them.
    #[arg(
        long,
        value_delimiter = ',',
        default_value = "5000000,10000000,15000000,20000000,25000000",
        value_parser = clap::value_parser!(u32).range(1..=1_000_000_000)
    )]
    pub(super) inner_keys: Vec<u32>,
    /// Structures of `find`; the binary search always runs, first.
    #[arg(
        long,
        value_enum,
        value_delimiter = ',',
        default_value = "lower-bound,tree,eytzinger,k-ary,offsets,hash,btree-map"
    )]
    pub(super) structures: Vec<Structure>,
    /// How requests of `find` choose keys.
    #[arg(long, value_enum, value_delimiter = ',', default_value = "uniform,skewed,sorted")]
    pub(super) requests: Vec<Distribution>,
    /// Searches of each run of `find`.
    #[arg(
        long,
        default_value_t = 4 << 20,
        value_parser = clap::value_parser!(u32).range(1..=1 << 30)
    )]
    pub(super) searches: u32,
    /// Threads of a request on the device, for the tree: 1, 2, 4, 8, 16, 32.
    #[arg(long, value_delimiter = ',', default_value = "4", value_parser = group_threads)]
    pub(super) threads: Vec<u32>,
    /// Percent of the places of a leaf that the tree's build fills.
    #[arg(
        long,
        default_value_t = 100,
        value_parser = clap::value_parser!(u32).range(1..=100)
    )]
    pub(super) fill: u32,
    /// Runs of each case; the median is shown.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..))]
    pub(super) runs: u32,
    /// Maximum number of keys of a `BTreeMap`, which takes several times the bytes of its keys.
    #[arg(long, default_value_t = 100_000_000)]
    pub(super) btree_keys_max: u32,
    #[command(flatten)]
    pub(super) common: Common,
}

/// Threads of a request.
fn group_threads(text: &str) -> Result<u32, String> {
    let wrong = || format!("{text:?} is not 1, 2, 4, 8, 16 or 32");
    let threads: u32 = text.parse().map_err(|_| wrong())?;
    let is_known = threads.is_power_of_two() && threads <= 32;
    if is_known { Ok(threads) } else { Err(wrong()) }
}
