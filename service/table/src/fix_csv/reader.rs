//! Reads fixes from `.csv` and `.csv.gz`.
//!
//! The header line names the columns: `object_id,t_ms,lon,lat`, or `x,y` for a plane, and
//! optionally `speed,heading,altitude,state`; others are ignored. The format has no quoting. A bad
//! row is an error with file, line and field, and the next row can be read; memory is bounded by
//! one line. The engine, not the reader, checks values; a heading of 360 is kept.

use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;

use super::columns::{COLUMNS, Column, Columns};
use crate::limits::CSV_LINE_BYTES_MAX;
use crate::text_input::TextInput;
use crate::{CsvError, CsvFault, CsvRow, Fix, LineReader, SpeedUnit, TableError};

/// Iterates over the rows of a file, each a fix or an error. It stops after an error that ends the
/// file ([`CsvError::ends_file`]).
pub struct CsvReader {
    file: Arc<Path>,
    lines: LineReader<TextInput<Box<dyn Read + Send>>>,
    columns: Columns,
    speed_unit: SpeedUnit,
    is_broken: bool,
}

impl CsvReader {
    /// Opens a file, plain or gzip, and reads its header line.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; [`TableError::Csv`] if the header lacks a required column or repeats a
    /// column.
    pub fn open(file: &Path, speed_unit: SpeedUnit) -> Result<Self, TableError> {
        let bytes = File::open(file).map_err(TableError::reading(file))?;
        Self::from_reader(bytes, file, speed_unit)
    }

    /// Reads from `bytes`; `name` is the file in errors.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_reader(
        bytes: impl Read + Send + 'static,
        name: &Path,
        speed_unit: SpeedUnit,
    ) -> Result<Self, TableError> {
        let file: Arc<Path> = name.into();
        let bytes: Box<dyn Read + Send> = Box::new(bytes);
        let input = TextInput::new(bytes).map_err(TableError::reading(name))?;
        let mut lines = LineReader::new(input, CSV_LINE_BYTES_MAX);
        let columns = Columns::read(&mut lines).map_err(|(field, fault)| CsvError {
            file: file.clone(),
            line: lines.number().max(1),
            field,
            fault,
        })?;
        Ok(Self { file, lines, columns, speed_unit, is_broken: false })
    }

    /// Returns the next row with all its columns; the iterator omits altitude and state.
    pub fn next_row(&mut self) -> Option<Result<CsvRow, CsvError>> {
        self.next_line(row)
    }

    /// As [`next_row`](Self::next_row) for a file whose objects have names: returns the name, and
    /// the row with object 0.
    pub fn next_named_row(&mut self) -> Option<Result<(CsvRow, String), CsvError>> {
        self.next_line(named_row)
    }

    /// Parses the next line.
    fn next_line<T>(
        &mut self,
        parse: fn(&Texts<'_>, SpeedUnit) -> Result<T, FieldFault>,
    ) -> Option<Result<T, CsvError>> {
        if self.is_broken {
            return None;
        }
        let parsed = match self.lines.next_filled() {
            Ok(true) => texts(self.lines.line(), &self.columns)
                .and_then(|texts| parse(&texts, self.speed_unit)),
            Ok(false) => return None,
            Err(fault) => Err(("line", fault)),
        };
        Some(parsed.map_err(|(field, fault)| {
            let line = self.lines.number();
            let error = CsvError { file: self.file.clone(), line, field, fault };
            self.is_broken = error.ends_file();
            error
        }))
    }
}

impl Iterator for CsvReader {
    type Item = Result<Fix, CsvError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_line(fix)
    }
}

impl std::fmt::Debug for CsvReader {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("CsvReader")
            .field("file", &self.file)
            .field("line", &self.lines.number())
            .finish_non_exhaustive()
    }
}

/// A field and its fault.
pub(super) type FieldFault = (&'static str, CsvFault);

/// The columns of one line.
fn texts<'line>(line: &'line [u8], columns: &Columns) -> Result<Texts<'line>, FieldFault> {
    let line = std::str::from_utf8(line).map_err(|_| ("line", CsvFault::NotText))?;
    columns.split(line)
}

fn fix(texts: &Texts<'_>, speed_unit: SpeedUnit) -> Result<Fix, FieldFault> {
    let speed = optional(texts, Column::Speed)?;
    Ok(Fix {
        object: integer(texts, Column::ObjectId)?,
        time_ms: integer(texts, Column::TimeMs)?,
        x: number(texts, Column::Lon)?,
        y: number(texts, Column::Lat)?,
        speed_mps: speed.map(|speed| speed_unit.to_m_s(speed)),
        heading_deg: optional(texts, Column::Heading)?,
    })
}

fn row(texts: &Texts<'_>, speed_unit: SpeedUnit) -> Result<CsvRow, FieldFault> {
    let has_state = !texts[Column::State as usize].is_empty();
    Ok(CsvRow {
        fix: fix(texts, speed_unit)?,
        altitude_m: optional(texts, Column::Altitude)?,
        state: if has_state { integer(texts, Column::State)? } else { 0 },
    })
}

fn named_row(texts: &Texts<'_>, speed_unit: SpeedUnit) -> Result<(CsvRow, String), FieldFault> {
    let (mut rest, name) = (*texts, texts[Column::ObjectId as usize]);
    rest[Column::ObjectId as usize] = "0";
    Ok((row(&rest, speed_unit)?, name.to_owned()))
}

type Texts<'line> = [&'line str; COLUMNS.len()];

/// A required integer.
fn integer<T: FromStr>(texts: &Texts<'_>, column: Column) -> Result<T, FieldFault> {
    let (name, text) = (COLUMNS[column as usize], texts[column as usize]);
    text.parse().map_err(|_| (name, CsvFault::not_a(text, "an integer in range")))
}

/// Parses a required finite number to the nearest double.
fn number(texts: &Texts<'_>, column: Column) -> Result<f64, FieldFault> {
    let (name, text) = (COLUMNS[column as usize], texts[column as usize]);
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err((name, CsvFault::not_a(text, "a finite number"))),
    }
}

/// A finite number, or none if the field is empty.
fn optional(texts: &Texts<'_>, column: Column) -> Result<Option<f64>, FieldFault> {
    let is_empty = texts[column as usize].is_empty();
    if is_empty { Ok(None) } else { number(texts, column).map(Some) }
}
