//! The stored record of an object, and the shapes in which rows travel between the stages.
//!
//! A record is half a cache line, so reading one costs one miss. Attributes are stored apart: most
//! fleets send none.

use shoal_codec::{Attributes, FixRow};

/// Marks a record that no row of the running cycle has touched.
pub(super) const UNTOUCHED: u32 = u32::MAX;
/// Marks a record that expires in the running cycle and is listed among its motions.
pub(super) const EXPIRING: u32 = u32::MAX - 1;
/// The object of a free slot; refused as an id.
pub(super) const NO_OBJECT: u64 = u64::MAX;

/// Object, position and state: what nearly every cycle and query reads.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(32))]
pub(super) struct Record {
    pub(super) object: u64,
    pub(super) time_ms: i64,
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) state: u32,
    /// Place in the shard's list of objects modified by the running cycle, or [`UNTOUCHED`].
    pub(super) touched: u32,
}

const _: () = assert!(size_of::<Record>() == 32, "two records a cache line");

impl Record {
    /// The record and its attributes as one row.
    pub(super) fn row(&self, attributes: Attributes) -> FixRow {
        let row = FixRow::new(self.object, self.time_ms, self.x, self.y);
        FixRow { state: self.state, ..row }.with_attributes(attributes)
    }
}

/// An accepted row, or a removal, on its way to the shard of its object.
#[derive(Clone, Copy, Debug)]
pub(super) struct RoutedRow {
    pub(super) object: u64,
    pub(super) time_ms: i64,
    /// [`RoutedRow::REMOVAL`] for a removal; no accepted row has it.
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) state: u32,
    /// Place among all rows and removals of the cycle.
    pub(super) arrival: u32,
}

impl RoutedRow {
    const REMOVAL: i32 = i32::MIN;

    pub(super) fn removal(object: u64, arrival: u32) -> Self {
        Self { object, time_ms: 0, x: Self::REMOVAL, y: 0, state: 0, arrival }
    }

    pub(super) fn is_removal(&self) -> bool {
        self.x == Self::REMOVAL
    }
}

/// The outcome of a row that was not applied, or of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOutcome {
    Duplicate,
    Superseded,
    Late,
    Removed,
    Missing,
}

/// A row's outcome by its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowNote {
    pub(super) arrival: u32,
    pub(super) outcome: RowOutcome,
}
