//! Forms of output: a table for people, lines, JSON or GeoJSON for programs.
//!
//! Each form has its own file and implements one trait. The table is written at the end, the other
//! forms as chunks arrive.

mod density;
mod event;
mod fleet;
mod geojson;
mod json;
mod lines;
mod past;
mod table;
mod terminal;
mod track_map;
mod writer;

pub use density::{DensityMap, decimal};
pub use event::EventLines;
pub use fleet::{fleet_details, fleet_table};
pub use geojson::GeoJsonWriter;
pub use json::JsonWriter;
pub use lines::LinesWriter;
pub(super) use past::header_json;
pub use past::{PastForm, PastWriter};
pub use table::{OutputColumn, TableWriter, plain_table};
pub use track_map::TrackMap;
pub use writer::{AnswerWriter, Stdout, stdout};
