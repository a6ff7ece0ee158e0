//! Streams of fixes for load tests and benchmarks: seeded generators of moving objects, and the
//! replay of real data.
//!
//! The same name, parameters and seed give the same fixes for every number of shards, and no stream
//! is held in memory. The package does not depend on the engine, the wire or a clock; the caller
//! paces the rows.

mod calendar;
mod direction;
mod error;
mod gauss;
mod hub;
mod limits;
mod mix;
mod network;
mod normal;
mod open;
mod params;
mod random;
mod regions;
mod replay;
mod scheduled;
mod shard;
mod speed_range;
mod uniform;
mod window;
mod workload;
mod world;

pub use error::WorkloadError;
pub use limits::*;
pub use mix::{Event, Mix, MixCounts, MixShares};
pub use open::open;
pub use params::Params;
pub use regions::{RegionParams, RegionStep, Regions};
pub use shoal_table::{Fix, SpeedUnit};
pub use speed_range::SpeedRange;
pub use window::Window;
pub use workload::{Workload, WorkloadSpace};
