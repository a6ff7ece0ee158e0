//! Which cell a position falls into: a uniform grid over the extent of the data.
//!
//! The mapping is monotone in each coordinate, which is all that queries need: cells strictly
//! between those of two borders lie strictly between the borders. Positions outside the extent fall
//! into the cells at its rim, so the extent decides speed and never answers. Row-major: a covered
//! row of cells is one run of memory.

use super::band::Inside;
use crate::space::QuantaRect;

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

    /// Columns from the left edge, in 2^-32.
    #[inline(always)]
    fn across(&self, x: i32) -> u64 {
        let offset = x.clamp(self.extent.x_min, self.extent.x_max).abs_diff(self.extent.x_min);
        u64::from(offset) * self.scale_x
    }

    /// Rows from the lower edge, in 2^-32.
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
}
