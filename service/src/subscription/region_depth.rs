//! Counts the regions of a fleet around the same place.
//!
//! The engine compares each report with every region at its place, so regions that lie over each
//! other multiply the work and the events of the rows there. Cells of fifteen sizes count the
//! regions that touch them, each region at the least size that is no smaller than its boxes. The
//! regions at a place are at most those of its cells of all sizes together. Equal regions are
//! counted exactly; regions of one size that are spread evenly count 4 to 25 times their number at
//! a place.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use shoal_engine::{QuantaRect, Region};

/// The side of a cell has this many bits more at each size.
const SIZE_BITS: u32 = 2;
/// The smallest size: cells of 16 quanta.
const SIZE_MIN: u8 = 2;
/// The largest size: one cell holds every space.
const SIZE_MAX: u8 = 16;
/// Bits of a column or a row at the smallest size.
const PLACE_BITS: u32 = 32 - SIZE_BITS * SIZE_MIN as u32;

/// A cell in few bytes, since a region far from others has several of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
struct CellKey(u64);

impl CellKey {
    fn new(size: u8, column: u64, row: u64) -> Self {
        Self((u64::from(size) << PLACE_BITS | column) << PLACE_BITS | row)
    }

    /// Size, column and row.
    fn parts(self) -> (u8, u64, u64) {
        let part = |value: u64| value & ((1 << PLACE_BITS) - 1);
        ((self.0 >> (2 * PLACE_BITS)) as u8, part(self.0 >> PLACE_BITS), part(self.0))
    }

    /// The cell of the next larger size around this one.
    fn around(self) -> Option<Self> {
        let (size, column, row) = self.parts();
        (size < SIZE_MAX).then(|| Self::new(size + 1, column >> SIZE_BITS, row >> SIZE_BITS))
    }
}

/// The cells that a region touches.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct RegionCells {
    size: u8,
    /// The first and last column and row of each box; a box touches up to four cells.
    boxes: [Option<[u64; 4]>; 2],
}

/// The counts.
#[derive(Debug, Default)]
pub(super) struct RegionDepth {
    cells: HashMap<CellKey, Cell>,
}

#[derive(Debug, Default)]
struct Cell {
    /// Regions of this size.
    regions: u32,
    /// The depths of the cells of the next smaller size within; at most 16.
    within: Vec<u32>,
}

impl Cell {
    /// The most regions at a place of the cell, without those of larger sizes.
    fn depth(&self) -> u32 {
        self.regions + self.within.iter().max().copied().unwrap_or(0)
    }

    /// Replaces the depth of a cell within; 0 is no cell.
    fn replace(&mut self, before: u32, after: u32) {
        let place = self.within.iter().position(|depth| *depth == before);
        match (place, after) {
            (Some(place), 0) => drop(self.within.swap_remove(place)),
            (Some(place), _) => self.within[place] = after,
            (None, 0) => {}
            (None, _) => self.within.push(after),
        }
    }
}

impl RegionCells {
    /// The cells of a region in a space with these bounds.
    pub(super) fn of(bounds: &QuantaRect, region: &Region) -> Self {
        let cover = region.cover();
        let sides = cover.as_slice().iter().map(|of| {
            let (width, height) = (i64::from(of.x_max) - i64::from(of.x_min), height(of));
            width.max(height).unsigned_abs()
        });
        let side = sides.max().unwrap_or(0);
        let size = (SIZE_MIN..SIZE_MAX).find(|size| side >> (SIZE_BITS * u32::from(*size)) == 0);
        let size = size.unwrap_or(SIZE_MAX);
        let cell = |value: i32, least: i32| {
            // A region may begin before the space.
            let offset = (i64::from(value) - i64::from(least)).max(0).unsigned_abs();
            offset >> (SIZE_BITS * u32::from(size))
        };
        let mut boxes = [None; 2];
        for (of, rect) in boxes.iter_mut().zip(cover.as_slice()) {
            let (x, y) = (bounds.x_min, bounds.y_min);
            *of = Some([
                cell(rect.x_min, x),
                cell(rect.x_max, x),
                cell(rect.y_min, y),
                cell(rect.y_max, y),
            ]);
        }
        Self { size, boxes }
    }

    /// Its cells, each once.
    fn keys(&self) -> Vec<CellKey> {
        let mut keys = Vec::new();
        for [west, east, south, north] in self.boxes.iter().flatten() {
            let columns = *west..=*east;
            let rows = |x| (*south..=*north).map(move |y| CellKey::new(self.size, x, y));
            keys.extend(columns.flat_map(rows));
        }
        keys.sort_unstable();
        keys.dedup();
        keys
    }
}

fn height(of: &QuantaRect) -> i64 {
    i64::from(of.y_max) - i64::from(of.y_min)
}

impl RegionDepth {
    /// The most regions that would be at a place of this one, itself included.
    pub(super) fn with(&self, region: &RegionCells) -> usize {
        let depth = |key: CellKey| {
            let above = std::iter::successors(key.around(), |key| key.around());
            let regions = |key| self.cells.get(&key).map_or(0, |cell| cell.regions);
            self.cells.get(&key).map_or(0, Cell::depth) + above.map(regions).sum::<u32>()
        };
        1 + region.keys().into_iter().map(depth).max().unwrap_or(0) as usize
    }

