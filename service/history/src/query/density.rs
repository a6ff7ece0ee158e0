//! Numbers of fixes by square and step of time, for pictures.

use std::collections::HashMap;

use shoal_codec::FixColumns;

use super::row_filter::RowFilter;
use super::scan::Scan;
use crate::error::HistoryError;

/// How fixes are counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DensityGrid {
    /// Side of a square in quanta, above 0; squares begin at multiples of it.
    pub cell_quanta: u32,
    /// Length of a step in milliseconds, above 0; steps begin at multiples of it.
    pub step_ms: i64,
}

/// A square during a step that has fixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct DensityCell {
    /// Its first time, Unix milliseconds.
    pub time_ms: i64,
    /// Its least y, in quanta.
    pub y: i64,
    /// Its least x, in quanta.
    pub x: i64,
    /// Its fixes.
    pub fixes: u64,
}

impl<F: RowFilter> Scan<F> {
    /// Counts the matches by square and step; (time, y, x) ascend.
    ///
    /// # Errors
    /// As [`Scan::next`]; [`HistoryError::Budget`] if squares and steps are more than the rows of
    /// the budget; [`HistoryError::Input`] for a grid of size 0.
    pub fn density(mut self, grid: DensityGrid) -> Result<Vec<DensityCell>, HistoryError> {
        let DensityGrid { cell_quanta, step_ms } = grid;
        if cell_quanta == 0 || step_ms <= 0 {
            let reason = format!(
                "squares of {cell_quanta} quanta and steps of {step_ms} ms: both must be above 0"
            );
            return Err(HistoryError::Input(reason));
        }
        let side = i64::from(cell_quanta);
        let mut counts: HashMap<(i64, i64, i64), u64> = HashMap::new();
        let mut rows = FixColumns::new();
        while self.next(&mut rows)? {
            for row in 0..rows.len() {
                let step = rows.time_ms[row].div_euclid(step_ms);
                let (x, y) = (i64::from(rows.x[row]), i64::from(rows.y[row]));
                *counts.entry((step, y.div_euclid(side), x.div_euclid(side))).or_default() += 1;
            }
            self.hold("squares and steps", counts.len())?;
            rows.clear();
        }
        let cell = |((step, y, x), fixes)| DensityCell {
            time_ms: step * step_ms,
            y: y * side,
            x: x * side,
            fixes,
        };
        let mut cells: Vec<_> = counts.into_iter().map(cell).collect();
        cells.sort_unstable();
        Ok(cells)
    }
}
