//! Where do fixes come from? Seeded generators of moving objects and the reader of real data.
//!
//! Every workload streams: the same name, parameters and seed give the same fixes, whatever the
//! number of shards, and no trace is ever held. Nothing here knows the engine, the wire or a clock;
//! pacing is the caller's.

mod calendar;
mod csv_reader;
mod direction;
mod error;
mod fix;
mod gauss;
mod hub;
mod limits;
mod mix;
mod network;
mod normal;
mod open;
mod params;
mod query_mix;
mod random;
mod regions;
mod replay;
mod shard;
mod speed_range;
mod speed_unit;
mod uniform;
mod window;
mod workload;

pub use csv_reader::{CsvError, CsvFault, CsvReader, CsvRow};
pub use error::WorkloadError;
pub use fix::Fix;
pub use gauss::Gauss;
pub use hub::Hub;
pub use limits::*;
pub use mix::{Event, Mix, MixCounts, MixShares};
pub use network::Network;
pub use open::{NAMES, open};
pub use params::Params;
pub use query_mix::{QueryKind, QueryMix, QueryWeights};
pub use regions::{RegionChange, RegionParams, Regions};
pub use replay::Replay;
pub use speed_range::SpeedRange;
pub use speed_unit::SpeedUnit;
pub use uniform::Uniform;
pub use window::Window;
pub use workload::{Workload, WorkloadSpace};
