//! What is in a file, before it is played?
//!
//! One pass: rows, span of time, and where most rows lie. Memory is bounded by the number of cells,
//! whatever the file's length.

use std::collections::HashMap;

use shoal_engine::Space;
use shoal_table::{CsvReader, Fix};

/// Cells that are counted; rows in others are left out once there are so many.
const CELLS_MAX: usize = 1 << 20;
/// Side of a cell of a geographic fleet, degrees: about a kilometre.
const CELL_DEG: f64 = 0.01;
/// Cells along the longer side of a planar fleet.
const CELLS_PLANAR: f64 = 256.0;

/// What a file holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Survey {
    /// Readable rows.
    pub rows: u64,
    /// Rows that cannot be read.
    pub unreadable: u64,
    /// Earliest event time, Unix milliseconds.
    pub first_ms: i64,
    /// Latest event time, Unix milliseconds.
    pub last_ms: i64,
    /// Mean position of the rows in the cell that has most of them.
    pub busiest: (f64, f64),
}

/// Sums over one cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    rows: u64,
    x: f64,
    y: f64,
}

impl Survey {
    /// Reads all rows; `None` when there is no readable one.
    #[must_use]
    pub fn of(rows: CsvReader, space: &Space) -> Option<Self> {
        let mut cells: HashMap<(i64, i64), Cell> = HashMap::new();
        let side = cell_side(space);
        let mut survey = Self {
            rows: 0,
            unreadable: 0,
            first_ms: i64::MAX,
            last_ms: i64::MIN,
            busiest: (0.0, 0.0),
        };
        for row in rows {
            let Ok(Fix { time_ms, x, y, .. }) = row else {
                survey.unreadable += 1;
                continue;
            };
            survey.rows += 1;
            survey.first_ms = survey.first_ms.min(time_ms);
            survey.last_ms = survey.last_ms.max(time_ms);
            let place = ((x / side).floor() as i64, (y / side).floor() as i64);
            if cells.len() < CELLS_MAX || cells.contains_key(&place) {
                let cell = cells.entry(place).or_default();
                *cell = Cell { rows: cell.rows + 1, x: cell.x + x, y: cell.y + y };
            }
        }
        // Ties go to the south-west, so that the same file gives the same place.
        let busiest =
            cells.iter().max_by_key(|(place, cell)| (cell.rows, std::cmp::Reverse(*place)));
        let (_, cell) = busiest?;
        survey.busiest = (cell.x / cell.rows as f64, cell.y / cell.rows as f64);
        Some(survey)
    }

    /// Milliseconds from the first to the last row.
    #[must_use]
    pub fn span_ms(&self) -> u64 {
        self.last_ms.abs_diff(self.first_ms)
    }

    /// The factor at which the file lasts `seconds`, never slower than it was recorded.
    #[must_use]
    pub fn speedup_for(&self, seconds: f64) -> f64 {
        (self.span_ms() as f64 / (seconds * 1_000.0)).max(1.0)
    }
}

/// Side of a cell in degrees or metres.
fn cell_side(space: &Space) -> f64 {
    if space.is_geographic() {
        return CELL_DEG;
    }
    let (width_m, height_m) = space.to_api(space.bounds().x_max, space.bounds().y_max);
    width_m.max(height_m) / CELLS_PLANAR
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use shoal_table::SpeedUnit;

    use super::*;

    fn survey(text: &'static str) -> Option<Survey> {
        let csv = CsvReader::from_reader(text.as_bytes(), Path::new("a"), SpeedUnit::default());
        Survey::of(csv.unwrap(), &Space::geographic())
    }

    #[test]
    fn span_and_busiest_place_come_from_the_rows() {
        let text = "object_id,t_ms,lon,lat\n1,5000,-97.702,30.001\n2,1000,-97.704,30.003\nbad\n\
                    3,125000,5,5\n";
        let survey = survey(text).unwrap();
        assert_eq!((survey.rows, survey.unreadable, survey.span_ms()), (3, 1, 124_000));
        let (x, y) = survey.busiest;
        assert!((x + 97.703).abs() < 1e-9 && (y - 30.002).abs() < 1e-9);
        assert_eq!(survey.speedup_for(62.0), 2.0);
        assert_eq!(survey.speedup_for(1_000.0), 1.0);
    }

    #[test]
    fn a_file_without_rows_has_no_survey() {
        assert_eq!(survey("object_id,t_ms,lon,lat\n"), None);
    }
}
