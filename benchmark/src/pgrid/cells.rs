//! Maps positions and windows to cells.
//!
//! Cells are uniform squares over the space, numbered by row. Positions outside are clamped to the
//! border cells.

use std::ops::RangeInclusive;

use shoal_engine::QuantaRect;

/// A grid of `side` x `side` cells over a rectangle.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cells {
    bounds: QuantaRect,
    side: u32,
    /// Columns (rows) per quantum, fixed point with 32 fractional bits, rounded down.
    x_scale: u64,
    y_scale: u64,
}

/// The cells that intersect a window: columns and rows, borders included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Touched {
    pub(super) columns: (u32, u32),
    pub(super) rows: (u32, u32),
}

impl Touched {
    pub(super) fn rows(&self) -> RangeInclusive<u32> {
        self.rows.0..=self.rows.1
    }

    pub(super) fn columns(&self) -> RangeInclusive<u32> {
        self.columns.0..=self.columns.1
    }

    /// Cells strictly between the border cells are completely inside the window.
    pub(super) fn is_inner(&self, column: u32, row: u32) -> bool {
        let between = |at, (first, last): (u32, u32)| (first < at) & (at < last);
        between(column, self.columns) & between(row, self.rows)
    }
}

impl Cells {
    pub(super) fn new(bounds: QuantaRect, side: u32) -> Self {
        let scale = |min: i32, max: i32| {
            let extent = (i64::from(max) - i64::from(min) + 1) as u64;
            (u64::from(side) << 32) / extent
        };
        Self {
            bounds,
            side,
            x_scale: scale(bounds.x_min, bounds.x_max),
            y_scale: scale(bounds.y_min, bounds.y_max),
        }
    }

    pub(super) fn count(&self) -> u32 {
        self.side * self.side
    }

    #[inline(always)]
    fn column(&self, x: i32) -> u32 {
        let x = x.clamp(self.bounds.x_min, self.bounds.x_max);
        let along = i64::from(x) - i64::from(self.bounds.x_min);
        ((along as u64 * self.x_scale) >> 32) as u32
    }

    #[inline(always)]
    fn row(&self, y: i32) -> u32 {
        let y = y.clamp(self.bounds.y_min, self.bounds.y_max);
        let along = i64::from(y) - i64::from(self.bounds.y_min);
        ((along as u64 * self.y_scale) >> 32) as u32
    }

    /// The cell of a column and a row.
    #[inline(always)]
    pub(super) fn number(&self, column: u32, row: u32) -> u32 {
        row * self.side + column
    }

    /// The cell of a position.
    #[inline(always)]
    pub(super) fn of(&self, x: i32, y: i32) -> u32 {
        self.number(self.column(x), self.row(y))
    }

    pub(super) fn touched(&self, window: &QuantaRect) -> Touched {
        Touched {
            columns: (self.column(window.x_min), self.column(window.x_max)),
            rows: (self.row(window.y_min), self.row(window.y_max)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shoal_engine::Space;

    #[test]
    fn corners_fall_into_corner_cells_of_the_largest_spaces() {
        let plane = Space::planar(2_147_483_647.0, 7.0, 1.0).unwrap();
        for bounds in [Space::geographic().bounds(), plane.bounds()] {
            let cells = Cells::new(bounds, 64);
            assert_eq!(cells.of(bounds.x_min, bounds.y_min), 0);
            assert_eq!(cells.of(bounds.x_max, bounds.y_min), 63);
            assert_eq!(cells.of(i32::MIN, i32::MIN), 0, "outside is the rim");
            assert!(cells.of(bounds.x_max, bounds.y_max) < cells.count());
        }
    }

    #[test]
    fn inner_cells_contain_no_point_outside_the_window() {
        let bounds = QuantaRect { x_min: 0, y_min: 0, x_max: 99, y_max: 99 };
        let cells = Cells::new(bounds, 7);
        let window = QuantaRect { x_min: 13, y_min: 20, x_max: 77, y_max: 80 };
        let touched = cells.touched(&window);
        let mut inner = 0;
        for (x, y) in (0..100).flat_map(|x| (0..100).map(move |y| (x, y))) {
            let (column, row) = (cells.column(x), cells.row(y));
            let is_touched = touched.columns().contains(&column) && touched.rows().contains(&row);
            assert!(is_touched || !window.contains(x, y), "({x}, {y}) is not looked at");
            if touched.is_inner(column, row) {
                assert!(window.contains(x, y), "({x}, {y}) is taken unseen");
                inner += 1;
            }
        }
        assert!(inner > 500, "{inner}");
    }
}
