//! The generator of random rows, removals and queries.
//!
//! Few ids, so that they collide; positions skewed in every manner that has broken an index (one
//! point, lines, borders, far corners); late, equal, early and refused times. All from one seed.

use std::f64::consts::PI;

use shoal_codec::{BlockPlan, FixRow};
use shoal_testkit::Random;

use super::builders::{fixes, invalid_block, planned_block};
use crate::cycle::Request;
use crate::layout::NOT_FINITE_X;
use crate::model::Model;
use crate::query::{Filter, Projection, Query, QueryKind, RowLimit};
use crate::region::Region;
use crate::space::Space;
use crate::sphere::EARTH_RADIUS_M;

/// Where the objects of a phase gather.
#[derive(Clone, Copy, Debug)]
enum Crowd {
    /// All over the space.
    Uniform,
    /// On one point.
    Point,
    /// In a square of a few quanta, so that distances tie.
    Square,
    /// Around one point, thinning out.
    Cluster,
    /// Along a line of equal y.
    Line,
    /// On the borders of the space: poles, antimeridian, corners.
    Border,
    /// One quantum apart at both ends of the space.
    Ends,
}

/// Draws the input of a random run.
pub(super) struct Generator {
    pub(super) random: Random,
    space: Space,
    /// Number of ids.
    ids: u64,
    crowd: Crowd,
    middle: (i32, i32),
    /// The event time that rows are near to.
    pub(super) now_ms: i64,
}

impl Generator {
    pub(super) fn new(seed: u64, space: Space, ids: u64, now_ms: i64) -> Self {
        let random = Random::new(seed ^ 0x5ca1_ab1e);
        let mut generator =
            Self { random, space, ids, crowd: Crowd::Uniform, middle: (0, 0), now_ms };
        generator.next_phase();
        generator
    }

    /// Gathers the objects elsewhere.
    pub(super) fn next_phase(&mut self) {
        self.crowd = *self.random.pick(&[
            Crowd::Uniform,
            Crowd::Point,
            Crowd::Square,
            Crowd::Cluster,
            Crowd::Line,
            Crowd::Border,
            Crowd::Ends,
        ]);
        self.middle = self.anywhere();
    }

    fn anywhere(&mut self) -> (i32, i32) {
        let bounds = self.space.bounds();
        let x = self.random.quanta(bounds.x_min, bounds.x_max);
        (x, self.random.quanta(bounds.y_min, bounds.y_max))
    }

    /// A point of the space within some quanta of the middle.
    fn around(&mut self, quanta: i64) -> (i32, i32) {
        let bounds = self.space.bounds();
        let mut side = |middle: i32, min: i32, max: i32| {
            let value = i64::from(middle) + self.random.between(-quanta, quanta);
            value.clamp(min.into(), max.into()) as i32
        };
        let x = side(self.middle.0, bounds.x_min, bounds.x_max);
        (x, side(self.middle.1, bounds.y_min, bounds.y_max))
    }

    fn point(&mut self) -> (i32, i32) {
        let bounds = self.space.bounds();
        match self.crowd {
            Crowd::Uniform => self.anywhere(),
            Crowd::Point => self.middle,
            Crowd::Square => self.around(4),
            Crowd::Cluster => {
                let width = f64::from(bounds.x_max) * self.random.unit().powi(8);
                self.around(width as i64 + 1)
            }
            Crowd::Line => (self.anywhere().0, self.middle.1),
            Crowd::Border => {
                let (x, y) = self.anywhere();
                let on = |random: &mut Random, min: i32, max: i32| *random.pick(&[min, max]);
                match self.random.below(3) {
                    0 => (on(&mut self.random, bounds.x_min, bounds.x_max), y),
                    1 => (x, on(&mut self.random, bounds.y_min, bounds.y_max)),
                    _ => {
                        let x = on(&mut self.random, bounds.x_min, bounds.x_max);
                        (x, on(&mut self.random, bounds.y_min, bounds.y_max))
                    }
                }
            }
            Crowd::Ends => {
                let (near, far) = (self.random.quanta(0, 2), self.random.quanta(0, 2));
                if self.random.once_in(2) {
                    (bounds.x_min + near.min(bounds.x_max), bounds.y_min)
                } else {
                    (bounds.x_max - near, bounds.y_max - far)
                }
            }
        }
    }

    /// Mostly small ids; some spread over the whole range by a multiplication.
    fn id(&mut self) -> u64 {
        let id = self.random.below(self.ids);
        if id.is_multiple_of(5) { id.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 1 } else { id }
    }

