//! The naive history: a map by identity and lists of removals; every answer is a scan.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;

/// A past, as the contract states it.
#[derive(Clone, Debug, PartialEq)]
pub struct NaivePast {
    /// By (object, time): of equal identity the last to arrive.
    pub fixes: BTreeMap<(u64, i64), FixRow>,
    /// Object, or none for all, and clock.
    pub removals: BTreeSet<(Option<u64>, i64)>,
    /// Nothing before this time is kept.
    pub floor_ms: i64,
}

impl NaivePast {
    /// Nothing, without a floor.
    #[must_use]
    pub fn new() -> Self {
        Self { fixes: BTreeMap::new(), removals: BTreeSet::new(), floor_ms: i64::MIN }
    }

    /// Adds a fix, or replaces the one of its object and time.
    pub fn fix(&mut self, row: FixRow) {
        if row.time_ms >= self.floor_ms {
            self.fixes.insert((row.object, row.time_ms), row);
        }
    }

    /// Removes an object, or all, at a time of the clock.
    pub fn remove(&mut self, object: Option<u64>, clock_ms: i64) {
        if clock_ms >= self.floor_ms {
            self.removals.insert((object, clock_ms));
        }
    }

    /// Forgets an object.
    pub fn erase(&mut self, object: u64) {
        self.fixes.retain(|(other, _), _| *other != object);
        self.removals.retain(|(other, _)| *other != Some(object));
    }

    /// Raises the floor.
    pub fn drop_before(&mut self, floor_ms: i64) {
        self.floor_ms = self.floor_ms.max(floor_ms);
        self.fixes.retain(|(_, time_ms), _| *time_ms >= self.floor_ms);
        self.removals.retain(|(_, clock_ms)| *clock_ms >= self.floor_ms);
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

    /// The same by time and object.
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

    /// The newest fix of each object at a time, unless it was removed or is older than `ttl_ms`.
    pub fn as_of(
        &self,
        time_ms: i64,
        ttl_ms: Option<i64>,
        is_asked: impl Fn(&FixRow) -> bool,
    ) -> Vec<FixRow> {
        let mut newest: BTreeMap<u64, FixRow> = BTreeMap::new();
        for row in self.fixes.values().filter(|row| row.time_ms <= time_ms) {
            newest.insert(row.object, *row);
        }
        let is_live = |row: &FixRow| {
            let is_fresh = ttl_ms.is_none_or(|ttl_ms| time_ms - row.time_ms <= ttl_ms);
            let removed = |object| (object, row.time_ms)..=(object, time_ms);
            let is_removed = [Some(row.object), None]
                .into_iter()
                .any(|object| self.removals.range(removed(object)).next().is_some());
            is_fresh && !is_removed && is_asked(row)
        };
        newest.into_values().filter(is_live).collect()
    }

    /// Numbers of fixes by step of time, row and column of squares of `side`; with a step of 0, of
    /// the whole window.
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
