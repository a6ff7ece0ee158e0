//! Reads the rows of a report from a CSV file, batch by batch.
//!
//! A thread of its own reads a bounded number of batches ahead. Rows that cannot be read are
//! counted and skipped; the first are described.

use std::path::Path;

use shoal_client::{AckTotals, v1};
use shoal_table::{CsvReader, Fix, SpeedUnit, TableError};
use tokio::sync::mpsc;

use super::error::CliError;

/// Batches read ahead of the one being sent.
const BATCHES_AHEAD: usize = 2;

/// Rows of a file, in order.
#[derive(Clone, Debug, Default)]
pub struct RowBatch {
    /// Readable rows.
    pub fixes: Vec<v1::Fix>,
    /// Rows between them that could not be read.
    pub unreadable: u64,
    /// What is wrong with the first of them.
    pub unreadable_shown: Vec<String>,
}

/// Opens a file, or standard input for `-`; gzip or plain by the first bytes.
///
/// # Errors
/// [`CliError::Input`] if it cannot be read or its header lacks a column.
pub fn open(file: &str, speed_unit: SpeedUnit) -> Result<CsvReader, CliError> {
    let opened = if file == "-" {
        CsvReader::from_reader(std::io::stdin(), Path::new("standard input"), speed_unit)
    } else {
        CsvReader::open(Path::new(file), speed_unit)
    };
    opened.map_err(|error| unusable(file, &error))
}

/// The error for a file that cannot be used.
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
pub fn batches(csv: CsvReader, rows_max: usize) -> mpsc::Receiver<RowBatch> {
    let (sender, receiver) = mpsc::channel(BATCHES_AHEAD);
    tokio::task::spawn_blocking(move || {
        let mut shown = 0;
        let mut batch = RowBatch::default();
        for row in csv {
            match row {
                Ok(fix) => batch.fixes.push(to_wire(&fix)),
                Err(error) => {
                    batch.unreadable += 1;
                    if shown < AckTotals::LISTED_MAX {
                        shown += 1;
                        batch.unreadable_shown.push(error.to_string());
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
            // An error means that the receiver is gone, and the rest is not needed.
            let _ = sender.blocking_send(batch);
        }
    });
    receiver
}

/// A row in the wire's form. Rounding speed and heading to `f32` loses less than storing does.
#[must_use]
pub fn to_wire(fix: &Fix) -> v1::Fix {
    v1::Fix {
        object: fix.object,
        time_ms: fix.time_ms,
        x: fix.x,
        y: fix.y,
        speed_mps: fix.speed_mps.map(|speed| speed as f32),
        heading_deg: fix.heading_deg.map(|heading| heading as f32),
        ..v1::Fix::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "object_id,t_ms,lon,lat,speed\n1,10,-97.5,30,1.5\n2,x,0,0,\n3,11,1,2,\n";

    #[tokio::test]
    async fn bad_rows_are_counted_and_skipped() {
        let csv = CsvReader::from_reader(TEXT.as_bytes(), Path::new("a.csv"), SpeedUnit::default());
        let mut rows = batches(csv.unwrap(), 1);
        let first = rows.recv().await.unwrap();
        assert_eq!((first.fixes[0].object, first.fixes[0].speed_mps), (1, Some(1.5)));
        let second = rows.recv().await.unwrap();
        assert_eq!((second.fixes[0].object, second.fixes[0].speed_mps), (3, None));
        assert_eq!(second.unreadable, 1);
        assert!(second.unreadable_shown[0].contains("line 3, t_ms"));
        assert!(rows.recv().await.is_none());
    }

    #[test]
    fn a_file_that_is_not_there_is_named_once() {
        let error = open("no-such.csv", SpeedUnit::default()).unwrap_err().to_string();
        assert_eq!(error.matches("no-such.csv").count(), 1, "{error}");
    }
}
