//! Reads the rows of a report from a CSV or GeoParquet file, batch by batch.
//!
//! A thread of its own reads a bounded number of batches ahead. Rows that cannot be read are
//! counted and skipped; the first are described.

use std::fs::File;
use std::io::{Read as _, Seek as _};
use std::path::Path;

use shoal_client::{AckTotals, v1};
use shoal_table::{CsvReader, CsvRow, SpeedUnit, TableError};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::error::CliError;
use super::geoparquet::GeoParquetReader;

/// Batches read ahead of the one being sent.
const BATCHES_AHEAD: usize = 2;
/// Magic number at the start of a Parquet file.
const PARQUET_MAGIC: &[u8; 4] = b"PAR1";

/// Rows of a file, in order.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    /// Rows that could be read.
    pub fixes: Vec<v1::Fix>,
    /// Number of rows in this part of the file that could not be read.
    pub unreadable: u64,
    /// Errors of the first unreadable rows.
    pub unreadable_shown: Vec<String>,
}

/// A file of rows whose header was read.
pub enum RowFile {
    /// CSV.
    Csv(Box<CsvReader>),
    /// GeoParquet.
    GeoParquet(Box<GeoParquetReader>),
}

impl RowFile {
    /// Opens a file, or standard input for `-`. The first bytes say whether it is GeoParquet, gzip
    /// or plain text; standard input is text.
    ///
    /// # Errors
    /// [`CliError::Input`] if it cannot be read or lacks a column.
    pub fn open(name: &str, speed_unit: SpeedUnit) -> Result<Self, CliError> {
        let path = Path::new(name);
        let opened = if name == "-" {
            CsvReader::from_reader(std::io::stdin(), Path::new("standard input"), speed_unit)
        } else {
            if let Some(file) = parquet(path) {
                let reader = GeoParquetReader::open(name, file, speed_unit)?;
                return Ok(Self::GeoParquet(Box::new(reader)));
            }
            CsvReader::open(path, speed_unit)
        };
        opened.map(|csv| Self::Csv(Box::new(csv))).map_err(|error| unusable(name, &error))
    }

    /// Checks that the positions fit the kind of space of a fleet, if the file states theirs.
    ///
    /// # Errors
    /// As [`GeoParquetReader::check_space`].
    pub fn check_space(&self, is_geographic: bool) -> Result<(), CliError> {
        match self {
            Self::Csv(_) => Ok(()),
            Self::GeoParquet(reader) => reader.check_space(is_geographic),
        }
    }

    /// Reads the file on a thread of its own into batches of `rows_max` rows, whose objects have
    /// names or numbers.
    #[must_use]
    pub fn batches(self, rows_max: usize, is_named: bool) -> RowBatches {
        match self {
            Self::Csv(csv) if is_named => named_csv_batches(*csv, rows_max),
            Self::Csv(csv) => csv_batches(*csv, rows_max),
            Self::GeoParquet(reader) => RowBatches::read(*reader, rows_max),
        }
    }
}

/// Returns the file if it is Parquet. Returns `None` for a file that cannot be opened, so that the
/// CSV reader reports the error, and for a pipe, because the check would consume its first bytes.
fn parquet(path: &Path) -> Option<File> {
    let mut file = File::open(path)
        .ok()
        .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
    let mut magic = [0; PARQUET_MAGIC.len()];
    file.read_exact(&mut magic).ok()?;
    file.rewind().ok()?;
    (magic == *PARQUET_MAGIC).then_some(file)
}

/// Converts an error of a CSV file to [`CliError::Input`], with the file name stated only once.
#[must_use]
pub fn unusable(file: &str, error: &TableError) -> CliError {
    // Some messages begin with the name of the file.
    let text = error.to_string();
    let reason = text
        .strip_prefix(file)
        .map_or(text.as_str(), |rest| rest.trim_start_matches([':', ',', ' ']));
    CliError::Input { file: file.to_owned(), reason: reason.to_owned() }
}

/// Reads `csv` on a thread of its own into batches of `rows_max` rows.
#[must_use]
pub fn csv_batches(mut csv: CsvReader, rows_max: usize) -> RowBatches {
    let rows = std::iter::from_fn(move || csv.next_row())
        .map(|row| row.map(|row| to_wire(&row)).map_err(|error| error.to_string()));
    RowBatches::read(rows, rows_max)
}

/// As [`csv_batches`], for a file whose objects have names.
#[must_use]
fn named_csv_batches(mut csv: CsvReader, rows_max: usize) -> RowBatches {
    let wire = |(row, name): (CsvRow, String)| v1::Fix { object: 0, name, ..to_wire(&row) };
    let rows = std::iter::from_fn(move || csv.next_named_row())
        .map(move |row| row.map(wire).map_err(|error| error.to_string()));
    RowBatches::read(rows, rows_max)
}

/// Batches that a thread reads ahead.
#[derive(Debug)]
pub struct RowBatches {
    batches: mpsc::Receiver<RowBatch>,
    /// `None` once the thread has ended.
    thread: Option<JoinHandle<()>>,
}

