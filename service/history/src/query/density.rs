//! Numbers of fixes by square and step of time, for pictures.

use std::collections::HashMap;

use shoal_codec::{Column, ColumnSet};

use super::row_filter::RowFilter;
use super::scan::Scan;
use crate::error::HistoryError;

const PLACES: ColumnSet = ColumnSet::NONE.with(Column::Time).with(Column::X).with(Column::Y);

/// How fixes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityGrid {
    /// Side of a square in quanta, above 0; squares begin at multiples of it.
    pub cell_quanta: u32,
    /// Length of a step in milliseconds, above 0; the first one begins with the window. Without one
    /// the whole window is a step.
    pub step_ms: Option<i64>,
}

/// A square during a step that has fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DensityCell {
    /// The first time of the step, Unix milliseconds.
    pub time_ms: i64,
    /// Squares between it and y = 0.
    pub row: i32,
    /// Squares between it and x = 0.
    pub column: i32,
    /// Its fixes.
    pub fixes: u64,
}

/// The matches of a scan by square and step. All come at the end.
#[derive(Debug)]
pub struct Density<F> {
    scan: Scan<F>,
    grid: DensityGrid,
    /// By first time of the step, row and column.
    counts: HashMap<(i64, i32, i32), u64>,
}

impl<F: RowFilter> Density<F> {
    /// Memory that each row of the budget, a power of two, takes at most: a square in a table that
    /// doubles, and in the answer.
    pub const ROW_BYTES: usize =
        3 * (size_of::<((i64, i32, i32), u64)>() + 1) + size_of::<DensityCell>();

    /// Begins to count.
    ///
    /// # Errors
    /// [`HistoryError::Input`] for a grid of size 0.
    pub fn new(scan: Scan<F>, grid: DensityGrid) -> Result<Self, HistoryError> {
        let DensityGrid { cell_quanta, step_ms } = grid;
        if cell_quanta == 0 || step_ms.is_some_and(|step_ms| step_ms <= 0) {
            let reason = format!(
                "squares of {cell_quanta} quanta and steps of {step_ms:?} ms: both must be above 0"
            );
            return Err(HistoryError::Input(reason));
        }
        Ok(Self { scan, grid, counts: HashMap::new() })
    }

    /// Counts some rows. At the end it returns false and has appended all squares, (time, row,
    /// column) ascending.
    ///
    /// # Errors
    /// As [`Scan::next`]; [`HistoryError::Budget`] if squares and steps are more than the rows of
    /// the budget.
    pub fn next(&mut self, out: &mut Vec<DensityCell>) -> Result<bool, HistoryError> {
        let Self { scan, grid, counts } = self;
        let (side, (from_ms, _)) = (i64::from(grid.cell_quanta), scan.window_ms());
        let step_ms = grid.step_ms.map(i64::unsigned_abs);
        // The window may be longer than an i64 can say.
        let begin = |time_ms: i64| {
            let passed = step_ms.map(|step_ms| time_ms.abs_diff(from_ms) / step_ms * step_ms);
            from_ms.wrapping_add_unsigned(passed.unwrap_or(0))
        };
        let square = |value: i32| i64::from(value).div_euclid(side) as i32;
        // Rows of an object follow each other, and mostly lie in one square.
        let mut same = ((0, 0, 0), 0);
        let more = scan.visit(PLACES, |rows, row| {
            let place = (begin(rows.time_ms[row]), square(rows.y[row]), square(rows.x[row]));
            if place != same.0 {
                add(counts, same);
                same = (place, 0);
            }
            same.1 += 1;
        })?;
        if more {
            add(counts, same);
            scan.hold("squares and steps", counts.len())?;
            return Ok(true);
        }
        let first = out.len();
        let cell = |((time_ms, row, column), fixes)| DensityCell { time_ms, row, column, fixes };
        out.extend(counts.drain().map(cell));
        out[first..].sort_unstable();
        Ok(false)
    }
}

fn add(counts: &mut HashMap<(i64, i32, i32), u64>, (place, fixes): ((i64, i32, i32), u64)) {
    if fixes > 0 {
        *counts.entry(place).or_default() += fixes;
    }
}
