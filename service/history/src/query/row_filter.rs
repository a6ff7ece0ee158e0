//! Filters: which rows a query selects, for example by region or by ranges of attributes.
//!
//! A scan decodes the columns of the filter first, and the others only where rows are selected.

use shoal_codec::{ColumnSet, FixColumns};

use crate::run::Zone;

/// A condition on single rows.
pub trait RowFilter {
    /// False only if no row of the zone matches; then a tile need not be decoded.
    fn may_match(&self, zone: &Zone) -> bool;

    /// A zone whose x and y ranges contain all matches, for a device. Its times and objects are
    /// ignored.
    fn bounds(&self) -> Zone {
        Zone::EVERYTHING
    }

    /// True only if every row of the zone matches; then the rows of a tile need not be tested.
    fn covers(&self, _: &Zone) -> bool {
        false
    }

    /// The columns that the filter reads. Others are empty when [`Self::select`] is called.
    fn columns(&self) -> ColumnSet {
        ColumnSet::ALL
    }

    /// True if the row matches. All columns are decoded.
    fn matches(&self, rows: &FixColumns, row: usize) -> bool;

    /// Clears the flags of rows that do not match. Filters that read few columns can override it
    /// with code without branches.
    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        for (row, flag) in flags.iter_mut().enumerate() {
            *flag = *flag && self.matches(rows, row);
        }
    }
}

/// Every row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everywhere;

impl RowFilter for Everywhere {
    fn may_match(&self, _: &Zone) -> bool {
        true
    }

    fn covers(&self, _: &Zone) -> bool {
        true
    }

    fn columns(&self) -> ColumnSet {
        ColumnSet::NONE
    }

    fn matches(&self, _: &FixColumns, _: usize) -> bool {
        true
    }
}
