//! Maps the columns of a file to the fields of a fix.
//!
//! The number of fields in a row must match the header, so that a shifted row is an error.

use std::io::Read;

use super::reader::FieldFault;
use crate::limits::CSV_COLUMNS_MAX;
use crate::{CsvFault, LineReader};

/// Columns that are read; the discriminant is the index in [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Column {
    ObjectId,
    TimeMs,
    Lon,
    Lat,
    Speed,
    Heading,
    Altitude,
    State,
}

/// Header names, in the order of [`Column`]; the first [`REQUIRED`] must be present.
pub(super) const COLUMNS: [&str; 8] =
    ["object_id", "t_ms", "lon", "lat", "speed", "heading", "altitude", "state"];
const REQUIRED: usize = 4;
/// Names of `lon` and `lat` in a file with planar coordinates.
const PLANAR: [(&str, &str); 2] = [("x", "lon"), ("y", "lat")];

/// For each position in a row the index in [`COLUMNS`]; `None` for an ignored column.
#[derive(Debug)]
pub(super) struct Columns {
    places: Vec<Option<usize>>,
}

impl Columns {
    /// Reads the header line, which is the first line that is not blank.
    pub(super) fn read(lines: &mut LineReader<impl Read>) -> Result<Self, FieldFault> {
        if !lines.next_filled().map_err(|fault| ("header", fault))? {
            return Err(("header", CsvFault::NoHeader));
        }
        let header =
            std::str::from_utf8(lines.line()).map_err(|_| ("header", CsvFault::NotText))?;
        let header = header.trim_start_matches('\u{feff}');
        let is_planar = !header.split(',').any(|name| matches!(name.trim(), "lon" | "lat"));
        let mut places = Vec::new();
        for name in header.split(',').map(str::trim) {
            let planar = PLANAR.iter().find(|(planar, _)| is_planar && *planar == name);
            let name = planar.map_or(name, |(_, column)| column);
            if places.len() == CSV_COLUMNS_MAX {
                return Err((
                    "header",
                    CsvFault::TooManyColumns { limit_columns: CSV_COLUMNS_MAX },
                ));
            }
            let place = COLUMNS.iter().position(|column| *column == name);
            if let Some(place) = place
                && places.contains(&Some(place))
            {
                return Err((COLUMNS[place], CsvFault::ColumnTwice));
            }
            places.push(place);
        }
        for (place, name) in COLUMNS.iter().enumerate().take(REQUIRED) {
            if !places.contains(&Some(place)) {
                return Err((name, CsvFault::NoColumn));
            }
        }
        Ok(Self { places })
    }

    /// The text of each column without spaces around it; empty for columns that the file lacks.
    pub(super) fn split<'line>(
        &self,
        line: &'line str,
    ) -> Result<[&'line str; COLUMNS.len()], FieldFault> {
        let mut texts = [""; COLUMNS.len()];
        let mut fields = line.split(',');
        for place in &self.places {
            let field = fields.next().ok_or_else(|| self.wrong_count())?;
            if let Some(place) = *place {
                texts[place] = field.trim_ascii();
            }
        }
        match fields.next() {
            None => Ok(texts),
            Some(_) => Err(self.wrong_count()),
        }
    }

    fn wrong_count(&self) -> FieldFault {
        ("line", CsvFault::FieldCount { expected: self.places.len() })
    }
}
