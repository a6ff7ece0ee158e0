//! Surveys a file before it is played: rows, time span, and the place with most rows.
//!
//! One pass; memory is bounded by the number of cells.

use std::collections::HashMap;

use shoal_engine::Space;

use crate::input::{FixSource, IdKind, SourceRow};

/// Most cells; rows in further cells are not counted.
const CELLS_MAX: usize = 1 << 20;
/// Side of a cell of a geographic fleet, degrees: about a kilometre.
const CELL_DEG: f64 = 0.01;
/// Cells along the longer side of a planar fleet.
const CELLS_PLANAR: f64 = 256.0;

/// Contents of a file.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Survey {
    /// Readable rows.
    pub(super) rows: u64,
    /// Rows that cannot be read.
    pub(super) unreadable: u64,
    /// Earliest event time, Unix milliseconds.
    pub(super) first_ms: i64,
    /// Latest event time, Unix milliseconds.
    pub(super) last_ms: i64,
    /// Line or row of the first row with an earlier time than one before it.
    pub(super) unordered_place: Option<u64>,
    /// Mean position of the rows in the cell with most of them.
    pub(super) busiest: (f64, f64),
}

/// Sums over one cell.
#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    rows: u64,
    x: f64,
    y: f64,
}

impl Survey {
    /// Surveys all rows; returns `None` if no row can be read.
    pub(super) fn of(source: &mut dyn FixSource, ids: IdKind, space: &Space) -> Option<Self> {
        let mut cells: HashMap<(i64, i64), Cell> = HashMap::new();
        let side = cell_side(space);
        let mut survey = Self {
            rows: 0,
            unreadable: 0,
            first_ms: i64::MAX,
            last_ms: i64::MIN,
            unordered_place: None,
            busiest: (0.0, 0.0),
        };
        while let Some(row) = source.next_row(ids) {
            let Ok(SourceRow { fix, place }) = row else {
                survey.unreadable += 1;
                continue;
            };
            let (time_ms, x, y) = (fix.time_ms, fix.x, fix.y);
            survey.rows += 1;
            if time_ms < survey.last_ms {
                survey.unordered_place.get_or_insert(place);
            }
            survey.first_ms = survey.first_ms.min(time_ms);
            survey.last_ms = survey.last_ms.max(time_ms);
            let place = ((x / side).floor() as i64, (y / side).floor() as i64);
            if cells.len() < CELLS_MAX || cells.contains_key(&place) {
                let cell = cells.entry(place).or_default();
                *cell = Cell { rows: cell.rows + 1, x: cell.x + x, y: cell.y + y };
            }
        }
        // Ties resolve to the south-western cell, so that the result is deterministic.
        let busiest =
            cells.iter().max_by_key(|(place, cell)| (cell.rows, std::cmp::Reverse(*place)));
        let (_, cell) = busiest?;
        survey.busiest = (cell.x / cell.rows as f64, cell.y / cell.rows as f64);
        Some(survey)
    }

    /// Milliseconds from the first to the last row.
    pub(super) fn span_ms(&self) -> u64 {
        self.last_ms.abs_diff(self.first_ms)
    }

    /// The speedup at which the file lasts `seconds`, at least 1.
    pub(super) fn speedup_for(&self, seconds: f64) -> f64 {
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
    use shoal_table::FixFileOptions;

    use super::*;
    use crate::input::open_input;

    fn survey(text: &str) -> Option<Survey> {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv").display().to_string();
        std::fs::write(&file, text).unwrap();
        let mut source = open_input(&file, &FixFileOptions::default()).unwrap();
        Survey::of(&mut *source, IdKind::Numbers, &Space::geographic())
    }

    #[test]
    fn span_order_and_busiest_place_come_from_the_rows() {
        let text = "object_id,t_ms,lon,lat\n1,5000,-97.702,30.001\n2,1000,-97.704,30.003\nbad\n\
                    3,125000,5,5\n";
        let survey = survey(text).unwrap();
        assert_eq!((survey.rows, survey.unreadable, survey.span_ms()), (3, 1, 124_000));
        assert_eq!(survey.unordered_place, Some(3));
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
