//! The naive history: a map by identity and lists of removals; every answer is a scan.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;
use shoal_history::DensityCell;

/// A past, as the contract states it.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Model {
    /// By (object, time): of equal identity the last to arrive.
    pub(crate) fixes: BTreeMap<(u64, i64), FixRow>,
    /// Object, or none for all, and clock.
    pub(crate) removals: BTreeSet<(Option<u64>, i64)>,
    /// Nothing before this time is kept.
    pub(crate) floor_ms: i64,
}

/// A rectangle that a test asks for: west, south, east, north.
pub(crate) type Rectangle = [i32; 4];

pub(crate) fn contains(rectangle: &Rectangle, x: i32, y: i32) -> bool {
    let [west, south, east, north] = *rectangle;
    (west..=east).contains(&x) && (south..=north).contains(&y)
}

impl Model {
    pub(crate) fn new() -> Self {
        Self { floor_ms: i64::MIN, ..Self::default() }
    }

    pub(crate) fn fix(&mut self, row: FixRow) {
        if row.time_ms >= self.floor_ms {
            self.fixes.insert((row.object, row.time_ms), row);
        }
    }

    pub(crate) fn remove(&mut self, object: Option<u64>, clock_ms: i64) {
        if clock_ms >= self.floor_ms {
            self.removals.insert((object, clock_ms));
        }
    }

    pub(crate) fn erase(&mut self, object: u64) {
        self.fixes.retain(|(other, _), _| *other != object);
        self.removals.retain(|(other, _)| *other != Some(object));
    }

    pub(crate) fn drop_before(&mut self, floor_ms: i64) {
        self.floor_ms = self.floor_ms.max(floor_ms);
        self.fixes.retain(|(_, time_ms), _| *time_ms >= self.floor_ms);
        self.removals.retain(|(_, clock_ms)| *clock_ms >= self.floor_ms);
    }

    fn within(&self, (from_ms, to_ms): (i64, i64)) -> impl Iterator<Item = &FixRow> {
        self.fixes.values().filter(move |row| from_ms <= row.time_ms && row.time_ms <= to_ms)
    }

    pub(crate) fn passed(&self, window_ms: (i64, i64), region: &Rectangle) -> Vec<FixRow> {
        self.within(window_ms).filter(|row| contains(region, row.x, row.y)).copied().collect()
    }

    pub(crate) fn replay(&self, window_ms: (i64, i64), region: &Rectangle) -> Vec<FixRow> {
        let mut rows = self.passed(window_ms, region);
        rows.sort_by_key(|row| (row.time_ms, row.object));
        rows
    }

    pub(crate) fn trajectory(
        &self,
        objects: &[u64],
        window_ms: (i64, i64),
        every_ms: i64,
    ) -> Vec<FixRow> {
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

    pub(crate) fn as_of(
        &self,
        time_ms: i64,
        ttl_ms: Option<i64>,
        objects: Option<&[u64]>,
        region: &Rectangle,
    ) -> Vec<FixRow> {
        let mut newest: BTreeMap<u64, FixRow> = BTreeMap::new();
        for row in self.fixes.values().filter(|row| row.time_ms <= time_ms) {
            newest.insert(row.object, *row);
        }
        let is_live = |row: &FixRow| {
            let is_fresh = ttl_ms.is_none_or(|ttl_ms| time_ms - row.time_ms <= ttl_ms);
            let is_removed = self.removals.iter().any(|(object, clock_ms)| {
                object.is_none_or(|object| object == row.object)
                    && row.time_ms <= *clock_ms
                    && *clock_ms <= time_ms
            });
            let is_asked = objects.is_none_or(|objects| objects.contains(&row.object));
            is_fresh && !is_removed && is_asked && contains(region, row.x, row.y)
        };
        newest.into_values().filter(is_live).collect()
    }

    pub(crate) fn density(
        &self,
        window_ms: (i64, i64),
        region: &Rectangle,
        side: f64,
        step_ms: i64,
    ) -> Vec<DensityCell> {
        let mut counts: BTreeMap<(i64, i32, i32), u64> = BTreeMap::new();
        for row in self.passed(window_ms, region) {
            let square = |value: i32| (f64::from(value) / side).floor() as i32;
            let time_ms = row.time_ms - (row.time_ms - window_ms.0) % step_ms;
            *counts.entry((time_ms, square(row.y), square(row.x))).or_default() += 1;
        }
        let cell = |((time_ms, row, column), fixes)| DensityCell { time_ms, row, column, fixes };
        counts.into_iter().map(cell).collect()
    }
}
