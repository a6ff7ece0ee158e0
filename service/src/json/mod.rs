//! Answers and fleets in JSON, as HTTP and the command line write them.

mod answer;
mod feature;
pub mod fleet;
mod past;
mod row_text;

pub use answer::{HeaderJson, RowJson};
pub use feature::FeatureJson;
pub use fleet::FleetJson;
pub use past::{GapJson, PastHeaderJson};
pub use row_text::{RowRef, RowText};
