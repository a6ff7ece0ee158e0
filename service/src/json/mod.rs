//! Answers and fleets in JSON, as HTTP and the command line write them.

mod answer;
mod feature;
pub mod fleet;
mod past;

pub use answer::{HeaderJson, RowJson};
pub use feature::FeatureJson;
pub use fleet::FleetJson;
pub use past::{GapJson, PastHeaderJson};
