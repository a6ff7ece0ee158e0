//! Maps a position to its cell, in a uniform grid over the extent of the data.
//!
//! The mapping is monotone in each coordinate. Queries need only this property: cells strictly
//! between the cells of two borders lie strictly between the borders. Positions outside the extent
//! fall into the cells at its rim, so the extent affects only speed, never answers. Cells are
//! stored in row-major order, so a covered row of cells is contiguous in memory.

use super::band::{BLOCK_SIDE, Inside};
use crate::space::QuantaRect;

/// A tile has at most `1 << TILE_SHIFT` columns and rows of one band, so that a count adds up few
/// single cells and the counters remain in cache.
pub(super) const TILE_SHIFT: u32 = 3;

/// Extent and resolution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Grid {
    extent: QuantaRect,
    columns: u32,
    rows: u32,
    /// Cells per quantum in 32.32 fixed point.
    scale_x: u64,
    scale_y: u64,
    /// A band is `1 << band_shift` rows.
    band_shift: u32,
}

/// A closed block of cells.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct CellRange {
    pub(super) column_min: u32,
    pub(super) column_max: u32,
    pub(super) row_min: u32,
    pub(super) row_max: u32,
}

impl CellRange {
    pub(super) fn cells(&self) -> u64 {
        u64::from(self.column_max - self.column_min + 1)
            * u64::from(self.row_max - self.row_min + 1)
    }

    /// The cells that are in both ranges; `None` if there are none.
    pub(super) fn intersection(&self, other: &Self) -> Option<Self> {
        let both = Self {
            column_min: self.column_min.max(other.column_min),
            column_max: self.column_max.min(other.column_max),
            row_min: self.row_min.max(other.row_min),
            row_max: self.row_max.min(other.row_max),
        };
        (both.column_min <= both.column_max && both.row_min <= both.row_max).then_some(both)
    }
}

impl Grid {
    /// A grid of about `columns` x `rows` cells over an extent, in at most `bands` bands; never
    /// more cells than quanta on a side.
    pub(super) fn new(extent: QuantaRect, columns: u32, rows: u32, bands: u32) -> Self {
        let side = |min: i32, max: i32| u64::from(max.abs_diff(min)) + 1;
        let (width, height) = (side(extent.x_min, extent.x_max), side(extent.y_min, extent.y_max));
        let columns = u64::from(columns).clamp(1, width) as u32;
        let rows = u64::from(rows).clamp(1, height) as u32;
        let mut band_shift = 0;
        while rows.div_ceil(1 << band_shift) > bands {
            band_shift += 1;
        }
        Self {
            extent,
            columns,
            rows,
            scale_x: (u64::from(columns) << 32) / width,
            scale_y: (u64::from(rows) << 32) / height,
            band_shift,
        }
    }

    pub(super) fn extent(&self) -> QuantaRect {
        self.extent
    }

    pub(super) fn bands(&self) -> usize {
        self.rows.div_ceil(1 << self.band_shift) as usize
    }

    /// Cells of one band.
    pub(super) fn cells_of_band(&self, band: usize) -> usize {
        let first_row = (band as u32) << self.band_shift;
        let rows = (self.rows - first_row).min(1 << self.band_shift);
        rows as usize * self.columns as usize
    }

    pub(super) fn cells(&self) -> u64 {
        u64::from(self.columns) * u64::from(self.rows)
    }

    /// Number of tiles in a row of tiles.
    #[inline(always)]
    fn tile_columns(&self) -> u32 {
        self.columns.div_ceil(1 << TILE_SHIFT)
    }

    /// A tile is `1 << tile_row_shift` rows high.
    #[inline(always)]
    pub(super) fn tile_row_shift(&self) -> u32 {
        TILE_SHIFT.min(self.band_shift)
    }

    /// Tiles of a band.
    pub(super) fn tiles_of_band(&self) -> usize {
        (self.tile_columns() << (self.band_shift - self.tile_row_shift())) as usize
    }

