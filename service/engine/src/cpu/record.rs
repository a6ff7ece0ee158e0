//! The stored record of an object, and the shapes in which rows travel between the stages.
//!
//! A record is half a cache line, so reading one costs one miss. Attributes are stored apart: most
//! fleets send none.

use shoal_codec::{Attributes, FixRow};

use crate::layout::ARRIVAL_BITS;
use crate::limits::{CYCLE_FIXES_MAX, TIME_MAX_MS, TIME_MIN_MS};

/// Marks a record that no row of the running cycle has touched.
pub(super) const UNTOUCHED: u32 = u32::MAX;
/// Marks a record that expires in the running cycle and is listed among its motions.
pub(super) const EXPIRING: u32 = u32::MAX - 1;
/// The object of a free slot; refused as an id.
pub(super) const NO_OBJECT: u64 = u64::MAX;

/// Object, time, position and state of one object: the fields that most cycles and queries read.
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
    /// Milliseconds since [`TIME_MIN_MS`] in the upper bits, the arrival in the lower ones.
    pub(super) time_and_arrival: u64,
    /// The position, or [`RoutedRow::REMOVAL`] for a removal; no accepted row has this value.
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) state: u32,
    /// The object's hash inside its shard. Computed once, because computing it costs as much as all
    /// other work on a routed row.
    pub(super) hash: u32,
}

const _: () = assert!(size_of::<RoutedRow>() == 32, "two rows a cache line");
const _: () = assert!(CYCLE_FIXES_MAX < 1 << ARRIVAL_BITS, "an arrival fits its bits");
const _: () = assert!((TIME_MAX_MS - TIME_MIN_MS) >> (64 - ARRIVAL_BITS) == 0, "so does a time");

impl RoutedRow {
    const REMOVAL: i32 = i32::MIN;

    /// The value of `time_and_arrival` for an accepted row.
    #[inline(always)]
    pub(super) fn time_and_arrival(time_ms: i64, arrival: u32) -> u64 {
        let since = time_ms.wrapping_sub(TIME_MIN_MS) as u64;
        since << ARRIVAL_BITS | u64::from(arrival)
    }

    pub(super) fn removal(object: u64, hash: u32, arrival: u32) -> Self {
        let time_and_arrival = arrival.into();
        Self { object, time_and_arrival, x: Self::REMOVAL, y: 0, state: 0, hash }
    }

    pub(super) fn is_removal(&self) -> bool {
        self.x == Self::REMOVAL
    }

    /// The event time of an accepted row.
    #[inline(always)]
    pub(super) fn time_ms(&self) -> i64 {
        TIME_MIN_MS + (self.time_and_arrival >> ARRIVAL_BITS) as i64
    }

    /// Place among all rows and removals of the cycle.
    #[inline(always)]
    pub(super) fn arrival(&self) -> u32 {
        self.time_and_arrival as u32 & ((1 << ARRIVAL_BITS) - 1)
    }
}

/// The outcome of a row that was not applied, or of a removal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RowOutcome {
    Duplicate,
    Superseded,
    Late,
    Expired,
    Removed,
    Missing,
}

/// A row's outcome by its arrival.
#[derive(Clone, Copy, Debug)]
pub(super) struct RowNote {
    pub(super) arrival: u32,
    pub(super) outcome: RowOutcome,
}
