//! Files of fixes as GeoParquet: exports of the history, and rows of a report.

mod chunk;
mod column;
mod page_bounds;
mod page_header;
mod reader;
mod row_reader;
mod schema;
mod source_columns;
mod wkb;
mod writer;

pub use reader::GeoParquetReader;
pub(crate) use source_columns::is_wgs84;
pub use writer::{GeoParquetWriter, ROW_GROUP_ROWS, SORTED_ROWS};
