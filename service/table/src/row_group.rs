//! Groups of rows. Rows have this form between text or binary columns and blocks.

use crate::header::{Header, Kind};

/// Some rows of a table, column by column in the order of its header.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct RowGroup {
    /// Number of rows.
    pub(crate) rows: usize,
    /// Values of each column, little-endian; for a text column, the lengths of its fields.
    pub(crate) columns: Vec<Vec<u8>>,
    /// Bytes of the fields of each text column.
    pub(crate) texts: Vec<Vec<u8>>,
}

impl RowGroup {
    /// Creates a group without rows for a table with this header.
    pub(crate) fn new(header: &Header) -> Self {
        Self {
            rows: 0,
            columns: vec![Vec::new(); header.columns.len()],
            texts: vec![Vec::new(); header.texts().count()],
        }
    }

    /// Bytes of all values and texts.
    pub(crate) fn raw_bytes(&self) -> u64 {
        self.columns.iter().chain(&self.texts).map(|bytes| bytes.len() as u64).sum()
    }

    /// Appends the low bytes of a bit pattern to a column.
    pub(crate) fn push(&mut self, column: usize, kind: Kind, pattern: u64) {
        let width = kind.value_type().width_bytes();
        self.columns[column].extend_from_slice(&pattern.to_le_bytes()[..width]);
    }
}

/// The bit pattern at `row` of values of one kind.
pub(crate) fn pattern(values: &[u8], kind: Kind, row: usize) -> u64 {
    let width = kind.value_type().width_bytes();
    let mut bytes = [0; 8];
    bytes[..width].copy_from_slice(&values[row * width..(row + 1) * width]);
    u64::from_le_bytes(bytes)
}
