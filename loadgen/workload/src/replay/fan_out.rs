//! Turns one recorded fleet into k copies.
//!
//! The copies of a row wait in a heap until no row of the file can be earlier. Copies are in time
//! order if the file is. The heap is bounded: if more rows than its limit fall into one step,
//! copies leave early with their times unchanged.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;

use crate::direction::east_north;
use crate::limits::FAN_OUT_PENDING_MAX;
use crate::{Fix, Params, Window};

/// The golden section of a turn, so that successive copies are never aligned.
const GOLDEN_TURNS: f64 = 0.618_033_988_749_894_9;

/// Spacing of the spiral as a share of the sides of the data box.
const SPACING: f64 = 0.1;

/// Turns rows into the rows of all copies that this shard owns.
#[derive(Debug)]
pub(super) struct FanOut {
    shifts: Vec<Shift>,
    shard: u64,
    shards: u64,
    waiting: BinaryHeap<Reverse<Waiting>>,
    pushed: u64,
    newest_ms: i64,
    ended: bool,
}

/// Displacement of a copy.
#[derive(Clone, Copy, Debug)]
struct Shift {
    east_deg: f64,
    north_deg: f64,
    later_ms: i64,
}

/// A copy in the heap, ordered by time, then by arrival.
#[derive(Debug)]
struct Waiting {
    fix: Fix,
    arrival: u64,
}

impl FanOut {
    /// The copies of checked parameters over data in a box.
    pub(super) fn new(params: &Params, data_box: &Window) -> Self {
        let copies = i64::from(params.fan_out);
        let (width_deg, height_deg) = data_box.sides();
        let shift = |copy: i64| {
            let (east, north) = east_north((copy as f64 * GOLDEN_TURNS).fract());
            let radius = SPACING * (copy as f64).sqrt();
            Shift {
                east_deg: east * radius * width_deg,
                north_deg: north * radius * height_deg,
                later_ms: copy * params.step_ms / copies,
            }
        };
        Self {
            shifts: (0..copies).map(shift).collect(),
            shard: u64::from(params.shard),
            shards: u64::from(params.shards),
            waiting: BinaryHeap::new(),
            pushed: 0,
            newest_ms: i64::MIN,
            ended: false,
        }
    }

    /// Number of copies, the original included.
    pub(super) fn copies(&self) -> usize {
        self.shifts.len()
    }

    /// Adds a row of the file; false if its number or time is too large for a copy.
    pub(super) fn push(&mut self, fix: &Fix) -> bool {
        let copies = self.shifts.len() as u64;
        let last_shift_ms = self.shifts[self.shifts.len() - 1].later_ms;
        let first = fix.object.checked_mul(copies);
        let first = first.filter(|first| first.checked_add(copies - 1).is_some());
        let (Some(first), Some(_)) = (first, fix.time_ms.checked_add(last_shift_ms)) else {
            return false;
        };
        self.newest_ms = fix.time_ms;
        // The first copy at or after `first` that this shard owns, then every `shards`-th.
        let start = (self.shard + self.shards - first % self.shards) % self.shards;
        for copy in (start..copies).step_by(self.shards as usize) {
            let (x, y) = self.shifted(copy as usize, (fix.x, fix.y));
            let time_ms = fix.time_ms + self.shifts[copy as usize].later_ms;
            let fix = Fix { object: first + copy, time_ms, x, y, ..*fix };
            self.waiting.push(Reverse(Waiting { fix, arrival: self.pushed }));
            self.pushed += 1;
        }
        true
    }

    /// Marks the end of the file.
    pub(super) fn end(&mut self) {
        self.ended = true;
    }

    /// True if the file has ended and no copy is left.
    pub(super) fn ended(&self) -> bool {
        self.ended && self.waiting.is_empty()
    }

    /// The next copy, if no row of the rest of the file can be earlier.
    pub(super) fn pop(&mut self) -> Option<Fix> {
        let next = &self.waiting.peek()?.0;
        let due = next.fix.time_ms <= self.newest_ms;
        if due || self.ended || self.waiting.len() >= FAN_OUT_PENDING_MAX {
            return self.waiting.pop().map(|Reverse(waiting)| waiting.fix);
        }
        None
    }

    /// The position of a copy for one of the original; copy 0 keeps every bit.
    pub(super) fn shifted(&self, copy: usize, (lon, lat): (f64, f64)) -> (f64, f64) {
        if copy == 0 {
            return (lon, lat);
        }
        let shift = &self.shifts[copy];
        let mut lon = lon + shift.east_deg;
        if lon.abs() > 180.0 {
            lon -= 360.0 * (lon / 360.0).round();
        }
        let lat = lat + shift.north_deg;
        (lon, if lat.abs() > 90.0 { 180.0_f64.copysign(lat) - lat } else { lat })
    }
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> Ordering {
        (self.fix.time_ms, self.arrival).cmp(&(other.fix.time_ms, other.arrival))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Waiting {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for Waiting {}