    fn row(&mut self, model: &Model) -> FixRow {
        let object = self.id();
        if self.random.once_in(12)
            && let Some(record) = model.records().get(&object)
        {
            return self.like(*record);
        }
        let (x, y) = self.point();
        let spread_ms = *self.random.pick(&[0, 3, 1_000, 20_000]);
        let time_ms = self.now_ms + self.random.between(-spread_ms, spread_ms);
        let mut row = FixRow::new(object, time_ms, x, y);
        if self.random.once_in(2) {
            row.state = self.random.below(16) as u32;
        }
        if self.random.once_in(3) {
            row.speed_mm_s = *self.random.pick(&[0, 1, 500, 13_900, u32::MAX - 2]);
            row.heading_cdeg = self.random.below(36_000) as u16;
        }
        if self.random.once_in(4) {
            row.altitude_mm = self.random.quanta(-9_000, 9_000);
        }
        if self.random.once_in(6) {
            row.valid_ms = *self.random.pick(&[0, 1, 3_000, 25_000, u32::MAX - 2]);
        }
        if self.random.once_in(60) { self.spoil(row) } else { row }
    }

    /// A copy of a record, unchanged or changed in one field.
    fn like(&mut self, mut row: FixRow) -> FixRow {
        match self.random.below(7) {
            0 => row.state ^= 1,
            1 => row.time_ms += 1,
            2 => row.time_ms -= 1,
            3 => (row.x, row.y) = self.point(),
            4 => row.valid_ms = self.random.below(10_000) as u32,
            _ => {}
        }
        row
    }

    /// A row that is refused.
    fn spoil(&mut self, mut row: FixRow) -> FixRow {
        match self.random.below(11) {
            0 => row.object = u64::MAX,
            1 => row.x = NOT_FINITE_X,
            2 => row.x = i32::MIN + 1,
            3 => row.y = i32::MAX,
            4 => row.time_ms = crate::limits::TIME_MIN_MS - 1,
            5 => row.time_ms = self.now_ms + 1_000_000_000_000,
            6 => row.speed_mm_s = u32::MAX - 1,
            7 => row.heading_cdeg = 36_000 + self.random.below(29_000) as u16,
            8 => row.altitude_mm = i32::MIN + 1,
            9 => row.valid_ms = u32::MAX - 1,
            _ => row.y = i32::MIN,
        }
        row
    }

    /// A request and its number of operations.
    pub(super) fn request(&mut self, model: &Model, rows_max: u64) -> (Request, u64) {
        match self.random.below(40) {
            0..=3 => {
                let count = self.random.below(rows_max / 4 + 2);
                let objects = (0..count).map(|_| self.id()).collect();
                (Request::Remove(objects), count)
            }
            4 if self.random.once_in(20) => {
                (if self.random.once_in(2) { Request::Clear } else { Request::Rewind }, 1)
            }
            kind => {
                let count = self.random.below(rows_max + 1);
                let rows: Vec<FixRow> = (0..count).map(|_| self.row(model)).collect();
                (self.rows_request(kind, &rows), count.max(1))
            }
        }
    }

    fn rows_request(&mut self, kind: u64, rows: &[FixRow]) -> Request {
        let times = rows.iter().map(|row| row.time_ms);
        let span_ms = times.clone().max().unwrap_or(0) - times.min().unwrap_or(0);
        // A wider span of times does not fit one block.
        if kind.is_multiple_of(2) || span_ms > i64::from(u32::MAX) {
            return fixes(rows);
        }
        let x_least = rows.iter().map(|row| row.x).min();
        let differs = rows.iter().any(|row| Some(row.x) != x_least);
        let plan = if self.random.once_in(2) { BlockPlan::raw() } else { BlockPlan::fixes() };
        if differs && self.random.once_in(15) {
            invalid_block(&self.space, rows, &plan)
        } else {
            planned_block(&self.space, rows, &plan)
        }
    }

    pub(super) fn query(&mut self, model: &Model) -> Query {
        let kind = match self.random.below(10) {
            0..=1 => {
                let count = self.random.below(20);
                QueryKind::Get((0..count).map(|_| self.id()).collect())
            }
            2..=4 => {
                let (x, y) = self.point_of_interest(model);
                let k = *self.random.pick(&[0, 1, 2, 5, 17, 100, 4_096]);
                QueryKind::Nearest { x, y, k, rank_max: self.rank_max(model, (x, y)) }
            }
            _ => QueryKind::Range(self.region(model)),
        };
        let projection =
            *self.random.pick(&[Projection::Ids, Projection::Fixes, Projection::Count]);
        let limit = self.random.once_in(3).then(|| {
            let rows = *self.random.pick(&[40, 20_000]);
            let rows = self.random.below(rows);
            if self.random.once_in(2) { RowLimit::First(rows) } else { RowLimit::AllOrNone(rows) }
        });
        let mut filter = if self.random.once_in(3) { self.filter() } else { Filter::default() };
        filter.object_after = self.random.once_in(6).then(|| self.id());
        Query { kind, filter: filter.boxed(), projection, limit }
    }

