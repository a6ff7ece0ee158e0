//! What the tests of several packages share: random numbers, runs of fuzz targets, golden files,
//! checksums of changed blocks, the sample file, the naive past and a server that runs.
//!
//! No part of a server: packages name it as a dev-dependency, the engine only for its conformance
//! suite.

mod bound;
mod golden;
mod past;
mod random;
pub mod seal;
#[cfg(feature = "server")]
pub mod server;

pub use bound::{Bound, fuzz_seed};
pub use golden::GoldenFolder;
pub use past::NaivePast;
pub use random::{Limit, Random};

/// A real day of buses: CSV of 33,140 rows of 183 objects, compressed by gzip.
pub const BUS_SAMPLE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
