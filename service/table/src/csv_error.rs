//! Errors of CSV files of fixes and road networks, with file, line and field.
//!
//! An error concerns either one row, so that reading can continue, or the rest of the file
//! ([`CsvError::ends_file`]).

use std::path::Path;
use std::sync::Arc;

use crate::fix_fields::ColumnsFault;
use crate::limits::TEXT_SHOWN_MAX;

/// A row or a file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}, line {line}, {field}: {fault}", file.display())]
pub struct CsvError {
    /// The file.
    pub file: Arc<Path>,
    /// Number of the line in the plain text, from 1.
    pub line: u64,
    /// Name of the column in the file, or `line` or `header` if the fault is not in a single field.
    pub field: String,
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
    /// The columns cannot be chosen by their names.
    #[error(transparent)]
    Columns(Box<ColumnsFault>),
    /// The file is UTF-16.
    #[error("the file is UTF-16; convert it to UTF-8")]
    Utf16,
    /// The header names too many columns.
    #[error("the header has more than {limit_columns} columns")]
    TooManyColumns {
        /// The limit.
        limit_columns: usize,
    },
    /// A row whose number of fields differs from that of the header.
    #[error("{found} fields; the header has {expected}")]
    FieldCount {
        /// Number of fields in the row.
        found: usize,
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
    /// The value of a field cannot be used.
    #[error("{reason}")]
    Value {
        /// Why.
        reason: String,
    },
    /// A field that is read is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// Text follows the closing quote of a field.
    #[error("text after the closing quote of a field")]
    AfterQuote,
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
        if text.is_empty() {
            return Self::Value { reason: format!("it is empty, not {expected}") };
        }
        Self::NotA { text: text.chars().take(TEXT_SHOWN_MAX).collect(), expected }
    }
}
