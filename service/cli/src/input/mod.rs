//! Files of position reports: opening one in whatever format it is, and reading its rows in batches.

mod csv;
mod fix_source;
mod input_args;
mod input_file;
mod row_batches;

pub use fix_source::{FixSource, IdKind, SourceRow, SourceSummary};
pub use input_args::InputArgs;
pub(crate) use input_file::column_hint;
pub use input_file::{open_input, unusable};
pub use row_batches::{RowBatch, RowBatches};
