//! A result: one row of the table, of the JSON list and of the CSV file.

use serde::Serialize;

use super::options::Experiment;
use crate::harness::{Column, ResultRow};

/// One question to all runs.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    pub(super) aim: String,
    /// Of all runs.
    pub(super) rows: u64,
    pub(super) objects: u64,
    pub(super) runs: u32,
    /// Of the encoded blocks, and of the device with heads and their tree.
    pub(super) bytes_per_row: f64,
    pub(super) device_bytes_per_row: f64,
    /// Milliseconds to load all runs.
    pub(super) load_ms: f64,
    /// Rows or states.
    pub(super) found: u64,
    /// Median of the repetitions.
    pub(super) ms: f64,
    /// All rows over `ms`.
    pub(super) rows_per_s: f64,
    pub(super) answer_hash: String,
    pub(super) seed: u64,
    pub(super) machine: String,
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "aim", width: 8, cell: |row| row.aim.clone() },
        Column { title: "rows", width: 11, cell: |row| row.rows.to_string() },
        Column { title: "objects", width: 9, cell: |row| row.objects.to_string() },
        Column { title: "runs", width: 4, cell: |row| row.runs.to_string() },
        Column { title: "B/row", width: 6, cell: |row| format!("{:.2}", row.bytes_per_row) },
        Column { title: "there", width: 6, cell: |row| format!("{:.2}", row.device_bytes_per_row) },
        Column { title: "load ms", width: 8, cell: |row| format!("{:.0}", row.load_ms) },
        Column { title: "found", width: 11, cell: |row| row.found.to_string() },
        Column { title: "ms", width: 9, cell: |row| format!("{:.3}", row.ms) },
        Column { title: "G rows/s", width: 9, cell: |row| format!("{:.2}", row.rows_per_s / 1e9) },
    ];

    fn backend(&self) -> &'static str {
        "cuda"
    }

    fn case(&self) -> String {
        format!("{:?}, {} rows, {}", self.experiment, self.rows, self.aim)
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}
