//! What is wrong with a row, and where?
//!
//! The error names file, line and field, so that a person can go and look. A fault either concerns
//! one row, and reading goes on, or the file as a whole ([`CsvError::ends_file`]).

use std::path::Path;
use std::sync::Arc;

/// Longest piece of foreign text that is repeated in a message, in characters.
const TEXT_SHOWN_MAX: usize = 40;

/// A row or file that cannot be read.
#[derive(Debug, thiserror::Error)]
#[error("{}, line {line}, {field}: {fault}", file.display())]
pub struct CsvError {
    /// The file.
    pub file: Arc<Path>,
    /// Number of the line, from 1, of the unpacked text.
    pub line: u64,
    /// Name of the column, or `line` or `header` where no single field is at fault.
    pub field: &'static str,
    /// What is wrong.
    pub fault: CsvFault,
}

impl CsvError {
    /// True if nothing can be read after this error.
    #[must_use]
    pub fn ends_file(&self) -> bool {
        matches!(self.fault, CsvFault::Unreadable { .. })
    }
}

/// What is wrong with a row or a header.
#[derive(Debug, thiserror::Error)]
pub enum CsvFault {
    /// The file has no line at all.
    #[error("the file is empty; its first line must name the columns")]
    NoHeader,
    /// A required column is missing.
    #[error("the header has no such column; object_id, t_ms, lon and lat are required")]
    NoColumn,
    /// A column stands twice in the header.
    #[error("the header has this column twice")]
    ColumnTwice,
    /// A row with more or fewer fields than the header (a header: more than may be).
    #[error("not {expected} fields, as many as the header has")]
    FieldCount {
        /// How many there should be.
        expected: usize,
    },
    /// A field whose text is not what it should be.
    #[error("`{text}` is not {expected}")]
    NotA {
        /// The text, shortened.
        text: String,
        /// What it should be.
        expected: &'static str,
    },
    /// A line that is not UTF-8.
    #[error("not UTF-8 text")]
    NotText,
    /// A line beyond the limit.
    #[error("longer than {limit_bytes} bytes")]
    TooLong {
        /// The limit, [`CSV_LINE_BYTES_MAX`](crate::CSV_LINE_BYTES_MAX).
        limit_bytes: usize,
    },
    /// More rows than may be held.
    #[error("the file has more than {limit_rows} rows")]
    TooMany {
        /// The limit.
        limit_rows: usize,
    },
    /// The file cannot be read further: a disk error, or gzip data that are damaged or cut off.
    #[error("cannot be read further: {source}")]
    Unreadable {
        /// What the system or the decompressor said.
        source: std::io::Error,
    },
}

impl CsvFault {
    /// The fault of a text that is not what was expected.
    pub(crate) fn not_a(text: &str, expected: &'static str) -> Self {
        Self::NotA { text: text.chars().take(TEXT_SHOWN_MAX).collect(), expected }
    }
}