    /// Band of a column and row, and tile inside the band.
    #[inline(always)]
    pub(super) fn tile_of(&self, column: u32, row: u32) -> (usize, usize) {
        let band = row >> self.band_shift;
        let tile_row = (row - (band << self.band_shift)) >> self.tile_row_shift();
        (band as usize, (tile_row * self.tile_columns() + (column >> TILE_SHIFT)) as usize)
    }

    /// The tile of a position inside its band.
    #[inline(always)]
    pub(super) fn tile(&self, x: i32, y: i32) -> usize {
        self.tile_of(self.column(x), self.row(y)).1
    }

    /// The cells of one of the blocks of `1 << level` columns and rows; `None` beyond the grid.
    pub(super) fn block(&self, level: u32, column: u32, row: u32) -> Option<CellRange> {
        let (column_min, row_min) = (column << level, row << level);
        (column_min < self.columns && row_min < self.rows).then(|| CellRange {
            column_min,
            column_max: (column_min + (1 << level)).min(self.columns) - 1,
            row_min,
            row_max: (row_min + (1 << level)).min(self.rows) - 1,
        })
    }

    /// The part of `bounds` whose positions fall into `cells`; `None` if there is none. At a
    /// `depth` above 0 `cells` counts smaller cells, [`BLOCK_SIDE`]^depth on each side of a cell.
    pub(super) fn rect(
        &self,
        cells: &CellRange,
        depth: u32,
        bounds: &QuantaRect,
    ) -> Option<QuantaRect> {
        let parts = u64::from(BLOCK_SIDE).pow(depth);
        let QuantaRect { x_min, y_min, x_max, y_max } = self.extent;
        let columns = (cells.column_min, cells.column_max);
        let rows = (cells.row_min, cells.row_max);
        let (x_min, x_max) =
            side(columns, self.scale_x * parts, (x_min, x_max), (bounds.x_min, bounds.x_max))?;
        let (y_min, y_max) =
            side(rows, self.scale_y * parts, (y_min, y_max), (bounds.y_min, bounds.y_max))?;
        Some(QuantaRect { x_min, y_min, x_max, y_max })
    }

    /// Distance from the left edge, in units of 2^-32 columns.
    #[inline(always)]
    fn across(&self, x: i32) -> u64 {
        let offset = x.clamp(self.extent.x_min, self.extent.x_max).abs_diff(self.extent.x_min);
        u64::from(offset) * self.scale_x
    }

    /// Distance from the lower edge, in units of 2^-32 rows.
    #[inline(always)]
    fn up(&self, y: i32) -> u64 {
        let offset = y.clamp(self.extent.y_min, self.extent.y_max).abs_diff(self.extent.y_min);
        u64::from(offset) * self.scale_y
    }

    #[inline(always)]
    fn column(&self, x: i32) -> u32 {
        (self.across(x) >> 32) as u32
    }

    #[inline(always)]
    fn row(&self, y: i32) -> u32 {
        (self.up(y) >> 32) as u32
    }

    /// Where a position lies inside its cell.
    #[inline(always)]
    pub(super) fn inside(&self, x: i32, y: i32) -> Inside {
        Inside { x: self.across(x) as u32, y: self.up(y) as u32 }
    }

    /// Band and cell inside the band of a position.
    #[inline(always)]
    pub(super) fn locate(&self, x: i32, y: i32) -> (u32, u32) {
        self.cell_of(self.column(x), self.row(y))
    }

    /// Band and cell inside the band of a column and row.
    #[inline(always)]
    pub(super) fn cell_of(&self, column: u32, row: u32) -> (u32, u32) {
        let band = row >> self.band_shift;
        (band, (row - (band << self.band_shift)) * self.columns + column)
    }

    /// The cells that a rectangle touches.
    #[inline]
    pub(super) fn cover(&self, rect: &QuantaRect) -> CellRange {
        CellRange {
            column_min: self.column(rect.x_min),
            column_max: self.column(rect.x_max),
            row_min: self.row(rect.y_min),
            row_max: self.row(rect.y_max),
        }
    }
}

