//! Files of position reports: opening one in whatever format it is, and reading its rows in batches.

mod csv;
mod fix_builder;
mod fix_source;
mod gpx;
mod gtfs_realtime;
mod input_args;
mod input_file;
mod input_head;
mod json;
#[cfg(test)]
mod mutations;
mod nmea;
mod prefixed;
mod row_batches;
mod value;

pub(crate) use fix_builder::{FieldFault, FixBuilder, RowValues};
pub(crate) use fix_source::must_be_geographic;
pub use fix_source::{FixSource, IdKind, SourceRow, SourceSummary};
pub use input_args::InputArgs;
pub(crate) use input_file::column_hint;
pub use input_file::{is_stream, open_input, unusable};
pub use row_batches::{Batching, RowBatch, RowBatches};
pub(crate) use value::Value;