impl RowBatches {
    /// A source of one batch with one row.
    #[must_use]
    pub fn one(fix: v1::Fix) -> Self {
        let (sender, batches) = mpsc::channel(1);
        // The queue has room for exactly this one.
        let _ = sender.try_send(RowBatch { fixes: vec![fix], ..RowBatch::default() });
        Self { batches, thread: None }
    }

    fn read(
        rows: impl Iterator<Item = Result<v1::Fix, String>> + Send + 'static,
        rows_max: usize,
    ) -> Self {
        let (sender, batches) = mpsc::channel(BATCHES_AHEAD);
        let thread = tokio::task::spawn_blocking(move || send(rows, rows_max, &sender));
        Self { batches, thread: Some(thread) }
    }

    /// Returns the next batch; `None` at the end of the file.
    pub async fn next(&mut self) -> Option<RowBatch> {
        if let Some(batch) = self.batches.recv().await {
            return Some(batch);
        }
        let failed = self.thread.take()?.await.err()?;
        let shown = format!("the rest of the file, because its reader failed: {failed}");
        Some(RowBatch { unreadable: 1, unreadable_shown: vec![shown], ..RowBatch::default() })
    }
}

fn send(
    rows: impl Iterator<Item = Result<v1::Fix, String>>,
    rows_max: usize,
    sender: &mpsc::Sender<RowBatch>,
) {
    let mut shown = 0;
    let mut batch = RowBatch::default();
    for row in rows {
        match row {
            Ok(fix) => batch.fixes.push(fix),
            Err(error) => {
                batch.unreadable += 1;
                if shown < AckTotals::LISTED_MAX {
                    shown += 1;
                    batch.unreadable_shown.push(error);
                }
            }
        }
        if batch.fixes.len() == rows_max
            && sender.blocking_send(std::mem::take(&mut batch)).is_err()
        {
            return;
        }
    }
    if !batch.fixes.is_empty() || batch.unreadable > 0 {
        // Sending fails only if the receiver was dropped; the batch is then not needed.
        let _ = sender.blocking_send(batch);
    }
}

/// A row in the wire's form. Rounding speed and heading to `f32` loses less than storing does.
#[must_use]
pub fn to_wire(row: &CsvRow) -> v1::Fix {
    let CsvRow { fix, altitude_m, state } = *row;
    v1::Fix {
        object: fix.object,
        time_ms: fix.time_ms,
        x: fix.x,
        y: fix.y,
        speed_mps: fix.speed_mps.map(|speed| speed as f32),
        heading_deg: fix.heading_deg.map(|heading| heading as f32),
        altitude_m,
        state,
        name: String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "object_id,t_ms,x,y,speed,altitude,state\n\
        1,10,-97.5,30,1.5,-2.25,7\n2,x,0,0,,,\n4,11,1,2,,,-1\n3,11,1,2,,,\n";

    #[tokio::test]
    async fn bad_rows_are_counted_and_skipped() {
        let csv = CsvReader::from_reader(TEXT.as_bytes(), Path::new("a.csv"), SpeedUnit::default());
        let mut rows = csv_batches(csv.unwrap(), 1);
        let first = rows.next().await.unwrap().fixes.remove(0);
        assert_eq!((first.object, first.speed_mps), (1, Some(1.5)));
        assert_eq!((first.x, first.altitude_m, first.state), (-97.5, Some(-2.25), 7));
        let second = rows.next().await.unwrap();
        assert_eq!((second.fixes[0].object, second.fixes[0].speed_mps), (3, None));
        assert_eq!((second.fixes[0].altitude_m, second.fixes[0].state), (None, 0));
        assert_eq!(second.unreadable, 2);
        assert!(second.unreadable_shown[0].contains("line 3, t_ms"));
        assert!(second.unreadable_shown[1].contains("line 4, state"));
        assert!(rows.next().await.is_none());
    }

    #[tokio::test]
    async fn ids_of_a_named_fleet_are_texts() {
        let text = "object_id,t_ms,x,y\n truck-42 ,10,1,2\n7,11,1,2\n,12,1,2\n";
        let csv = CsvReader::from_reader(text.as_bytes(), Path::new("a.csv"), SpeedUnit::default());
        let mut rows = RowFile::Csv(Box::new(csv.unwrap())).batches(10, true);
        let fixes = rows.next().await.unwrap().fixes;
        let ids: Vec<_> = fixes.iter().map(|fix| (fix.object, fix.name.as_str())).collect();
        // The server refuses the row without a name, and counts it.
        assert_eq!(ids, [(0, "truck-42"), (0, "7"), (0, "")]);
    }

    #[tokio::test]
    async fn a_reader_that_fails_does_not_end_the_file_in_silence() {
        let mut rows = RowBatches::read(std::iter::from_fn(|| panic!("a bad page")), 1);
        let last = rows.next().await.unwrap();
        assert_eq!((last.unreadable, last.fixes.len()), (1, 0));
        assert!(last.unreadable_shown[0].contains("the rest of the file"));
        assert!(rows.next().await.is_none());
    }

    #[test]
    fn a_file_that_is_not_there_is_named_once() {
        let opened = RowFile::open("no-such.csv", SpeedUnit::default());
        let error = opened.map(|_| ()).unwrap_err().to_string();
        assert_eq!(error.matches("no-such.csv").count(), 1, "{error}");
    }
}
