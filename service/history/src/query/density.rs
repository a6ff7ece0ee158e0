//! Counts fixes by square and step of time, for density maps.

use std::collections::HashMap;

use shoal_codec::{Column, ColumnSet};

use super::row_filter::RowFilter;
use super::scan::{Found, Scan};
use super::together::Together;
use crate::error::HistoryError;
use crate::run::Zone;

const PLACES: ColumnSet = ColumnSet::NONE.with(Column::Time).with(Column::X).with(Column::Y);

/// How fixes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityGrid {
    /// Side of a square in quanta, above 0. Squares begin at multiples of the side.
    pub cell_quanta: u32,
    /// Length of a step in milliseconds, above 0; the first one begins with the window. With
    /// `None`, the whole window is one step.
    pub step_ms: Option<i64>,
}

/// The number of fixes in one square during one step, at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DensityCell {
    /// The first time of the step, Unix milliseconds.
    pub time_ms: i64,
    /// Row of the square: y divided by its side, rounded down.
    pub row: i32,
    /// Column of the square: x divided by its side, rounded down.
    pub column: i32,
    /// Its fixes.
    pub fixes: u64,
}

/// Counts the matches of a scan by square and step. All counts are returned at the end.
#[derive(Debug)]
pub struct Density<F> {
    scan: Scan<F>,
    grid: DensityGrid,
    counts: Together<HashMap<Place, u64>>,
    /// Counts of the last tiles, not yet added to `counts`; a place may occur several times.
    found: Vec<(Place, u64)>,
}

/// First time of the step, row and column.
type Place = (i64, i32, i32);

impl<F: RowFilter> Density<F> {
    /// Most memory for each row of the budget, if the budget is a power of two. It covers a square
    /// in a table that doubles and in the answer.
    pub const ROW_BYTES: usize = 3 * (size_of::<(Place, u64)>() + 1) + size_of::<DensityCell>();

    /// Begins to count.
    ///
    /// # Errors
    /// [`HistoryError::Input`] for a grid of size 0.
    ///
    /// # Panics
    /// If the scan has begun.
    pub fn new(scan: Scan<F>, grid: DensityGrid) -> Result<Self, HistoryError>
    where
        F: Clone,
    {
        Ok(Self::split(scan, grid, 1)?.pop().expect("a scan has a part"))
    }

    /// As [`Scan::split`]. The part that ends last returns all squares.
    ///
    /// # Errors
    /// As [`Self::new`].
    ///
    /// # Panics
    /// As [`Scan::split`].
    pub fn split(scan: Scan<F>, grid: DensityGrid, parts: usize) -> Result<Vec<Self>, HistoryError>
    where
        F: Clone,
    {
        let DensityGrid { cell_quanta, step_ms } = grid;
        if cell_quanta == 0 || step_ms.is_some_and(|step_ms| step_ms <= 0) {
            let reason = format!(
                "squares of {cell_quanta} quanta and steps of {step_ms:?} ms: both must be above 0"
            );
            return Err(HistoryError::Input(reason));
        }
        let scans = scan.split(parts);
        let counts = Together::of(scans.len());
        let of_part = |(scan, counts)| Self { scan, grid, counts, found: Vec::new() };
        Ok(scans.into_iter().zip(counts).map(of_part).collect())
    }

    /// Counts some rows. Returns false at the end; the part that ends last has then appended all
    /// squares, ascending by (time, row, column).
    ///
    /// # Errors
    /// As [`Scan::next`]; [`HistoryError::Budget`] if there are more squares with counts than rows
    /// in the budget.
    pub fn next(&mut self, out: &mut Vec<DensityCell>) -> Result<bool, HistoryError> {
        let Self { scan, grid, counts, found } = self;
        let (side, (from_ms, to_ms)) = (i64::from(grid.cell_quanta), scan.window_ms());
        let step_ms = grid.step_ms.map(i64::unsigned_abs);
        // The length of the window may exceed an i64.
        let begin = |time_ms: i64| {
            let passed = step_ms.map(|step_ms| time_ms.abs_diff(from_ms) / step_ms * step_ms);
            from_ms.wrapping_add_unsigned(passed.unwrap_or(0))
        };
        let square = |value: i32| i64::from(value).div_euclid(side) as i32;
        let place = |time_ms: i64, x: i32, y: i32| (begin(time_ms), square(y), square(x));
        // A tile whose zone lies in one square and one step is counted as a whole.
        let place_of = |zone: &Zone| {
            // Rows outside the window are not counted.
            let [first_ms, last_ms] = [zone.time_ms.0.max(from_ms), zone.time_ms.1.min(to_ms)];
            let first = place(first_ms, zone.x.0, zone.y.0);
            (first == place(last_ms, zone.x.1, zone.y.1)).then_some(first)
        };
        let more = scan.visit_groups(PLACES, place_of, |matches| {
            let (place, count) = match matches {
                Found::Row(rows, row) => (place(rows.time_ms[row], rows.x[row], rows.y[row]), 1),
                Found::Group(place, count) => (place, count),
            };
            // Rows of an object follow each other, and mostly lie in one square.
            match found.last_mut() {
                Some((last, fixes)) if *last == place => *fixes += count,
                _ if count > 0 => found.push((place, count)),
                _ => {}
            }
        })?;
        if more {
            let mut counts = counts.lock();
            for (place, fixes) in found.drain(..) {
                *counts.entry(place).or_default() += fixes;
            }
            scan.hold("squares and steps", counts.len())?;
            return Ok(true);
        }
        let first = out.len();
        let cell = |((time_ms, row, column), fixes)| DensityCell { time_ms, row, column, fixes };
        out.extend(counts.end().unwrap_or_default().into_iter().map(cell));
        out[first..].sort_unstable();
        Ok(false)
    }
}
