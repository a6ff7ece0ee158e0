//! Counts the objects of a region. Adds up the counters of blocks of cells that lie wholly inside,
//! and tests only positions in cells at the border.
//!
//! Blocks of 2^n by 2^n cells through which the border may pass are split into four, then refined
//! cells into their smaller ones. Cells hold exactly the live objects, so the total is the same as
//! if each object were tested. Filters need the records, so filtered queries use no counters.

use std::cell::Cell;
use std::ops::ControlFlow::Continue;

use super::band::BLOCK_SIDE;
use super::bucket::Bucket;
use super::grid::{CellRange, TILE_SHIFT};
use super::query_work::Meter;
use super::scan::{Cells, chain, inside};
use super::view::View;
use crate::region::{Preparation, PreparedRegion, Region};
use crate::space::QuantaRect;

/// Blocks of `1 << LEAF_LEVEL` cells on a side are not split: testing some 20 positions costs as
/// much as placing four cells.
const LEAF_LEVEL: u32 = 1;
/// Work of finding the placement of a block, in tests of positions.
const PLACEMENT_WORK: usize = 4;
/// A part that touches at most this many cells is tested without placing blocks.
const FEW_CELLS: u64 = 16;

/// How the positions of a block of cells lie relative to the region.
enum Placement {
    Inside,
    Outside,
    Mixed,
}

/// The part of a region in one rectangle of its cover.
struct Part<'a> {
    cells: Cells<'a>,
    bounds: QuantaRect,
    region: &'a PreparedRegion<'a>,
    rect: QuantaRect,
    /// The cells that `rect` touches.
    touched: CellRange,
    work: &'a Cell<Meter>,
}

impl View<'_> {
    /// How to prepare a region for a test of each object in the cells of its cover.
    pub(super) fn preparation<'r>(&self, region: &'r Region) -> Preparation<'r> {
        Preparation::new(region, usize::MAX, || self.cells.objects_near(region))
    }

    /// A region prepared so.
    pub(super) fn prepare<'r>(&self, region: &'r Region) -> PreparedRegion<'r> {
        self.preparation(region).prepare()
    }

    /// Number of objects in a region; partial if the meter exceeds its limit.
    pub(super) fn count(&self, region: &PreparedRegion<'_>, meter: &mut Meter) -> u64 {
        meter.test_against(region);
        let work = Cell::new(*meter);
        let (cells, bounds) = (self.cells, self.space.bounds());
        let part = |rect: &QuantaRect| {
            let touched = cells.grid.cover(rect);
            Part { cells, bounds, region, rect: *rect, touched, work: &work }.objects()
        };
        let objects = region.cover().as_slice().iter().map(part).sum();
        *meter = work.get();
        objects
    }
}

