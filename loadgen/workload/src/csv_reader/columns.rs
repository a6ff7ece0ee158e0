//! Which column of a file is which field?
//!
//! The header is read once into a table from position to field; a row is then split in one pass.
//! A row must have as many fields as the header: a shifted row is refused, never guessed at.

use std::io::Read;

use super::FieldFault;
use super::error::CsvFault;
use super::line::Lines;
use crate::limits::CSV_COLUMNS_MAX;

/// Fields that are read; the discriminant is the place in [`COLUMNS`].
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Column {
    ObjectId,
    TimeMs,
    Lon,
    Lat,
    Speed,
    Heading,
    RecvMs,
}

/// Header names, in the order of [`Column`]; the first [`REQUIRED`] must be there.
pub(super) const COLUMNS: [&str; 7] =
    ["object_id", "t_ms", "lon", "lat", "speed", "heading", "recv_ms"];
const REQUIRED: usize = 4;

/// For each position in a row the place in [`COLUMNS`], or none for a column that is ignored.
#[derive(Debug)]
pub(super) struct Columns {
    places: Vec<Option<usize>>,
}

impl Columns {
    /// Reads the header line: the first one that is not blank.
    pub(super) fn read(lines: &mut Lines<impl Read>) -> Result<Self, FieldFault> {
        if !lines.find_filled().map_err(|fault| ("header", fault))? {
            return Err(("header", CsvFault::NoHeader));
        }
        let header =
            std::str::from_utf8(lines.line()).map_err(|_| ("header", CsvFault::NotText))?;
        let header = header.trim_start_matches('\u{feff}');
        let mut places = Vec::new();
        for name in header.split(',') {
            if places.len() == CSV_COLUMNS_MAX {
                return Err(("header", CsvFault::FieldCount { expected: CSV_COLUMNS_MAX }));
            }
            let place = COLUMNS.iter().position(|column| *column == name.trim());
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

    /// The text of each field, spaces around it removed; empty for columns the file lacks.
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
