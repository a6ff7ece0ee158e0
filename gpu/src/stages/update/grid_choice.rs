//! Chooses the number of cells by the number of objects, and an extent that holds nearly all of
//! them.
//!
//! The grid is chosen again when the number of objects has changed much or the cells have become
//! uneven, so its cost is a small share of the work that caused it. Never changes an answer.

use shoal_engine::layout::{Entry, Grid, NO_SLOT};
use shoal_engine::{QuantaRect, Space, extent};

/// Objects per cell when they are evenly distributed. Measured on an H200 with the prototype: 1,024
/// x 1,024 cells beat 512 x 512 for 10 M objects.
pub(crate) const CELL_OBJECTS: u64 = 8;
/// Least objects per cell, however uneven their distribution: then most cells are empty, and every
/// cell costs a little in a rebuild.
const CELL_OBJECTS_MIN: u64 = 2;
const CELLS_MIN: u64 = 64;
/// Most cells: (cell, kind) is a 32-bit key with a value for "none".
const CELLS_MAX: u64 = 1 << 26;
/// Sampled positions, to find the extent.
pub(crate) const SAMPLE: usize = 1 << 14;
/// Objects in the cell of an object, relative to the mean, beyond which cells are too coarse.
const UNEVEN: f64 = 4.0;

/// Properties of the present grid when it was chosen.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GridChoice {
    pub(crate) grid: Grid,
    objects: u64,
    /// Cells relative to those for evenly distributed objects.
    finer: u64,
    /// Cells along each axis, if their number is fixed.
    side: Option<u32>,
}

impl GridChoice {
    /// One cell over the whole space, or the fixed number along each axis.
    pub(crate) fn first(space: &Space, side: Option<u32>) -> Self {
        let first = side.unwrap_or(1);
        Self { grid: new(&space.bounds(), first, first), objects: 0, finer: 1, side }
    }

    /// Whether the number of objects requires another grid.
    pub(crate) fn is_outgrown(&self, objects: u64) -> bool {
        objects > self.objects + self.objects / 2 + CELLS_MIN || objects < self.objects / 4
    }

    /// Records how uneven the cells are (the sum of the squares of their counts); returns true if a
    /// finer grid is better.
    pub(crate) fn refine(&mut self, squares: u64) -> bool {
        if self.side.is_some() {
            return false;
        }
        let objects = self.objects.max(1) as f64;
        let cells = f64::from(self.grid.columns) * f64::from(self.grid.rows);
        // The objects in the cell of an object, if all were evenly distributed: mean + 1.
        let even = objects / cells + 1.0;
        let unevenness = squares as f64 / objects / even;
        let finest = self.cells(self.finer * 2) == self.cells(self.finer);
        if unevenness > UNEVEN && !finest && self.finer < 64 {
            self.finer *= 2;
            true
        } else {
            false
        }
    }

    fn cells(&self, finer: u64) -> u64 {
        let most = (self.objects / CELL_OBJECTS_MIN).clamp(CELLS_MIN, CELLS_MAX);
        let cells = (self.objects / CELL_OBJECTS * finer).clamp(CELLS_MIN, most);
        // The sort of moves by (cell, kind) takes one more pass for every 8 bits: a few cells fewer
        // are cheaper.
        let fewer = [1 << 15, 1 << 23].into_iter().find(|pass| cells / 5 * 4 < pass - 1);
        fewer.map_or(cells, |pass| cells.min(pass - 1))
    }

    /// Chooses a grid for `objects` objects; `sample` has the positions of some of them.
    pub(crate) fn choose(&mut self, space: &Space, sample: &[Entry], objects: u64) {
        if self.is_outgrown(objects) {
            self.objects = objects;
        }
        let extent = sampled_extent(space, sample);
        if let Some(side) = self.side {
            self.grid = new(&extent, side, side);
            return;
        }
        let cells = self.cells(self.finer) as f64;
        let (height, width) = extent::height_and_width(space, &extent);
        let rows = (cells * height / width).sqrt().clamp(1.0, cells);
        let columns = (cells / rows).max(1.0);
        self.grid = new(&extent, columns.round() as u32, rows.round() as u32);
    }
}

/// A grid of about `columns` x `rows` cells; on no axis more cells than quanta.
fn new(extent: &QuantaRect, columns: u32, rows: u32) -> Grid {
    let side = |min: i32, max: i32| u64::from(max.abs_diff(min)) + 1;
    let (width, height) = (side(extent.x_min, extent.x_max), side(extent.y_min, extent.y_max));
    let columns = u64::from(columns).clamp(1, width);
    let rows = u64::from(rows).clamp(1, height);
    Grid {
        scale_x: (columns << 32) / width,
        scale_y: (rows << 32) / height,
        x_min: extent.x_min,
        y_min: extent.y_min,
        x_max: extent.x_max,
        y_max: extent.y_max,
        columns: columns as u32,
        rows: rows as u32,
    }
}

/// The extent of a sample of positions.
fn sampled_extent(space: &Space, sample: &[Entry]) -> QuantaRect {
    let alive = || sample.iter().filter(|entry| entry.slot != NO_SLOT);
    let mut xs: Vec<i32> = alive().map(|entry| entry.x).collect();
    let mut ys: Vec<i32> = alive().map(|entry| entry.y).collect();
    extent::extent(space, &mut xs, &mut ys)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OBJECTS: u32 = 10_000;

    /// A cloud in the middle of the plane.
    fn sample() -> Vec<Entry> {
        let place = |slot: u32| 400_000 + (slot.wrapping_mul(0x9E37_79B9) >> 14) as i32 % 200_000;
        (0..OBJECTS)
            .map(|slot| Entry {
                x: place(slot),
                y: place(slot + OBJECTS),
                slot,
                ..Entry::default()
            })
            .collect()
    }

    #[test]
    fn fixed_cells_stay_whatever_the_objects_do() {
        let space = Space::planar(1_000.0, 1_000.0, 0.001).unwrap();
        for side in [1, 16, 4_096] {
            let mut chosen = GridChoice::first(&space, Some(side));
            let first = chosen.grid;
            assert_eq!((first.columns, first.rows), (side, side));
            assert!(chosen.is_outgrown(OBJECTS.into()));
            chosen.choose(&space, &sample(), OBJECTS.into());
            assert_eq!((chosen.grid.columns, chosen.grid.rows), (side, side));
            assert!(chosen.grid.x_min > first.x_min && chosen.grid.x_max < first.x_max);
            assert!(!chosen.is_outgrown(OBJECTS.into()));
            assert!(!chosen.refine(u64::from(OBJECTS).pow(2)), "as uneven as can be");
        }
    }

    #[test]
    fn cells_follow_the_objects_where_they_are_not_fixed() {
        let space = Space::planar(1_000.0, 1_000.0, 0.001).unwrap();
        let mut chosen = GridChoice::first(&space, None);
        chosen.choose(&space, &sample(), OBJECTS.into());
        let cells = |chosen: &GridChoice| u64::from(chosen.grid.columns * chosen.grid.rows);
        let (even, called_for) = (cells(&chosen), u64::from(OBJECTS) / CELL_OBJECTS);
        assert!(even.abs_diff(called_for) < called_for / 10, "{even} for {called_for}");
        assert!(chosen.refine(u64::from(OBJECTS).pow(2)), "as uneven as can be");
        chosen.choose(&space, &sample(), OBJECTS.into());
        assert!(cells(&chosen) > even + even / 2, "{} after {even}", cells(&chosen));
    }
}