impl Part<'_> {
    fn objects(&self) -> u64 {
        let CellRange { column_min, column_max, row_min, row_max } = self.touched;
        if self.touched.cells() <= FEW_CELLS {
            return self.tested(&self.touched);
        }
        let mut level = LEAF_LEVEL;
        while (column_max >> level) - (column_min >> level) > 1
            || (row_max >> level) - (row_min >> level) > 1
        {
            level += 1;
        }
        let columns = column_min >> level..=column_max >> level;
        let rows = row_min >> level..=row_max >> level;
        rows.flat_map(|row| columns.clone().map(move |column| (column, row)))
            .map(|(column, row)| self.block(level, column, row))
            .sum()
    }

    /// Adds the work of this many tests; false once the meter exceeds its limit.
    fn visit(&self, positions: usize) -> bool {
        let mut meter = self.work.get();
        let has_work = meter.visit(positions);
        self.work.set(meter);
        has_work
    }

    fn placement(&self, cells: &CellRange, depth: u32) -> Placement {
        if !self.visit(PLACEMENT_WORK) {
            return Placement::Outside;
        }
        let Some(rect) = self.cells.grid.rect(cells, depth, &self.bounds) else {
            return Placement::Outside;
        };
        if self.rect.covers(&rect) && self.region.covers(&rect) {
            Placement::Inside
        } else if self.rect.intersection(&rect).is_none() || self.region.misses(&rect) {
            Placement::Outside
        } else {
            Placement::Mixed
        }
    }

    /// Number of the region's objects in the block at (`column`, `row`) of a level.
    fn block(&self, level: u32, column: u32, row: u32) -> u64 {
        let Some(block) = self.cells.grid.block(level, column, row) else {
            return 0;
        };
        let Some(touched) = block.intersection(&self.touched) else {
            return 0;
        };
        match self.placement(&block, 0) {
            Placement::Inside if level >= TILE_SHIFT => self.cells.objects_of_tiles(&block),
            Placement::Inside => self.cells.objects_of_cells(&block),
            Placement::Outside => 0,
            Placement::Mixed if level == LEAF_LEVEL => self.tested(&touched),
            Placement::Mixed => [(0, 0), (1, 0), (0, 1), (1, 1)]
                .iter()
                .map(|(right, up)| self.block(level - 1, 2 * column + right, 2 * row + up))
                .sum(),
        }
    }

    /// Number of the region's objects in cells through which the border may pass.
    fn tested(&self, cells: &CellRange) -> u64 {
        let mut objects = 0;
        for row in cells.row_min..=cells.row_max {
            for column in cells.column_min..=cells.column_max {
                let (buckets, head) = self.cells.head(column, row);
                objects += self.objects_below(buckets, head, 0, column, row);
            }
        }
        objects
    }

    /// Number of the region's objects in one cell at a depth of refinement.
    fn objects_below(
        &self,
        buckets: &[Bucket],
        head: &Bucket,
        depth: u32,
        column: u32,
        row: u32,
    ) -> u64 {
        let Some(block) = head.block() else {
            let mut objects = 0;
            let _ = chain(buckets, head, false, &mut |bucket, _| {
                objects += u64::from(self.hits(bucket));
                Continue(())
            });
            return objects;
        };
        let cell = CellRange { column_min: column, column_max: column, row_min: row, row_max: row };
        match self.placement(&cell, depth) {
            Placement::Inside => u64::from(head.objects_below()),
            Placement::Outside => 0,
            Placement::Mixed => (0..BLOCK_SIDE * BLOCK_SIDE)
                .map(|part| {
                    let head = &buckets[(block + part) as usize];
                    self.objects_below(
                        buckets,
                        head,
                        depth + 1,
                        column * BLOCK_SIDE + part % BLOCK_SIDE,
                        row * BLOCK_SIDE + part / BLOCK_SIDE,
                    )
                })
                .sum(),
        }
    }

    /// Number of objects of a bucket that lie in the region.
    fn hits(&self, bucket: &Bucket) -> u32 {
        if !self.visit(bucket.count as usize) {
            return 0;
        }
        let mut hits = inside(bucket, &self.rect);
        if self.region.is_cover() {
            return hits.count_ones();
        }
        let mut objects = 0;
        while hits != 0 {
            let at = hits.trailing_zeros() as usize;
            hits &= hits - 1;
            objects += u32::from(self.region.contains(bucket.x[at], bucket.y[at]));
        }
        objects
    }
}

impl<'a> Cells<'a> {
    /// The buckets of a cell's band, and its head.
    fn head(&self, column: u32, row: u32) -> (&'a [Bucket], &'a Bucket) {
        let (band, cell) = self.grid.cell_of(column, row);
        let buckets = &self.bands[band as usize].buckets;
        (buckets, &buckets[cell as usize])
    }

    /// Number of all objects in these cells.
    fn objects_of_cells(&self, cells: &CellRange) -> u64 {
        let mut objects = 0;
        for row in cells.row_min..=cells.row_max {
            for column in cells.column_min..=cells.column_max {
                let (buckets, head) = self.head(column, row);
                if head.block().is_some() {
                    objects += u64::from(head.objects_below());
                    continue;
                }
                let _ = chain(buckets, head, true, &mut |bucket, _| {
                    objects += u64::from(bucket.count);
                    Continue(())
                });
            }
        }
        objects
    }

