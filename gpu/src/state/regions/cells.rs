//! The cells of a continuous query's region.
//!
//! Cells are squares of a power of two quanta. A region is indexed on the level where it is about
//! six to eleven cells wide, in every cell that may contain a point of it, so that an object finds
//! all regions at its position in one cell per level. A cell is marked as whole only if it
//! certainly lies in the region ([`Region::covers`]).

use shoal_engine::layout::{CELL_BITS, REFERENCE_QUIET, REFERENCE_WHOLE};
use shoal_engine::{QuantaRect, Region, Space};

/// The finest level: the number of a column fills all bits that a cell's number has for it.
const LEVEL_MIN: u32 = 32 - CELL_BITS;
/// Least width of a region on any level but the finest, in sixteenths of a cell's side: the square
/// root of 32 cells. The greatest width is twice as much.
const WIDTH_MIN: u64 = 90;

/// The number of the column or row of cells that contains `quanta`, counted from the least quantum.
fn place(level: u32, quanta: i32) -> u32 {
    (quanta as u32 ^ 1 << 31) >> level
}

/// The first and the last quantum of a column or row of cells.
fn side(level: u32, place: u32) -> (i32, i32) {
    let least = place << level;
    let most = least | ((1 << level) - 1);
    ((least ^ 1 << 31) as i32, (most ^ 1 << 31) as i32)
}

/// The level of a region that these rectangles cover.
fn level(cover: &[QuantaRect]) -> u32 {
    let span = |min: i32, max: i32| u64::from(max.abs_diff(min)) + 1;
    let width: u64 = cover.iter().map(|rect| span(rect.x_min, rect.x_max)).sum();
    let height = cover.iter().map(|rect| span(rect.y_min, rect.y_max)).max().unwrap_or(1);
    let sixteenths = 16 * width.max(height) / WIDTH_MIN;
    sixteenths.max(1).ilog2().max(LEVEL_MIN)
}

/// Adds the cells of a region, each once, with the flags of the references to it; returns its
/// level, `None` for a region without points. `quiet`: objects that remain inside cause no events.
pub(crate) fn file(
    space: &Space,
    region: &Region,
    quiet: bool,
    cells: &mut Vec<(u64, u32)>,
) -> Option<u32> {
    let cover = region.cover();
    let rects = cover.as_slice();
    if rects.is_empty() {
        return None;
    }
    let (level, first) = (level(rects), cells.len());
    let quiet = if quiet { REFERENCE_QUIET } else { 0 };
    for rect in rects {
        for row in place(level, rect.y_min)..=place(level, rect.y_max) {
            for column in place(level, rect.x_min)..=place(level, rect.x_max) {
                let ((x_min, x_max), (y_min, y_max)) = (side(level, column), side(level, row));
                let cell = QuantaRect { x_min, y_min, x_max, y_max };
                let Some(cell) = cell.intersection(&space.bounds()) else { continue };
                if misses(region, &cell) {
                    continue;
                }
                let whole = if region.covers(&cell) { REFERENCE_WHOLE } else { 0 };
                let number = u64::from(level) << (2 * CELL_BITS)
                    | u64::from(row) << CELL_BITS
                    | u64::from(column);
                cells.push((number, quiet | whole));
            }
        }
    }
    if rects.len() > 1 {
        // The halves of a region that the antimeridian cuts may share a wide cell.
        cells[first..].sort_unstable();
        let mut kept = first;
        for at in first..cells.len() {
            if kept == first || cells[kept - 1].0 != cells[at].0 {
                cells[kept] = cells[at];
                kept += 1;
            }
        }
        cells.truncate(kept);
    }
    Some(level)
}

