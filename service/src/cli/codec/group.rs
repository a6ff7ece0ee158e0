//! Rows of a table on their way between text and blocks.
//!
//! Values lie as little-endian bytes, column by column in the order of the header; of a text column
//! they are the lengths of its fields, and the fields' bytes lie apart.

use shoal_codec::limits::BLOCK_ROWS_MAX;

use super::header::{Header, Kind};

/// Bytes of one text column in a group at most: they are the rows of a block.
pub(crate) const TEXT_BYTES_MAX: usize = BLOCK_ROWS_MAX as usize;

/// Some rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Group {
    /// How many rows.
    pub(crate) rows: usize,
    /// Values of each column, little-endian.
    pub(crate) columns: Vec<Vec<u8>>,
    /// Bytes of each text column, in order.
    pub(crate) texts: Vec<Vec<u8>>,
}

impl Group {
    /// No rows of a table.
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
