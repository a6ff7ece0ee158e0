//! Compresses tables of rows into files of column blocks, decompresses them, and reads fixes from
//! CSV files.
//!
//! [`compress()`] writes the rows of a [`TableSource`] as a file in the format of `FILE.md`;
//! [`decompress()`] restores the text or binary columns byte for byte. [`inspect`] reads a
//! compressed file without decoding values unless asked to check them; [`plan`] encodes a table
//! without writing it. [`CsvReader`] reads fixes. `compress` and `decompress` run the
//! [`TableCodec`] on a second thread while the calling thread reads or writes text. Long calls
//! report to a [`ProgressFn`]; nothing is printed.

mod binary_columns;
mod column_totals;
mod compress;
mod csv_error;
mod csv_sink;
mod csv_source;
mod decimal;
mod decompress;
mod error;
mod field;
mod fix_csv;
mod fix_fields;
mod frame;
#[cfg(test)]
mod fuzz;
mod header;
mod infer;
mod limits;
mod line_reader;
mod output_file;
mod printable;
mod progress;
mod row_group;
mod statistics;
mod table_codec;
mod table_decoder;
mod table_encoder;
mod table_lines;
mod table_source;
mod text_input;

pub use column_totals::{ColumnTotal, ColumnTotals, NodeTotal, TreeTotal};
pub use compress::{Compressed, Planned, compress, plan};
pub use csv_error::{CsvError, CsvFault};
pub use decompress::{Decompressed, Inspected, TableSink, decompress, inspect};
pub use error::TableError;
pub use fix_csv::{CsvReader, CsvRow, Fix, NamedCsvRow, looks_like_header};
pub use fix_fields::{
    AltitudeUnit, ChosenColumn, ColumnChoice, ColumnOverride, ColumnsFault, DroppedMeasures,
    FixField, FixFileOptions, MeasureReader, NotANumber, RowMeasures, SpeedUnit, TimeDefault,
    TimeReader, TimeUnit, measure_text, object_default_note, object_number, state_bits,
};
pub use frame::{FrameReader, Trailer};
pub use header::{ColumnHeader, CsvForm, FloatStyle, Header, Kind, LineEnd};
pub use limits::*;
pub use line_reader::LineReader;
pub use output_file::{OutputFile, remove_partial_files};
pub use printable::{printable, printable_lines};
pub use progress::{ProgressEvent, ProgressFn, Stage};
pub use statistics::{ColumnStatistics, Number};
pub use table_codec::{CodecFault, CpuTableCodec, TableCodec};
pub use table_source::{TableOptions, TableSource};
pub use text_input::TextInput;
