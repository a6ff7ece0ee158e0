//! One block of a data set, the input of every contender, prepared before any clock starts.
//!
//! Columns of fixes are in wire order, other columns in the order of the data set. Rows are in the
//! order of the source. Each column is present as typed values and as bytes, so that no contender
//! pays for a conversion.

use std::ops::Range;

use shoal_codec::{Column, FixColumns, SpaceTag, Values};

use super::values::bytes;

/// Rows that belong together.
#[derive(Clone, Debug)]
pub(super) struct Block {
    pub(super) columns: Vec<BlockColumn>,
    /// The same rows as a product batch, if they are fixes.
    pub(super) fixes: Option<(FixColumns, SpaceTag)>,
}

/// One column of a block.
#[derive(Clone, Debug)]
pub(super) struct BlockColumn {
    pub(super) name: String,
    pub(super) values: Values,
    /// The values, little-endian.
    pub(super) bytes: Vec<u8>,
}

impl Block {
    /// A block of columns other than fixes.
    pub(super) fn of_columns(columns: &[(String, Values)], rows: Range<usize>) -> Self {
        let columns = columns
            .iter()
            .map(|(name, values)| BlockColumn::new(name, values.slice(rows.start, rows.end)))
            .collect();
        Self { columns, fixes: None }
    }

    /// A block of fixes. Its times are relative to the least time.
    pub(super) fn of_fixes(fixes: FixColumns, space: SpaceTag) -> Self {
        let base_ms = fixes.time_ms.iter().copied().min().unwrap_or(0);
        let column =
            |column: Column| Some(BlockColumn::new(column.name(), fixes.values(column, base_ms)?));
        let columns = Column::ALL.into_iter().filter_map(column).collect();
        Self { columns, fixes: Some((fixes, space)) }
    }

    pub(super) fn rows(&self) -> usize {
        self.columns.first().map_or(0, |column| column.values.len())
    }
}

impl BlockColumn {
    fn new(name: &str, values: Values) -> Self {
        let bytes = bytes(&values);
        Self { name: name.to_owned(), values, bytes }
    }
}
