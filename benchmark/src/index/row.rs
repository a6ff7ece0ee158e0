//! A result: one row of the table, of the JSON list and of the CSV file.

use serde::Serialize;

use super::options::{Distribution, Experiment, KeyType, Place};
use crate::harness::command::value_name;
use crate::harness::{Column, ResultRow};

/// One structure's runs of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    /// The structure, or the variant of the search.
    pub(super) structure: String,
    pub(super) place: Place,
    pub(super) key_type: KeyType,
    pub(super) keys: u32,
    /// How requests choose keys; `None` if nothing is searched.
    pub(super) requests: Option<Distribution>,
    pub(super) searches: u32,
    /// Threads of a request on the device.
    pub(super) threads: u32,
    /// Keys in each leaf of the tree.
    pub(super) leaf_keys: usize,
    /// Median time of the runs.
    pub(super) ms: f64,
    /// Searches per second; for builds, keys of the tree per second.
    pub(super) per_s: f64,
    /// `per_s` divided by `per_s` of the binary search.
    pub(super) ratio: Option<f64>,
    /// Layout, copies and build, milliseconds.
    pub(super) build_ms: Option<f64>,
    pub(super) bytes_per_key: Option<f64>,
    /// Hash of the ranks that were found, in the order of the requests.
    pub(super) answer_hash: String,
    pub(super) runs: u32,
    pub(super) seed: u64,
    pub(super) machine: String,
}

fn optional(number: Option<f64>) -> String {
    number.map_or_else(|| "-".into(), |number| format!("{number:.2}"))
}

fn requests(row: &Row) -> String {
    row.requests.map_or_else(|| "-".into(), |requests| value_name(&requests))
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "structure", width: 14, cell: |row| row.structure.clone() },
        Column { title: "on", width: 4, cell: |row| value_name(&row.place) },
        Column { title: "key", width: 4, cell: |row| value_name(&row.key_type) },
        Column { title: "keys", width: 9, cell: |row| row.keys.to_string() },
        Column { title: "requests", width: 8, cell: requests },
        Column { title: "searches", width: 9, cell: |row| row.searches.to_string() },
        Column { title: "threads", width: 7, cell: |row| row.threads.to_string() },
        Column { title: "ms", width: 10, cell: |row| format!("{:.4}", row.ms) },
        Column { title: "M/s", width: 9, cell: |row| format!("{:.1}", row.per_s / 1e6) },
        Column { title: "ratio", width: 6, cell: |row| optional(row.ratio) },
        Column { title: "build ms", width: 9, cell: |row| optional(row.build_ms) },
        Column { title: "B/key", width: 6, cell: |row| optional(row.bytes_per_key) },
    ];

    fn backend(&self) -> &'static str {
        match self.place {
            Place::Cpu => "cpu",
            Place::Cuda => "cuda",
        }
    }

    fn case(&self) -> String {
        let Self { experiment, structure, keys, .. } = self;
        format!("{experiment:?}, {structure}, {keys} keys, requests {}", requests(self))
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}
