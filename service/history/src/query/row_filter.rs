//! Which rows a query wants: a region, ranges of attributes, or anything else.

use shoal_codec::FixColumns;

use crate::run::Zone;

/// A condition on single rows.
pub trait RowFilter {
    /// False only if no row of the zone matches; saves decoding a tile.
    fn may_match(&self, zone: &Zone) -> bool;
    /// Whether a row matches.
    fn matches(&self, rows: &FixColumns, row: usize) -> bool;
}

/// Every row.
#[derive(Clone, Copy, Debug, Default)]
pub struct Everywhere;

impl RowFilter for Everywhere {
    fn may_match(&self, _: &Zone) -> bool {
        true
    }

    fn matches(&self, _: &FixColumns, _: usize) -> bool {
        true
    }
}
