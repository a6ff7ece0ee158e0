//! A result: one row of the table, of the JSON list and of the CSV file.

use serde::Serialize;

use super::options::Experiment;
use crate::harness::{Column, ResultRow};

/// The questions of one experiment.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    /// Aim of the blocks of runs on a device; `None` on disk.
    pub(super) aim: Option<String>,
    pub(super) fixes: u64,
    pub(super) objects: u64,
    /// CPU threads; 0 for experiments on a device.
    pub(super) threads: usize,
    pub(super) cache_mib: usize,
    /// Bytes in the file, or in the encoded blocks of a device run.
    pub(super) bytes_per_fix: f64,
    /// Bytes in device memory, block heads and their tree included.
    pub(super) device_bytes_per_fix: Option<f64>,
    /// Milliseconds to load all runs into a device's memory.
    pub(super) load_ms: Option<f64>,
    pub(super) questions: usize,
    /// Timed repetitions of each question.
    pub(super) passes: u32,
    /// Mean number of rows, objects or counted fixes in an answer.
    pub(super) found: f64,
    /// Median over all questions and passes.
    pub(super) p50_ms: f64,
    /// 99th percentile; on a device the maximum, because few repetitions are timed.
    pub(super) p99_ms: f64,
    /// Fixes of the past over `p50_ms`.
    pub(super) rows_per_s: f64,
    /// Hash of the answers, in the order of the questions.
    pub(super) answer_hash: String,
    /// `None` for runs that are generated in memory.
    pub(super) workload: Option<String>,
    pub(super) seed: u64,
    pub(super) machine: String,
}

fn optional(text: Option<String>) -> String {
    text.unwrap_or_else(|| "-".into())
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "aim", width: 8, cell: |row| optional(row.aim.clone()) },
        Column { title: "fixes", width: 10, cell: |row| row.fixes.to_string() },
        Column { title: "objects", width: 7, cell: |row| row.objects.to_string() },
        Column { title: "threads", width: 7, cell: |row| row.threads.to_string() },
        Column { title: "B/fix", width: 6, cell: |row| format!("{:.2}", row.bytes_per_fix) },
        Column {
            title: "GPU B",
            width: 6,
            cell: |row| optional(row.device_bytes_per_fix.map(|bytes| format!("{bytes:.2}"))),
        },
        Column {
            title: "load ms",
            width: 8,
            cell: |row| optional(row.load_ms.map(|ms| format!("{ms:.0}"))),
        },
        Column { title: "asked", width: 5, cell: |row| row.questions.to_string() },
        Column { title: "found", width: 11, cell: |row| format!("{:.1}", row.found) },
        Column { title: "p50 ms", width: 9, cell: |row| format!("{:.3}", row.p50_ms) },
        Column { title: "p99 ms", width: 9, cell: |row| format!("{:.3}", row.p99_ms) },
        Column { title: "M rows/s", width: 9, cell: |row| format!("{:.1}", row.rows_per_s / 1e6) },
    ];

    fn backend(&self) -> &'static str {
        if self.experiment.is_on_device() { "cuda" } else { "cpu" }
    }

    fn case(&self) -> String {
        let Self { experiment, fixes, aim, .. } = self;
        format!("{experiment:?}, {fixes} fixes, {}", optional(aim.clone()))
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}