    /// Adds a region to the counts.
    pub(super) fn add(&mut self, region: &RegionCells) {
        self.update(region, |regions| regions + 1);
    }

    /// Removes a region from the counts.
    pub(super) fn remove(&mut self, region: &RegionCells) {
        self.update(region, |regions| regions - 1);
    }

    fn update(&mut self, region: &RegionCells, change: impl Fn(u32) -> u32) {
        for key in region.keys() {
            let mut depths = self.change(key, |cell| cell.regions = change(cell.regions));
            let mut next = key.around();
            // A depth that stays changes nothing around it.
            while let (Some(key), (before, after)) = (next, depths)
                && before != after
            {
                depths = self.change(key, |cell| cell.replace(before, after));
                next = key.around();
            }
        }
    }

    /// Changes a cell; returns its depth before and after. A cell without regions has no entry.
    fn change(&mut self, key: CellKey, change: impl FnOnce(&mut Cell)) -> (u32, u32) {
        let mut entry = match self.cells.entry(key) {
            Entry::Occupied(entry) => entry,
            Entry::Vacant(entry) => entry.insert_entry(Cell::default()),
        };
        let cell = entry.get_mut();
        let before = cell.depth();
        change(cell);
        let after = cell.depth();
        if after == 0 {
            entry.remove();
        }
        (before, after)
    }
}

#[cfg(test)]
mod tests {
    use shoal_engine::Space;
    use shoal_testkit::Random;

    use super::*;

    /// A square of a random size around a random place, and its cells.
    fn square(random: &mut Random, space: &Space) -> (QuantaRect, RegionCells) {
        let half = f64::from(1 << random.below(10));
        let mut place = || f64::from(random.below(1000));
        let (x, y) = (place(), place());
        let region = Region::rectangle(space, x - half, y - half, x + half, y + half).unwrap();
        (region.cover().as_slice()[0], RegionCells::of(&space.bounds(), &region))
    }

    #[test]
    fn depth_is_that_of_the_cells_and_covers_the_regions_at_a_place() {
        let space = Space::planar(1000.0, 1000.0, 1.0).unwrap();
        let mut random = Random::new(7);
        let (mut depth, mut held) = (RegionDepth::default(), Vec::new());
        for _ in 0..3_000 {
            if random.once_in(3) && !held.is_empty() {
                let (_, cells) = held.swap_remove(random.below(held.len()));
                depth.remove(&cells);
            } else {
                let new = square(&mut random, &space);
                depth.add(&new.1);
                held.push(new);
            }
            // Naively: the regions of all sizes that touch the cells of a place.
            let (_, probe) = square(&mut random, &space);
            let touches = |of: &RegionCells, place: CellKey| {
                let mut at = Some(place);
                while let Some(key) = at {
                    if key.parts().0 == of.size {
                        return of.keys().contains(&key);
                    }
                    at = key.around();
                }
                false
            };
            let (x, y): (i32, i32) = (random.below(1000), random.below(1000));
            let place = |of: i32| u64::from(of.unsigned_abs()) >> (SIZE_BITS * u32::from(SIZE_MIN));
            let place = CellKey::new(SIZE_MIN, place(x), place(y));
            let at_cells = held.iter().filter(|(_, of)| touches(of, place)).count();
            let at_place = held.iter().filter(|(rect, _)| rect.contains(x, y)).count();
            assert!(at_place <= at_cells, "a region at the place is not counted");
            let point = Region::rectangle(&space, x.into(), y.into(), x.into(), y.into()).unwrap();
            assert_eq!(depth.with(&RegionCells::of(&space.bounds(), &point)), 1 + at_cells);
            assert!(depth.with(&probe) <= 1 + held.len());
        }
        for (_, cells) in held {
            depth.remove(&cells);
        }
        assert!(depth.cells.is_empty(), "nothing is left");
    }

    #[test]
    fn large_regions_count_those_within() {
        let space = Space::geographic();
        let bounds = space.bounds();
        let cells = |west, south, east, north| {
            let region = Region::rectangle(&space, west, south, east, north).unwrap();
            RegionCells::of(&bounds, &region)
        };
        let mut depth = RegionDepth::default();
        let world = cells(-180.0, -90.0, 180.0, 90.0);
        let (here, there) = (cells(8.0, 47.0, 8.001, 47.001), cells(-60.0, 9.0, -59.999, 9.001));
        for _ in 0..3 {
            depth.add(&here);
        }
        depth.add(&there);
        assert_eq!((depth.with(&world), depth.with(&here), depth.with(&there)), (4, 4, 2));
        depth.add(&world);
        assert_eq!((depth.with(&world), depth.with(&here), depth.with(&there)), (5, 5, 3));
        // Over the antimeridian a region has two boxes.
        let both = cells(170.0, -10.0, -170.0, 10.0);
        assert_eq!(both.boxes.iter().flatten().count(), 2);
        depth.add(&both);
        depth.remove(&both);
        depth.remove(&world);
        assert_eq!(depth.with(&world), 4);
    }
}
