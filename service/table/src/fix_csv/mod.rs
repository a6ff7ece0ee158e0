//! Fixes of CSV files.

mod columns;
mod fix;
mod reader;
mod speed_unit;

pub use fix::{CsvRow, Fix};
pub use reader::CsvReader;
pub use speed_unit::SpeedUnit;
