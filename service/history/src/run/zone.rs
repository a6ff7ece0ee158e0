//! Zones: the range of times, positions and objects of a tile or a run.
//!
//! A zone without rows contains nothing.

use shoal_codec::FixRow;

/// Ranges, both ends included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zone {
    /// Least and greatest event time, Unix milliseconds.
    pub time_ms: (i64, i64),
    /// Least and greatest x, in quanta.
    pub x: (i32, i32),
    /// Least and greatest y, in quanta.
    pub y: (i32, i32),
    /// Least and greatest object.
    pub object: (u64, u64),
}

impl Zone {
    /// The zone without rows.
    pub const EMPTY: Self = Self {
        time_ms: (i64::MAX, i64::MIN),
        x: (i32::MAX, i32::MIN),
        y: (i32::MAX, i32::MIN),
        object: (u64::MAX, 0),
    };

    /// The zone that contains every row.
    pub const EVERYTHING: Self = Self {
        time_ms: (i64::MIN, i64::MAX),
        x: (i32::MIN, i32::MAX),
        y: (i32::MIN, i32::MAX),
        object: (0, u64::MAX),
    };

    /// Extends the zone to include a row.
    pub(crate) fn add(&mut self, row: &FixRow) {
        self.time_ms = (self.time_ms.0.min(row.time_ms), self.time_ms.1.max(row.time_ms));
        self.x = (self.x.0.min(row.x), self.x.1.max(row.x));
        self.y = (self.y.0.min(row.y), self.y.1.max(row.y));
        self.object = (self.object.0.min(row.object), self.object.1.max(row.object));
    }

    /// Extends the zone to include another zone.
    pub(crate) fn join(&mut self, other: &Self) {
        self.time_ms = (self.time_ms.0.min(other.time_ms.0), self.time_ms.1.max(other.time_ms.1));
        self.x = (self.x.0.min(other.x.0), self.x.1.max(other.x.1));
        self.y = (self.y.0.min(other.y.0), self.y.1.max(other.y.1));
        self.object = (self.object.0.min(other.object.0), self.object.1.max(other.object.1));
    }

    /// False only if no fix of one zone can have the identity of a fix of the other.
    pub(crate) fn may_share_fixes(&self, other: &Self) -> bool {
        other.meets_times(self.time_ms.0, self.time_ms.1)
            && other.object.0 <= self.object.1
            && self.object.0 <= other.object.1
    }

    /// True if its times overlap the range from `from_ms` to `to_ms`, both included.
    #[must_use]
    pub fn meets_times(&self, from_ms: i64, to_ms: i64) -> bool {
        self.time_ms.0 <= to_ms && from_ms <= self.time_ms.1
    }

    /// True if all its times lie in the range from `from_ms` to `to_ms`, both included.
    #[must_use]
    pub fn lies_in_times(&self, from_ms: i64, to_ms: i64) -> bool {
        from_ms <= self.time_ms.0 && self.time_ms.1 <= to_ms
    }
}
