//! Reads fixes from `.csv` and `.csv.gz`.
//!
//! The header names the columns, by one of the names in `fix_fields`; other columns are ignored,
//! whatever bytes they have. Fields may be quoted, also with line ends in them. A bad row is an
//! error with file, line and column, and the next row can be read; memory is bounded by one line.
//! Unless the options are strict, a measure that cannot be stored is dropped and counted.

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;
use std::sync::Arc;

use super::header::CsvHeader;
use super::record::{Dropped, Record, RecordFault, Values};
use crate::fix_fields::{
    DroppedMeasures, FixField, FixFileOptions, MeasureReader, TimeReader, object_default_note,
};
use crate::limits::{CSV_LINE_BYTES_MAX, TEXT_SHOWN_MAX};
use crate::text_input::TextInput;
use crate::{CsvError, CsvFault, CsvRow, Fix, LineReader, NamedCsvRow, TableError};

/// Iterates over the rows of a file, each a fix or an error. It stops after an error that ends the
/// file ([`CsvError::ends_file`]).
pub struct CsvReader {
    file: Arc<Path>,
    lines: LineReader<TextInput<Box<dyn Read + Send>>>,
    values: Values,
    dropped: DroppedMeasures,
    is_broken: bool,
}

impl CsvReader {
    /// Opens a file, plain or gzip, and reads its header line.
    ///
    /// # Errors
    ///
    /// [`TableError::Io`]; [`TableError::Csv`] if the header lacks a required column or repeats a
    /// column.
    pub fn open(file: &Path, options: &FixFileOptions) -> Result<Self, TableError> {
        let bytes = File::open(file).map_err(TableError::reading(file))?;
        Self::from_reader(bytes, file, options)
    }

