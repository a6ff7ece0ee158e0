//! Errors of CSV files of fixes and road networks, with file, line and field.
//!
//! An error concerns either one row, so that reading can continue, or the rest of the file
//! ([`CsvError::ends_file`]).

use std::path::Path;
use std::sync::Arc;

use crate::limits::TEXT_SHOWN_MAX;

/// A row or a file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}, line {line}, {field}: {fault}", file.display())]
pub struct CsvError {
    /// The file.
    pub file: Arc<Path>,
    /// Number of the line in the plain text, from 1.
    pub line: u64,
    /// Name of the column, or `line` or `header` if the fault is not in a single field.
    pub field: &'static str,
    /// The fault.
    pub fault: CsvFault,
}

impl CsvError {
    /// True if nothing can be read after this error.
    #[must_use]
    pub fn ends_file(&self) -> bool {
        matches!(self.fault, CsvFault::Unreadable { .. })
    }
}

/// A fault of a line.
#[derive(Debug, thiserror::Error)]
pub enum CsvFault {
    /// The file has no line.
    #[error("the file is empty; its first line must name the columns")]
    NoHeader,
    /// The header lacks a required column.
    #[error("the header has no such column; object_id, t_ms, lon and lat are required")]
    NoColumn,
    /// The header names a column twice.
    #[error("the header has this column twice")]
    ColumnTwice,
    /// The header names too many columns.
    #[error("the header has more than {limit_columns} columns")]
    TooManyColumns {
        /// The limit.
        limit_columns: usize,
    },
    /// A row whose number of fields differs from that of the header.
    #[error("not {expected} fields, as many as the header has")]
    FieldCount {
        /// Number of fields in the header.
        expected: usize,
    },
    /// The text of a field does not have the type of its column.
    #[error("`{text}` is not {expected}")]
    NotA {
        /// The text, shortened.
        text: String,
        /// The expected type.
        expected: &'static str,
    },
    /// A line is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// A line is longer than the limit.
    #[error("longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit.
        limit_bytes: usize,
    },
    /// A file has more rows than the limit.
    #[error("the file has more than {limit_rows} rows")]
    TooMany {
        /// The limit.
        limit_rows: usize,
    },
    /// The text ends within quotes.
    #[error("a quote is not closed")]
    OpenQuote,
    /// The rest of the file cannot be read, because of a disk error or of damaged or truncated gzip
    /// data.
    #[error("cannot be read further: {source}")]
    Unreadable {
        /// The error of the system or of decompression.
        source: std::io::Error,
    },
}

impl CsvFault {
    /// Returns the fault for a text that is not `expected`.
    pub fn not_a(text: &str, expected: &'static str) -> Self {
        Self::NotA { text: text.chars().take(TEXT_SHOWN_MAX).collect(), expected }
    }
}