    /// No bound, or one that passes through an object or just before it.
    fn rank_max(&mut self, model: &Model, (x, y): (i32, i32)) -> u64 {
        if self.random.once_in(2) {
            return u64::MAX;
        }
        let (to_x, to_y) = self.point_of_interest(model);
        let rank = crate::rank::Ranker::new(&self.space, x, y).rank(to_x, to_y);
        match self.random.below(4) {
            0 => rank.saturating_sub(1),
            1 => *self.random.pick(&[0, 1, u64::MAX - 1, 1 << 63]),
            _ => rank,
        }
    }

    /// Where an object is, or may be.
    pub(super) fn point_of_interest(&mut self, model: &Model) -> (i32, i32) {
        let from = self.id();
        match model.records().range(from..).next() {
            Some((_, row)) if self.random.once_in(2) => (row.x, row.y),
            _ => self.point(),
        }
    }

    pub(super) fn filter(&mut self) -> Filter {
        let mut filter = Filter::default();
        if self.random.once_in(2) {
            filter.state_mask = self.random.below(16) as u32;
            filter.state_value = self.random.below(16) as u32 & filter.state_mask;
        }
        if self.random.once_in(3) {
            filter.age_max_ms = Some(self.random.between(-10, 30_000));
        }
        if self.random.once_in(4) {
            filter.speed_mm_s = Some((self.random.below(600) as u32, 13_900));
        }
        if self.random.once_in(4) {
            let (from, to) = (self.random.below(36_000), self.random.below(36_000));
            filter.heading_cdeg = Some((from as u16, to as u16));
        }
        if self.random.once_in(4) {
            filter.altitude_mm = Some((self.random.quanta(-9_000, 0), 3_000));
        }
        if self.random.once_in(8) {
            filter.valid_ms = Some((self.random.below(4_000) as u32, 25_000));
        }
        filter
    }

    pub(super) fn region(&mut self, model: &Model) -> Region {
        loop {
            // Borders pass through objects.
            let (a, b) = (self.point_of_interest(model), self.point_of_interest(model));
            let region = match self.random.below(8) {
                0..=2 => self.rectangle(a, b),
                3..=5 => self.circle(a, b),
                _ => self.polygon(model),
            };
            if let Some(region) = region {
                return region;
            }
        }
    }

    fn rectangle(&mut self, a: (i32, i32), b: (i32, i32)) -> Option<Region> {
        let (a, b) = (self.space.to_api(a.0, a.1), self.space.to_api(b.0, b.1));
        let wraps = self.space.is_geographic() && self.random.once_in(3);
        let (mut west, mut east) = (a.0.min(b.0), a.0.max(b.0));
        if wraps {
            (west, east) = (east, west);
        }
        if self.space.is_geographic() && self.random.once_in(8) {
            east = 180.0;
        }
        Region::rectangle(&self.space, west, a.1.min(b.1), east, a.1.max(b.1)).ok()
    }

    fn circle(&mut self, a: (i32, i32), b: (i32, i32)) -> Option<Region> {
        let ranker = crate::rank::Ranker::new(&self.space, a.0, a.1);
        let longest_m = if self.space.is_geographic() {
            PI * EARTH_RADIUS_M
        } else {
            self.space.quantum() * 1.5 * f64::from(self.space.bounds().x_max)
        };
        let radius_m = match self.random.below(4) {
            0 => self.space.distance_m(ranker.rank(b.0, b.1)),
            1 => longest_m * self.random.unit(),
            2 => longest_m * self.random.unit().powi(10),
            _ => *self.random.pick(&[0.0, 1.0, 50.0, f64::INFINITY]),
        };
        let (x, y) = self.space.to_api(a.0, a.1);
        Region::circle(&self.space, x, y, radius_m).ok()
    }

    fn polygon(&mut self, model: &Model) -> Option<Region> {
        let rings = 1 + self.random.below(3);
        let rings: Vec<Vec<(f64, f64)>> = (0..rings)
            .map(|_| {
                let count = 3 + self.random.below(6);
                let vertex = |_| {
                    let (x, y) = self.point_of_interest(model);
                    let (x, y) = self.space.to_api(x, y);
                    let at_180 = self.space.is_geographic() && self.random.once_in(8);
                    (if at_180 { 180.0 } else { x }, y)
                };
                (0..count).map(vertex).collect()
            })
            .collect();
        if self.random.once_in(2) {
            return Region::polygon(&self.space, &rings).ok();
        }
        // The last ring is a polygon of its own.
        let (last, rest) = rings.split_last()?;
        let parts = [rest.to_vec(), vec![last.clone()]];
        let parts = if rest.is_empty() { &parts[1..] } else { &parts };
        Region::multi_polygon(&self.space, parts).ok()
    }
}