    /// Reads from `bytes`; `name` is the file in errors.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_reader(
        bytes: impl Read + Send + 'static,
        name: &Path,
        options: &FixFileOptions,
    ) -> Result<Self, TableError> {
        let bytes: Box<dyn Read + Send> = Box::new(bytes);
        let input = TextInput::new(bytes).map_err(TableError::reading(name))?;
        Self::of(input, name, options)
    }

    /// As [`from_reader`](Self::from_reader), but the bytes are never gzip: one byte of them is one
    /// byte of text.
    ///
    /// # Errors
    ///
    /// As [`open`](Self::open).
    pub fn from_plain(
        bytes: impl Read + Send + 'static,
        name: &Path,
        options: &FixFileOptions,
    ) -> Result<Self, TableError> {
        let bytes: Box<dyn Read + Send> = Box::new(bytes);
        Self::of(TextInput::Plain(BufReader::new(bytes)), name, options)
    }

    fn of(
        input: TextInput<Box<dyn Read + Send>>,
        name: &Path,
        options: &FixFileOptions,
    ) -> Result<Self, TableError> {
        let file: Arc<Path> = name.into();
        let mut lines = LineReader::new(input, CSV_LINE_BYTES_MAX);
        let header = CsvHeader::read(&mut lines, options).map_err(|fault| CsvError {
            file: file.clone(),
            line: lines.number().max(1),
            field: "header".to_owned(),
            fault,
        })?;
        let values = Values {
            times: TimeReader::new(header.columns.time_unit, options),
            measures: MeasureReader::new(
                header.columns.speed_unit,
                header.columns.altitude_unit,
                options.is_strict,
            )
            .with_validities_in(header.columns.validity_unit),
            object: options.object.clone(),
            is_strict: options.is_strict,
            dropped: Vec::new(),
            header,
        };
        Ok(Self { file, lines, values, dropped: DroppedMeasures::default(), is_broken: false })
    }

    /// Returns the next row with all its columns; the iterator omits altitude, state and validity.
    pub fn next_row(&mut self) -> Option<Result<CsvRow, CsvError>> {
        self.next_record(|record, values| record.row(values))
    }

    /// As [`next_row`](Self::next_row) for a file whose objects have names.
    pub fn next_named_row(&mut self) -> Option<Result<NamedCsvRow, CsvError>> {
        self.next_record(|record, values| record.named_row(values))
    }

    /// The byte between two fields.
    #[must_use]
    pub fn delimiter(&self) -> u8 {
        self.values.header.delimiter
    }

    /// The file in messages.
    #[must_use]
    pub fn file(&self) -> &Path {
        &self.file
    }

    /// Number of the line of the last row, from 1; its first line if it has several.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.lines.number()
    }

    /// The measures that were dropped so far.
    #[must_use]
    pub fn dropped(&self) -> &DroppedMeasures {
        &self.dropped
    }

    /// Says how the file is read: which columns have which fields, units, separator.
    #[must_use]
    pub fn describe(&self) -> Vec<String> {
        let header = &self.values.header;
        let mut notes = vec![header.columns.describe(&self.values.times.describe())];
        notes.extend(header.columns.describe_unread(&[]));
        notes.extend(self.values.object.as_ref().map(|object| object_default_note(object)));
        if header.has_decimal_commas() {
            notes.push(match header.delimiter {
                b'\t' => "the separator is a tab".to_owned(),
                b';' => "the separator is a semicolon; a comma may be a decimal sign".to_owned(),
                other => format!("the separator is `{}`", char::from(other)),
            });
        }
        notes
    }

    /// The name in the file of the column with a field.
    #[must_use]
    pub fn column_name(&self, field: FixField) -> &str {
        self.values.header.columns.name(field)
    }

    /// Reads the next row.
    #[inline]
    fn next_record<T>(
        &mut self,
        read: fn(&Record<'_>, &mut Values) -> Result<T, Box<RecordFault>>,
    ) -> Option<Result<T, CsvError>> {
        if self.is_broken {
            return None;
        }
        let result = match self.lines.next_filled(self.values.header.delimiter) {
            Ok(true) => self.record(read),
            Ok(false) => return None,
            Err(fault) => Err(RecordFault::of_line(fault)),
        };
        if !self.values.dropped.is_empty() {
            self.count_dropped(result.is_ok());
        }
        Some(result.map_err(|fault| {
            let RecordFault { field, fault } = *fault;
            let field = field.map_or("line", |field| self.column_name(field)).to_owned();
            let (file, line) = (self.file.clone(), self.lines.number());
            let error = CsvError { file, line, field, fault };
            self.is_broken = error.ends_file();
            error
        }))
    }

    /// Reads the row that begins with the current line.
    #[inline]
    fn record<T>(
        &mut self,
        read: fn(&Record<'_>, &mut Values) -> Result<T, Box<RecordFault>>,
    ) -> Result<T, Box<RecordFault>> {
        let mut record = Record::default();
        if record.split(self.lines.line(), self.lines.may_have_quote(), &self.values.header)? {
            return read(&record, &mut self.values);
        }
        self.long_record(read)
    }

    /// Reads a row that goes on in the next lines. If they do not complete it, or one of them is a
    /// row of its own, only its first line is at fault, and the next line begins a row.
    #[cold]
    fn long_record<T>(
        &mut self,
        read: fn(&Record<'_>, &mut Values) -> Result<T, Box<RecordFault>>,
    ) -> Result<T, Box<RecordFault>> {
        let first_line_bytes = self.lines.line().len();
        let mut bytes = first_line_bytes;
        while self.lines.extend().map_err(RecordFault::of_line)? {
            let mut appended = Record::default();
            let line = &self.lines.line()[bytes + 1..];
            if matches!(appended.split(line, true, &self.values.header), Ok(true))
                && appended.is_complete(&mut self.values)
            {
                break;
            }
            bytes = self.lines.line().len();
            let mut record = Record::default();
            match record.split(self.lines.line(), true, &self.values.header) {
                Ok(false) => {}
                Ok(true) => return read(&record, &mut self.values),
                Err(_) => break,
            }
        }
        self.lines.shorten(first_line_bytes);
        Err(RecordFault::of_line(CsvFault::OpenQuote))
    }

    /// Counts the measures that were dropped from a row, unless the whole row is refused.
    #[cold]
    fn count_dropped(&mut self, is_read: bool) {
        let (file, line) = (self.file.display(), self.lines.number());
        let Values { header, dropped, .. } = &mut self.values;
        for Dropped { field, text } in dropped.drain(..).filter(|_| is_read) {
            self.dropped.add(|| {
                let text: String = text.chars().take(TEXT_SHOWN_MAX).collect();
                format!("{file}, line {line}, {}: `{text}`", header.columns.name(field))
            });
        }
    }
}

impl Iterator for CsvReader {
    type Item = Result<Fix, CsvError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_record(|record, values| record.fix(values))
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
