//! The conditions of the questions: a circle, a rectangle, a range of speeds.
//!
//! Each tests all rows of a span without branches.

use shoal_codec::{Column, ColumnSet, FixColumns};
use shoal_history::{RowFilter, Zone};

const PLACES: ColumnSet = ColumnSet::NONE.with(Column::X).with(Column::Y);

/// Points within a distance, in quanta.
#[derive(Clone, Copy, Debug)]
pub(super) struct Circle {
    pub(super) x: i32,
    pub(super) y: i32,
    pub(super) radius: i32,
}

impl Circle {
    fn has(&self, x: i32, y: i32) -> bool {
        let [dx, dy] = [i64::from(x) - i64::from(self.x), i64::from(y) - i64::from(self.y)];
        dx * dx + dy * dy <= i64::from(self.radius) * i64::from(self.radius)
    }
}

impl RowFilter for Circle {
    fn may_match(&self, zone: &Zone) -> bool {
        self.has(self.x.clamp(zone.x.0, zone.x.1), self.y.clamp(zone.y.0, zone.y.1))
    }

    fn columns(&self) -> ColumnSet {
        PLACES
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.has(rows.x[row], rows.y[row])
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        for ((flag, x), y) in flags.iter_mut().zip(&rows.x).zip(&rows.y) {
            *flag &= self.has(*x, *y);
        }
    }
}

/// Points in a rectangle, borders included.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rectangle {
    pub(super) x: (i32, i32),
    pub(super) y: (i32, i32),
}

impl RowFilter for Rectangle {
    fn may_match(&self, zone: &Zone) -> bool {
        let meets = |own: (i32, i32), other: (i32, i32)| own.0 <= other.1 && other.0 <= own.1;
        meets(self.x, zone.x) && meets(self.y, zone.y)
    }

    fn covers(&self, zone: &Zone) -> bool {
        let has = |own: (i32, i32), other: (i32, i32)| own.0 <= other.0 && other.1 <= own.1;
        has(self.x, zone.x) && has(self.y, zone.y)
    }

    fn columns(&self) -> ColumnSet {
        PLACES
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        let has = |(low, high): (i32, i32), value: i32| (low <= value) & (value <= high);
        has(self.x, rows.x[row]) & has(self.y, rows.y[row])
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        for (range, values) in [(self.x, &rows.x), (self.y, &rows.y)] {
            for (flag, value) in flags.iter_mut().zip(values) {
                *flag &= (range.0 <= *value) & (*value <= range.1);
            }
        }
    }
}

/// Speeds in a range in mm/s, both ends included; a fix without a speed does not match.
#[derive(Clone, Copy, Debug)]
pub(super) struct Speeds(pub(super) u32, pub(super) u32);

impl RowFilter for Speeds {
    fn may_match(&self, _: &Zone) -> bool {
        true
    }

    fn columns(&self) -> ColumnSet {
        ColumnSet::NONE.with(Column::Speed)
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        rows.speed_mm_s.as_ref().is_some_and(|speeds| (self.0..=self.1).contains(&speeds[row]))
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        let Some(speeds) = &rows.speed_mm_s else { return flags.fill(false) };
        for (flag, speed) in flags.iter_mut().zip(speeds) {
            *flag &= (self.0 <= *speed) & (*speed <= self.1);
        }
    }
}
