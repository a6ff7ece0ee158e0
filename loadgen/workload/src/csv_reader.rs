//! How do real positions get in? A streaming reader of `.csv` and `.csv.gz`.
//!
//! Columns are found by their names in the header line: `object_id,t_ms,lon,lat` and optionally
//! `speed`, `heading`, `recv_ms`; others are ignored. A bad row is an error that names file, line
//! and field, and the next row follows; memory is bounded by one line. The format has no quoting.
//! Values are not judged (a heading of 360 stays 360): that is the engine's task.

mod columns;
mod error;
mod line;

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use flate2::bufread::MultiGzDecoder;

use columns::{COLUMNS, Column, Columns};
pub use error::{CsvError, CsvFault};
pub(crate) use line::Lines;

use crate::limits::CSV_BUFFER_BYTES;
use crate::{Fix, SpeedUnit, WorkloadError};

/// The first two bytes of every gzip member (RFC 1952).
const GZIP_MAGIC: [u8; 2] = [0x1f, 0x8b];

/// One row, with the digits of its position as the source prints them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CsvRow<'line> {
    /// The row as a fix; the speed is in metres per second already.
    pub fix: Fix,
    /// The text of `lon`.
    pub lon_text: &'line str,
    /// The text of `lat`.
    pub lat_text: &'line str,
    /// Text of `recv_ms`, empty if the file has none; [`recv_ms`](Self::recv_ms) reads it.
    pub recv_text: &'line str,
}

impl CsvRow<'_> {
    /// When the point arrived, Unix milliseconds; `None` where unknown or not an integer.
    #[must_use]
    pub fn recv_ms(&self) -> Option<i64> {
        self.recv_text.parse().ok()
    }
}

/// Reads rows one by one; as an iterator it gives each fix or what is wrong with its row.
pub struct CsvReader {
    file: Arc<Path>,
    lines: Lines<Box<dyn Read + Send>>,
    columns: Columns,
    speed_unit: SpeedUnit,
    broken: bool,
}

impl CsvReader {
    /// Opens a file, gzip or plain by its first bytes, and reads the header line.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or its header lacks a required column or has one twice.
    pub fn open(file: &Path, speed_unit: SpeedUnit) -> Result<Self, WorkloadError> {
        let bytes = File::open(file)
            .map_err(|source| WorkloadError::Io { file: file.to_owned(), source })?;
        Self::from_reader(bytes, file, speed_unit)
    }

    /// Reads bytes that come from somewhere else; `name` stands in errors.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_reader(
        bytes: impl Read + Send + 'static,
        name: &Path,
        speed_unit: SpeedUnit,
    ) -> Result<Self, WorkloadError> {
        let file: Arc<Path> = PathBuf::from(name).into();
        let mut plain = BufReader::with_capacity(CSV_BUFFER_BYTES, bytes);
        let start = plain
            .fill_buf()
            .map_err(|source| WorkloadError::Io { file: name.to_owned(), source })?;
        let packed = start.starts_with(&GZIP_MAGIC);
        let input: Box<dyn Read + Send> =
            if packed { Box::new(MultiGzDecoder::new(plain)) } else { Box::new(plain) };
        let mut lines = Lines::new(input);
        let columns = Columns::read(&mut lines).map_err(|(field, fault)| CsvError {
            file: file.clone(),
            line: lines.number().max(1),
            field,
            fault,
        })?;
        Ok(Self { file, lines, columns, speed_unit, broken: false })
    }

    /// The next row, or what is wrong with it; `None` at the end of the file.
    ///
    /// Blank lines are passed over. After an error that says the file itself cannot be read further
    /// ([`CsvError::ends_file`]) comes `None`.
    pub fn next_row(&mut self) -> Option<Result<CsvRow<'_>, CsvError>> {
        if self.broken {
            return None;
        }
        match self.lines.find_filled() {
            Ok(true) => {}
            Ok(false) => return None,
            Err(fault) => return Some(Err(self.refuse("line", fault))),
        }
        match row(self.lines.line(), &self.columns, self.speed_unit) {
            Ok(row) => Some(Ok(row)),
            Err((field, fault)) => Some(Err(CsvError {
                file: self.file.clone(),
                line: self.lines.number(),
                field,
                fault,
            })),
        }
    }

    /// The error of the present line; one that ends the file is the last answer.
    fn refuse(&mut self, field: &'static str, fault: CsvFault) -> CsvError {
        let error = CsvError { file: self.file.clone(), line: self.lines.number(), field, fault };
        self.broken = error.ends_file();
        error
    }
}

impl Iterator for CsvReader {
    type Item = Result<Fix, CsvError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.next_row()?.map(|row| row.fix))
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

/// A fault and the field that has it.
type FieldFault = (&'static str, CsvFault);

/// Takes one line apart.
fn row<'line>(
    line: &'line [u8],
    columns: &Columns,
    speed_unit: SpeedUnit,
) -> Result<CsvRow<'line>, FieldFault> {
    let line = std::str::from_utf8(line).map_err(|_| ("line", CsvFault::NotText))?;
    let texts = columns.split(line)?;
    let text = |column: Column| texts[column as usize];
    let speed = optional(text(Column::Speed), Column::Speed)?;
    let fix = Fix {
        object: integer(text(Column::ObjectId), Column::ObjectId)?,
        time_ms: integer(text(Column::TimeMs), Column::TimeMs)?,
        x: number(text(Column::Lon), Column::Lon)?,
        y: number(text(Column::Lat), Column::Lat)?,
        speed_mps: speed.map(|speed| speed_unit.to_m_s(speed)),
        heading_deg: optional(text(Column::Heading), Column::Heading)?,
    };
    Ok(CsvRow {
        fix,
        lon_text: text(Column::Lon),
        lat_text: text(Column::Lat),
        recv_text: text(Column::RecvMs),
    })
}

/// A required integer.
fn integer<T: std::str::FromStr>(text: &str, column: Column) -> Result<T, FieldFault> {
    let fault = || (COLUMNS[column as usize], CsvFault::not_a(text, "an integer in range"));
    text.parse().map_err(|_| fault())
}

/// A required finite number: the double nearest to the digits.
fn number(text: &str, column: Column) -> Result<f64, FieldFault> {
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err((COLUMNS[column as usize], CsvFault::not_a(text, "a finite number"))),
    }
}

/// A number, or nothing where it is unknown.
fn optional(text: &str, column: Column) -> Result<Option<f64>, FieldFault> {
    if text.is_empty() { Ok(None) } else { number(text, column).map(Some) }
}
