//! The naive history: a map by identity and lists of removals; every answer is a scan.

use std::collections::BTreeMap;

use shoal_codec::{FixRow, VALIDITY_UNKNOWN};

/// A past, as the contract states it.
#[derive(Clone, Debug, PartialEq)]
pub struct NaivePast {
    /// By (object, time); of fixes with the same key, the last to arrive.
    pub fixes: BTreeMap<(u64, i64), FixRow>,
    /// In the order of arrival.
    pub removals: Vec<NaiveRemoval>,
    /// Number of removals that arrived before each fix, by the key of `fixes`.
    after: BTreeMap<(u64, i64), usize>,
    /// Fixes before this time are dropped.
    pub floor_ms: i64,
}

/// The removal of an object, or of all objects if `object` is `None`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct NaiveRemoval {
    /// The object.
    pub object: Option<u64>,
    /// Clock of the fleet at the removal, Unix milliseconds.
    pub clock_ms: i64,
}

impl NaivePast {
    /// An empty past that keeps fixes of any time.
    #[must_use]
    pub fn new() -> Self {
        let (fixes, after) = (BTreeMap::new(), BTreeMap::new());
        Self { fixes, removals: Vec::new(), after, floor_ms: i64::MIN }
    }

    /// Adds a fix, or replaces the one of its object and time.
    pub fn fix(&mut self, row: FixRow) {
        if row.time_ms >= self.floor_ms {
            self.fixes.insert((row.object, row.time_ms), row);
            self.after.insert((row.object, row.time_ms), self.removals.len());
        }
    }

    /// Removes an object, or all, at a time of the clock.
    pub fn remove(&mut self, object: Option<u64>, clock_ms: i64) {
        self.removals.push(NaiveRemoval { object, clock_ms });
    }

    /// Removes all fixes of an object; its removals stay.
    pub fn erase(&mut self, object: u64) {
        self.fixes.retain(|(other, _), _| *other != object);
    }

    /// Raises `floor_ms`, never lowers it, and drops the fixes before it.
    pub fn drop_before(&mut self, floor_ms: i64) {
        self.floor_ms = self.floor_ms.max(floor_ms);
        self.fixes.retain(|(_, time_ms), _| *time_ms >= self.floor_ms);
    }

    fn within(&self, (from_ms, to_ms): (i64, i64)) -> impl Iterator<Item = &FixRow> {
        self.fixes.values().filter(move |row| from_ms <= row.time_ms && row.time_ms <= to_ms)
    }

    /// Fixes of a closed window and a region, by object and time.
    pub fn passed(
        &self,
        window_ms: (i64, i64),
        is_inside: impl Fn(&FixRow) -> bool,
    ) -> Vec<FixRow> {
        self.within(window_ms).filter(|row| is_inside(row)).copied().collect()
    }

    /// Fixes of a closed window and a region, by time and object.
    pub fn replay(
        &self,
        window_ms: (i64, i64),
        is_inside: impl Fn(&FixRow) -> bool,
    ) -> Vec<FixRow> {
        let mut rows = self.passed(window_ms, is_inside);
        rows.sort_by_key(|row| (row.time_ms, row.object));
        rows
    }

    /// Fixes of objects, in the order of the list, at least `every_ms` apart.
    #[must_use]
    pub fn trajectory(&self, objects: &[u64], window_ms: (i64, i64), every_ms: i64) -> Vec<FixRow> {
        let mut rows = Vec::new();
        for object in objects {
            let mut last_ms = None;
            for row in self.within(window_ms).filter(|row| row.object == *object) {
                if last_ms.is_none_or(|last_ms| row.time_ms - last_ms >= every_ms) {
                    last_ms = Some(row.time_ms);
                    rows.push(*row);
                }
            }
        }
        rows
    }

    /// Takes only fixes with a time, and removals with a clock, of at most `time_ms`, in order of
    /// arrival. Returns the newest fix of each object since its last removal, unless it is older
    /// than `ttl_ms` or its validity.
    pub fn as_of(
        &self,
        time_ms: i64,
        ttl_ms: Option<i64>,
        is_asked: impl Fn(&FixRow) -> bool,
    ) -> Vec<FixRow> {
        let mut last: BTreeMap<Option<u64>, usize> = BTreeMap::new();
        for (number, removal) in (1..).zip(&self.removals) {
            if removal.clock_ms <= time_ms {
                last.insert(removal.object, number);
            }
        }
        let has_returned = |row: &&FixRow| {
            let after = self.after[&(row.object, row.time_ms)];
            [Some(row.object), None].iter().all(|key| last.get(key).is_none_or(|it| *it <= after))
        };
        let mut newest: BTreeMap<u64, FixRow> = BTreeMap::new();
        for row in self.fixes.values().filter(|row| row.time_ms <= time_ms).filter(has_returned) {
            newest.insert(row.object, *row);
        }
        let is_live = |row: &FixRow| {
            let valid_ms = (row.valid_ms != VALIDITY_UNKNOWN).then_some(i64::from(row.valid_ms));
            let life_ms = ttl_ms.into_iter().chain(valid_ms).min();
            life_ms.is_none_or(|life_ms| time_ms - row.time_ms <= life_ms) && is_asked(row)
        };
        newest.into_values().filter(is_live).collect()
    }

    /// Numbers of fixes by (first time of the step, row, column) of squares with `side` quanta. A
    /// `step_ms` of 0 makes the whole window one step.
    pub fn density(
        &self,
        window_ms: (i64, i64),
        is_inside: impl Fn(&FixRow) -> bool,
        side: f64,
        step_ms: i64,
    ) -> BTreeMap<(i64, i32, i32), u64> {
        let mut counts = BTreeMap::new();
        for row in self.passed(window_ms, is_inside) {
            let square = |value: i32| (f64::from(value) / side).floor() as i32;
            let after_ms = row.time_ms - window_ms.0;
            let step = if step_ms > 0 { after_ms / step_ms } else { 0 };
            let place = (window_ms.0 + step * step_ms, square(row.y), square(row.x));
            *counts.entry(place).or_default() += 1;
        }
        counts
    }
}

impl Default for NaivePast {
    fn default() -> Self {
        Self::new()
    }
}
