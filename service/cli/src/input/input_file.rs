//! Opens a file of positions in the format that its first bytes show.

use std::fs::File;
use std::io::{self, Read, Seek as _};
use std::path::Path;

use shoal_table::{ColumnsFault, CsvFault, CsvReader, FixFileOptions, TableError};

use super::csv::CsvFixes;
use super::fix_source::FixSource;
use super::gpx::GpxFixes;
use super::gtfs_realtime::GtfsRealtimeFixes;
use super::input_head::{Format, InputHead};
use super::json::JsonFixes;
use super::nmea::NmeaFixes;
use crate::error::CliError;
use crate::geoparquet::GeoParquetReader;

/// Magic number at the start of a Parquet file.
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Opens a file, or standard input for `-`. The first bytes tell the format; gzip may be around any
/// but Parquet, which standard input cannot have.
///
/// # Errors
/// [`CliError::Input`] if it cannot be read or lacks a column.
pub fn open_input(name: &str, options: &FixFileOptions) -> Result<Box<dyn FixSource>, CliError> {
    let path = Path::new(name);
    let (shown, input): (_, Box<dyn Read + Send>) = if name == "-" {
        ("standard input", Box::new(io::stdin()))
    } else {
        if let Some(file) = parquet(path) {
            return Ok(Box::new(GeoParquetReader::open(name, file, options)?));
        }
        (name, Box::new(File::open(path).map_err(cannot_read(name))?))
    };
    open_stream(shown, input, options)
}

/// True if the rows of a file may come slowly: standard input, a pipe, or a device.
#[must_use]
pub fn is_stream(name: &str) -> bool {
    name == "-" || Path::new(name).metadata().is_ok_and(|metadata| !metadata.is_file())
}

/// Opens an input that is read from its begin to its end; `shown` is its name in messages.
///
/// # Errors
/// As [`open_input`].
pub(super) fn open_stream(
    shown: &str,
    input: Box<dyn Read + Send>,
    options: &FixFileOptions,
) -> Result<Box<dyn FixSource>, CliError> {
    let head = InputHead::read(input).map_err(cannot_read(shown))?;
    match head.format {
        Format::Json => Ok(Box::new(JsonFixes::new(head.into_buffered(), shown, options))),
        Format::Xml => Ok(Box::new(GpxFixes::open(head.into_buffered(), shown, options)?)),
        Format::GtfsRealtime => {
            Ok(Box::new(GtfsRealtimeFixes::new(head.into_buffered(), shown, options)))
        }
        Format::Nmea => Ok(Box::new(NmeaFixes::new(head.into_input(), shown, options))),
        Format::Csv => {
            if let Some(kind) = head.binary_kind() {
                let reason = format!("it is {kind}");
                return Err(CliError::Input { file: shown.to_owned(), reason });
            }
            let csv = CsvReader::from_reader(head.into_input(), Path::new(shown), options);
            Ok(Box::new(CsvFixes(csv.map_err(|error| unusable(shown, &error))?)))
        }
    }
}

/// Converts an error of reading.
fn cannot_read(file: &str) -> impl FnOnce(io::Error) -> CliError {
    |error| CliError::Input { file: file.to_owned(), reason: error.to_string() }
}

/// Returns the file if it is Parquet. Returns `None` for a file that cannot be opened, whose error
/// the next opening gives, and for a pipe, because the check would consume its first bytes.
fn parquet(path: &Path) -> Option<File> {
    let mut file = File::open(path)
        .ok()
        .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
    let mut magic = [0; PARQUET_MAGIC.len()];
    file.read_exact(&mut magic).ok()?;
    file.rewind().ok()?;
    (magic == *PARQUET_MAGIC).then_some(file)
}

/// Converts an error of a table to [`CliError::Input`], with the file name stated only once and a
/// flag that helps.
#[must_use]
pub fn unusable(file: &str, error: &TableError) -> CliError {
    // Some messages begin with the name of the file.
    let text = error.to_string();
    let reason = text
        .strip_prefix(file)
        .map_or(text.as_str(), |rest| rest.trim_start_matches([':', ',', ' ']));
    let hint = match error {
        TableError::Csv(error) => match &error.fault {
            CsvFault::Columns(fault) => column_hint(fault),
            _ => String::new(),
        },
        _ => String::new(),
    };
    CliError::Input { file: file.to_owned(), reason: format!("{reason}{hint}") }
}

/// What to do about columns that are not found.
#[must_use]
pub(crate) fn column_hint(fault: &ColumnsFault) -> String {
    match fault {
        ColumnsFault::Missing { field, .. } => {
            format!("; if one of them is, name it with --column {field}=NAME")
        }
        ColumnsFault::Unknown { .. } | ColumnsFault::Twice { .. } => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_there_is_named_once() {
        let opened = open_input("no-such.csv", &FixFileOptions::default());
        let error = opened.err().unwrap().to_string();
        assert_eq!(error.matches("no-such.csv").count(), 1, "{error}");
    }

    #[test]
    fn a_file_without_rows_is_named_by_its_kind() {
        for (bytes, kind) in [
            (&b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"[..], "it is a PNG image"),
            (b"PK\x03\x04\x14\0\x06\0", "save the table as CSV"),
            (b"%PDF-1.4\n1 0 obj", "a PDF document"),
            (b"PAR1\x15\x04\x15\x10", "give the plain file"),
        ] {
            let opened = open_stream("a", Box::new(bytes), &FixFileOptions::default());
            let error = opened.err().unwrap().to_string();
            assert!(error.contains(kind), "{error}");
        }
    }

    #[test]
    fn a_missing_column_comes_with_its_flag() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.csv").display().to_string();
        std::fs::write(&file, "ident,when,lon,lat\n").unwrap();
        let error = open_input(&file, &FixFileOptions::default()).err().unwrap().to_string();
        assert!(error.contains("`ident`, `when`"), "{error}");
        assert!(error.ends_with("--column object=NAME"), "{error}");
    }
}