    /// Number of objects in the tiles that a region's cover touches; an upper bound.
    fn objects_near(&self, region: &Region) -> u64 {
        let cover = region.cover();
        cover.as_slice().iter().map(|rect| self.objects_of_tiles(&self.grid.cover(rect))).sum()
    }

    /// Number of objects in all tiles that contain any of these cells.
    fn objects_of_tiles(&self, cells: &CellRange) -> u64 {
        let tile_row_shift = self.grid.tile_row_shift();
        let tile_rows = cells.row_min >> tile_row_shift..=cells.row_max >> tile_row_shift;
        let of_row = |tile_row: u32| {
            let row = tile_row << tile_row_shift;
            let (band, first) = self.grid.tile_of(cells.column_min, row);
            let (_, last) = self.grid.tile_of(cells.column_max, row);
            let tiles = &self.bands[band].tiles[first..=last];
            tiles.iter().map(|objects| u64::from(*objects)).sum::<u64>()
        };
        tile_rows.map(of_row).sum()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use shoal_codec::{FixColumns, FixRow};

    use shoal_testkit::Random;

    use crate::backend::{Backend, EngineOptions};
    use crate::cpu::CpuBackend;
    use crate::cycle::{CycleInput, Request};
    use crate::query::{Projection, Query, QueryKind, RowLimit};
    use crate::region::Region;
    use crate::space::Space;

    const TIME_MS: i64 = 1_704_067_200_000;
    const OBJECTS: u64 = 20_000;

    /// All over the space, in two crowds of different size, and many on one point.
    fn position(space: &Space, random: &mut Random) -> (i32, i32) {
        let bounds = space.bounds();
        let (middle, width) = match random.below(8) {
            0..=2 => ((0.5, 0.5), 1.0),
            3..=5 => ((0.31, 0.62), 1e-3),
            6 => ((0.31, 0.62), 1e-7),
            _ => ((0.004, 0.4), 0.0),
        };
        let side = |part: f64, min: i32, max: i32| {
            let wide = f64::from(max) - f64::from(min);
            (f64::from(min) + part.clamp(0.0, 1.0) * wide) as i32
        };
        let (x, y) = (random.unit() - 0.5, random.unit() - 0.5);
        (
            side(middle.0 + x * width, bounds.x_min, bounds.x_max),
            side(middle.1 + y * width, bounds.y_min, bounds.y_max),
        )
    }

    fn regions(space: &Space, random: &mut Random) -> Vec<Region> {
        let bounds = space.bounds();
        let mut regions = Vec::new();
        for turn in 0..24 {
            let (x, y) = position(space, random);
            let (x, y) = space.to_api(x, y);
            let (x_max, y_max) = space.to_api(bounds.x_max, bounds.y_max);
            let (x_min, y_min) = space.to_api(bounds.x_min, bounds.y_min);
            let size = 10_f64.powf(-6.0 * random.unit());
            let (wide, high) = (size * (x_max - x_min), size * (y_max - y_min));
            let at = |right: f64, up: f64| {
                ((x + right * wide).clamp(x_min, x_max), (y + up * high).clamp(y_min, y_max))
            };
            let ((west, south), (east, north)) = (at(-0.5, -0.5), at(0.5, 0.5));
            regions.push(Region::rectangle(space, west, south, east, north).unwrap());
            let radius_m = if space.is_geographic() { 2.0e7 * size } else { wide };
            regions.push(Region::circle(space, x, y, radius_m).unwrap());
            let ring = vec![at(-0.5, -0.5), at(0.5, -0.3), at(0.1, 0.0), at(0.2, 0.4)];
            regions.extend(Region::polygon(space, &[ring]));
            if space.is_geographic() && turn % 4 == 0 {
                regions.push(Region::rectangle(space, 170.0, south, -170.0, north).unwrap());
            }
        }
        let (x, y) = space.to_api(bounds.x_max, bounds.y_max);
        // With enough vertices that a raster is worthwhile.
        let star = (0..600).map(|at| {
            let (turn, reach) = (f64::from(at).to_radians() * 0.6, [0.9, 0.3][at as usize % 2]);
            (x * (0.5 + turn.cos() * reach / 2.0), y * (0.5 + turn.sin() * reach / 2.0))
        });
        regions.push(Region::polygon(space, &[star.collect()]).unwrap());
        regions.push(Region::rectangle(space, -180.0, -90.0, x, y).unwrap());
        regions.push(Region::circle(space, 0.0, 0.0, f64::INFINITY).unwrap());
        regions
    }

    fn queries(regions: &[Region], held: &[u64]) -> Vec<Query> {
        let query = |region: &Region, projection, limit| Query {
            kind: QueryKind::Range(region.clone()),
            filter: None,
            projection,
            limit,
        };
        let of_region = |(region, held): (&Region, &u64)| {
            [
                query(region, Projection::Count, None),
                query(region, Projection::Ids, Some(RowLimit::AllOrNone(*held))),
                query(region, Projection::Ids, Some(RowLimit::AllOrNone(held.saturating_sub(1)))),
            ]
        };
        regions.iter().zip(held).flat_map(of_region).collect()
    }

    /// Counts after objects are inserted, moved, removed and expired, on grids of every kind.
    #[test]
    fn a_count_is_that_of_testing_each_position() {
        for (seed, space) in [
            (1, Space::geographic()),
            (2, Space::planar(50_000.0, 80_000.0, 0.01).unwrap()),
            (3, Space::planar(40.0, 90.0, 1.0).unwrap()),
        ] {
            let mut random = Random::new(seed);
            let options = EngineOptions { ttl_ms: Some(3), ..EngineOptions::new(space) };
            let mut engine = CpuBackend::new(options);
            let mut alive = std::collections::BTreeMap::new();
            for cycle in 0..5 {
                let mut columns = FixColumns::new();
                for _ in 0..OBJECTS {
                    let object = (random.unit() * 1.5 * OBJECTS as f64) as u64;
                    let (x, y) = position(&space, &mut random);
                    columns.push_row(FixRow::new(object, TIME_MS + cycle, x, y));
                    // Of rows with equal times the last one wins.
                    alive.insert(object, (TIME_MS + cycle, x, y));
                }
                let removed: Vec<u64> = (0..OBJECTS).step_by(7 + cycle as usize).collect();
                alive.retain(|object, (time_ms, ..)| {
                    removed.binary_search(object).is_err() && TIME_MS + cycle - *time_ms <= 3
                });
                let regions = regions(&space, &mut random);
                let within = |region: &Region| {
                    alive.values().filter(|(_, x, y)| region.contains(*x, *y)).count() as u64
                };
                let held: Vec<u64> = regions.iter().map(within).collect();
                let input = CycleInput {
                    system_ms: TIME_MS + cycle,
                    time_max_ms: i64::MAX,
                    requests: vec![Request::Fixes(columns), Request::Remove(removed)].into(),
                    queries: queries(&regions, &held),
                    ..CycleInput::default()
                };
                let output = engine.run(input).unwrap();
                assert_eq!(output.objects, alive.len() as u64, "seed {seed} cycle {cycle}");
                for (index, answer) in output.answers.iter().enumerate() {
                    let (region, held) = (&regions[index / 3], held[index / 3]);
                    assert_eq!(answer.total, held, "seed {seed} cycle {cycle}: {region:?}");
                    let returned = if index % 3 == 1 { held as usize } else { 0 };
                    assert_eq!(answer.objects.len(), returned, "seed {seed} cycle {cycle}");
                    assert_eq!(answer.truncated, index % 3 == 2 && held > 0);
                }
            }
        }
    }
}