/// The coordinates that fall into the columns or rows `first` to `last` of an extent; `None` if
/// there are none. `scale` is cells per quantum in 32.32 fixed point. Coordinates outside the
/// extent fall into the rim.
fn side(
    (first, last): (u32, u32),
    scale: u64,
    (min, max): (i32, i32),
    bounds: (i32, i32),
) -> Option<(i32, i32)> {
    // The least coordinate whose offset times the scale reaches the column.
    let least = |column: u64| i64::from(min) + (column << 32).div_ceil(scale) as i64;
    let greatest = (u64::from(max.abs_diff(min)) * scale) >> 32;
    let (first, last) = (u64::from(first), u64::from(last));
    let low = if first == 0 { i64::from(bounds.0) } else { least(first) };
    let high = if last >= greatest { i64::from(bounds.1) } else { least(last + 1) - 1 };
    (low <= high).then_some((low as i32, high as i32))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rect(x_min: i32, y_min: i32, x_max: i32, y_max: i32) -> QuantaRect {
        QuantaRect { x_min, y_min, x_max, y_max }
    }

    #[test]
    fn every_position_has_a_cell_and_order_is_kept() {
        for extent in [
            rect(i32::MIN, i32::MIN, i32::MAX, i32::MAX),
            rect(0, 0, 0, 0),
            rect(-5, 7, 5, 9),
            rect(-1_800_000_000, -900_000_000, 1_799_999_999, 900_000_000),
        ] {
            for (columns, rows) in [(1, 1), (3, 1000), (65_536, 7), (40_000, 40_000)] {
                let grid = Grid::new(extent, columns, rows, 16);
                let mut last = 0;
                for step in 0..=1000_i64 {
                    let x = i64::from(i32::MIN) + step * 4_294_967;
                    let column = grid.column(x as i32);
                    assert!(column >= last && column < grid.columns);
                    last = column;
                }
                let (band, cell) = grid.locate(i32::MAX, i32::MAX);
                assert!((band as usize) < grid.bands());
                assert!((cell as usize) < grid.cells_of_band(band as usize));
                let cells: usize = (0..grid.bands()).map(|band| grid.cells_of_band(band)).sum();
                assert_eq!(cells as u64, grid.cells());
            }
        }
    }

    #[test]
    fn the_rectangle_of_cells_holds_the_positions_that_fall_into_them() {
        let bounds = rect(-1_000, -1_000, 1_000, 1_000);
        for extent in [bounds, rect(-31, 7, 500, 400), rect(3, 3, 3, 4)] {
            for (columns, rows) in [(1, 1), (5, 40), (400, 333)] {
                let grid = Grid::new(extent, columns, rows, 16);
                for (x, y) in (-1_000..=1_000).step_by(3).zip((-1_000..=1_000).rev()) {
                    let mut parts = (u64::from(grid.column(x)), u64::from(grid.row(y)));
                    let mut inside = grid.inside(x, y);
                    for depth in 0..=8 {
                        let (column, row) = (parts.0 as u32, parts.1 as u32);
                        let cell = CellRange {
                            column_min: column,
                            column_max: column,
                            row_min: row,
                            row_max: row,
                        };
                        let own = grid.rect(&cell, depth, &bounds).unwrap();
                        assert!(own.contains(x, y) && bounds.covers(&own), "{x} {y} {depth}");
                        if depth == 0 {
                            for (x, y) in [(own.x_min, own.y_min), (own.x_max, own.y_max)] {
                                assert_eq!((grid.column(x), grid.row(y)), (column, row));
                            }
                        }
                        let (part, deeper) = inside.descend();
                        let side = u64::from(BLOCK_SIDE);
                        let (part_row, part_column) =
                            (u64::from(part / BLOCK_SIDE), u64::from(part % BLOCK_SIDE));
                        parts = (parts.0 * side + part_column, parts.1 * side + part_row);
                        inside = deeper;
                    }
                }
            }
        }
    }
}