/// Whether a region certainly has no point in a cell that its cover intersects.
fn misses(region: &Region, cell: &QuantaRect) -> bool {
    match region {
        Region::Circle(circle) if !circle.ranker().is_geographic() => {
            let (x, y) = circle.ranker().centre();
            let nearest = (x.clamp(cell.x_min, cell.x_max), y.clamp(cell.y_min, cell.y_max));
            circle.ranker().rank(nearest.0, nearest.1) > circle.rank_max()
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use shoal_testkit::Random;

    use super::*;

    /// The cell of a point; equals the kernels' `cell_at`.
    fn cell_at(level: u32, x: i32, y: i32) -> u64 {
        u64::from(level) << 56 | u64::from(place(level, y)) << 28 | u64::from(place(level, x))
    }

    fn check(space: &Space, region: &Region, random: &mut Random) -> usize {
        let mut cells = Vec::new();
        let level = file(space, region, false, &mut cells);
        let mut numbers: Vec<u64> = cells.iter().map(|(cell, _)| *cell).collect();
        numbers.sort_unstable();
        assert!(numbers.windows(2).all(|pair| pair[0] < pair[1]), "a cell once");
        assert_eq!(level.is_none(), cells.is_empty());
        let Some(level) = level else { return 0 };
        let find = |x, y| cells.iter().find(|(cell, _)| *cell == cell_at(level, x, y));
        let cover = region.cover();
        for _ in 0..400 {
            let rect = cover.as_slice()[random.below(cover.as_slice().len() as u64) as usize];
            let pick = |random: &mut Random, min: i32, max: i32| {
                (i64::from(min) + random.below(u64::from(max.abs_diff(min)) + 1) as i64) as i32
            };
            let (x, y) =
                (pick(random, rect.x_min, rect.x_max), pick(random, rect.y_min, rect.y_max));
            match find(x, y) {
                Some((_, flags)) if flags & REFERENCE_WHOLE != 0 => {
                    assert!(region.contains(x, y), "{region:?} {x} {y}");
                }
                Some(_) => {}
                None => assert!(!region.contains(x, y), "{region:?} {x} {y}"),
            }
        }
        cells.len()
    }

    #[test]
    fn every_point_of_a_region_is_in_a_cell_of_it() {
        let mut random = Random::new(7);
        let plane = Space::planar(100_000.0, 100_000.0, 0.01).unwrap();
        let world = Space::geographic();
        let mut most = 0;
        for radius_m in [0.0, 0.02, 3.0, 500.0, 5_000.0, 80_000.0, 3e7] {
            for (x, y) in [(0.0, 0.0), (50_000.0, 77_777.0), (100_000.0, 3.0)] {
                let region = Region::circle(&plane, x, y, radius_m).unwrap();
                most = most.max(check(&plane, &region, &mut random));
            }
            for (x, y) in [(0.0, 0.0), (179.999, 45.0), (10.0, 89.99), (-180.0, -90.0)] {
                let region = Region::circle(&world, x, y, radius_m).unwrap();
                most = most.max(check(&world, &region, &mut random));
            }
        }
        for (west, east) in [(-180.0, 180.0), (170.0, -170.0), (1.0, -1.0), (0.0, 180.0)] {
            let region = Region::rectangle(&world, west, -20.0, east, 30.0).unwrap();
            most = most.max(check(&world, &region, &mut random));
        }
        let ring = vec![(0.0, 0.0), (20_000.0, 3_000.0), (9_000.0, 30_000.0)];
        let region = Region::polygon(&plane, &[ring]).unwrap();
        most = most.max(check(&plane, &region, &mut random));
        assert!(most <= 200, "{most} cells");
    }

    #[test]
    fn what_lies_outside_the_space_is_in_no_cell() {
        let plane = Space::planar(100.0, 100.0, 0.01).unwrap();
        let region = Region::rectangle(&plane, 200.0, 0.0, 300.0, 5.0).unwrap();
        assert_eq!(file(&plane, &region, true, &mut Vec::new()), None);
    }

    #[test]
    fn most_of_a_wide_circle_is_whole() {
        let plane = Space::planar(100_000.0, 100_000.0, 0.01).unwrap();
        let region = Region::circle(&plane, 30_000.0, 40_000.0, 500.0).unwrap();
        let mut cells = Vec::new();
        file(&plane, &region, true, &mut cells);
        let whole = cells.iter().filter(|(_, flags)| flags & REFERENCE_WHOLE != 0).count();
        assert!((30..=80).contains(&cells.len()) && whole >= 12, "{whole} of {}", cells.len());
        assert!(cells.iter().all(|(_, flags)| flags & REFERENCE_QUIET != 0));
    }
}
