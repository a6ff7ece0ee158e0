//! The header line of a CSV file: its separator and columns.

use std::io::Read;

use super::fields::{LineSplit, split_quoted};
use crate::fix_fields::{ColumnChoice, FixField, FixFileOptions};
use crate::limits::CSV_COLUMNS_MAX;
use crate::{CsvFault, LineReader};

/// Separators of fields, from the most to the least usual.
const DELIMITERS: [u8; 4] = [b',', b';', b'\t', b'|'];
/// Columns of [`CsvHeader::places`]: the fields of a fix, then the date.
pub(super) const TEXTS: usize = FixField::COUNT + 1;
/// Index of the date among the texts of a row.
pub(super) const DATE: usize = FixField::COUNT;

/// The header of a file.
#[derive(Debug)]
pub(super) struct CsvHeader {
    /// The byte between two fields.
    pub(super) delimiter: u8,
    /// The columns that are read.
    pub(super) columns: ColumnChoice,
    /// For each position in a row the index among the texts of a row; `None` for a column that is
    /// not read.
    pub(super) places: Vec<Option<u8>>,
}

impl CsvHeader {
    /// Reads the header, which is the first line that is not blank.
    ///
    /// # Errors
    /// The fault of the header.
    pub(super) fn read(
        lines: &mut LineReader<impl Read>,
        options: &FixFileOptions,
    ) -> Result<Self, CsvFault> {
        if !lines.next_filled(DELIMITERS[0])? {
            return Err(CsvFault::NoHeader);
        }
        let stated = stated_delimiter(lines.line());
        if stated.is_some() && !lines.next_filled(DELIMITERS[0])? {
            return Err(CsvFault::NoHeader);
        }
        // A quoted name may have line ends.
        while matches!(names(lines.line(), DELIMITERS[0]), Err(CsvFault::OpenQuote))
            && lines.extend()?
        {}
        let line = lines.line();
        if line.starts_with(&[0xff, 0xfe]) || line.starts_with(&[0xfe, 0xff]) {
            return Err(CsvFault::Utf16);
        }
        let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line);
        let delimiter = options.delimiter.or(stated).unwrap_or_else(|| delimiter_of(line));
        let names = names(line, delimiter)?;
        if names.len() > CSV_COLUMNS_MAX {
            return Err(CsvFault::TooManyColumns { limit_columns: CSV_COLUMNS_MAX });
        }
        let columns = ColumnChoice::find(&names, options, &options.required(&FixField::REQUIRED))
            .map_err(|fault| CsvFault::Columns(Box::new(fault)))?;
        let mut places = vec![None; names.len()];
        for field in FixField::ALL {
            if let Some(column) = columns.column(field) {
                places[column.index] = Some(field as u8);
            }
        }
        if let Some(date) = &columns.date {
            places[date.index] = Some(DATE as u8);
        }
        Ok(Self { delimiter, columns, places })
    }

    /// True if a number may have a decimal comma, because a comma does not separate fields.
    pub(super) fn has_decimal_commas(&self) -> bool {
        self.delimiter != b','
    }
}

/// True if a line has names of at least two required columns, as the header of a file has.
#[must_use]
pub fn looks_like_header(line: &[u8]) -> bool {
    let names = names(line, delimiter_of(line)).unwrap_or_default();
    ColumnChoice::required_found(&names) >= 2
}

/// The separator that a first line for Excel states, as in `sep=;`.
fn stated_delimiter(line: &[u8]) -> Option<u8> {
    let line = line.strip_prefix("\u{feff}".as_bytes()).unwrap_or(line).trim_ascii_end();
    match line.strip_prefix(b"sep=").or(line.strip_prefix(b"SEP="))? {
        [delimiter] => Some(*delimiter),
        // A tab is a blank at the end of the line.
        [] => Some(b'\t'),
        _ => None,
    }
}

/// The separator that gives the most of the required columns, and the most columns.
fn delimiter_of(line: &[u8]) -> u8 {
    let fit = |delimiter: &u8| {
        let names = names(line, *delimiter).unwrap_or_default();
        (ColumnChoice::required_found(&names), names.len())
    };
    // Of equals the last wins, so the usual one comes last.
    DELIMITERS.into_iter().rev().max_by_key(fit).unwrap_or(b',')
}

/// The names of the columns. Names that are not UTF-8 are read as Latin-1.
fn names(line: &[u8], delimiter: u8) -> Result<Vec<String>, CsvFault> {
    let mut names = Vec::new();
    let split = split_quoted(line, delimiter, |_, field| {
        let name = std::str::from_utf8(field.bytes).map(str::to_owned);
        let name = name.unwrap_or_else(|_| field.bytes.iter().copied().map(char::from).collect());
        let name = if field.is_doubled { name.replace("\"\"", "\"") } else { name };
        names.push(name.trim().to_owned());
    })?;
    match split {
        LineSplit::Fields(_) => Ok(names),
        LineSplit::Open => Err(CsvFault::OpenQuote),
    }
}
