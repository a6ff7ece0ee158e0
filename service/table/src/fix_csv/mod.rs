//! Fixes of CSV files.

mod fields;
mod fix;
mod header;
mod reader;
mod record;

pub use fix::{CsvRow, Fix, NamedCsvRow};
pub use header::looks_like_header;
pub use reader::CsvReader;
