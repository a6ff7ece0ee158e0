//! A result: one row of the table, of the JSON list and of the CSV file.
//!
//! The names and meaning of the first eleven keys are published and do not change.

use serde::Serialize;

use super::breakdown::Breakdown;
use super::contender::Measured;
use super::options::Experiment;
use super::prepared::Prepared;
use crate::harness::{BackendName, Column, ResultRow};

/// One contender's run of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    pub(super) backend: BackendName,
    pub(super) objects: u64,
    pub(super) distribution: &'static str,
    pub(super) updates: u64,
    pub(super) queries: u64,
    pub(super) seconds: f64,
    pub(super) updates_per_s: f64,
    pub(super) queries_per_s: f64,
    /// 99th percentile of the time from a cycle's submission to its readable answers; for a backend
    /// without cycles, of the time of a worker's portion.
    pub(super) cycle_ms_p99: f64,
    /// Hash of the answers to the last cycle's queries, repeated at rest: equal for every backend.
    pub(super) answer_hash: String,
    /// The case within its experiment.
    pub(super) case: String,
    /// Hot-spots of `gauss`, else 0.
    pub(super) hotspots: u32,
    /// Updates that `cycle_ms_p99` covers.
    pub(super) cycle_updates: usize,
    pub(super) cycle_ms_p50: f64,
    /// Answers show the state this many epochs before their own cycle.
    pub(super) epochs_behind: u64,
    /// Side of a window as a share of the space's side.
    pub(super) window: f64,
    pub(super) results_per_query: f64,
    /// Hash of the number of objects of each query while the clock ran; reproducible only for
    /// backends that work in cycles.
    pub(super) run_hash: String,
    pub(super) bytes_per_object: f64,
    /// Cells, and objects of a bucket. 0 if the backend chooses them at run time.
    pub(super) cells: u64,
    pub(super) bucket_objects: usize,
    /// Resident threads of the kernels on the device, 0 = as many as fit.
    pub(super) launch_threads: u32,
    /// Threads of the baseline by role, `updates:queries`; empty if all do both.
    pub(super) pgrid_roles: String,
    /// How a grid on a device is to be updated: `cheaper`, `apply` or `rebuild`.
    pub(super) update_choice: &'static str,
    /// Cycles whose moves were applied to the grid, and cycles that rebuilt it.
    pub(super) applied_cycles: u64,
    pub(super) rebuilt_cycles: u64,
    /// The longest time of a cycle; see `cycle_ms_p99`.
    pub(super) cycle_ms_max: f64,
    /// Plans of the blocks of rows, and their bytes an update.
    pub(super) input: &'static str,
    pub(super) bytes_per_update: f64,
    /// Queries of a cycle that have the same window.
    pub(super) overlap: usize,
    /// With `--timeline`: milliseconds a cycle by stage, concurrent stages, and bytes a cycle over
    /// the bus.
    pub(super) copy_in_ms: Option<f64>,
    pub(super) dispatch_ms: Option<f64>,
    pub(super) update_ms: Option<f64>,
    pub(super) query_ms: Option<f64>,
    pub(super) copy_out_ms: Option<f64>,
    pub(super) stages_at_a_time: Option<f64>,
    pub(super) copied_in_bytes: Option<f64>,
    pub(super) copied_out_bytes: Option<f64>,
    pub(super) threads: usize,
    pub(super) seed: u64,
    pub(super) machine: String,
}

impl Row {
    pub(super) fn new(
        prepared: &Prepared,
        backend: BackendName,
        measured: Measured,
        breakdown: Option<&Breakdown>,
        (threads, machine): (usize, &str),
    ) -> Self {
        let (case, settings) = (&prepared.case, measured.settings);
        let stages_ms = breakdown.map(|breakdown| breakdown.stage_ms.map(Some)).unwrap_or_default();
        let [copy_in_ms, dispatch_ms, update_ms, query_ms, copy_out_ms] = stages_ms;
        Self {
            experiment: case.experiment,
            backend,
            objects: case.objects,
            distribution: case.distribution.name(),
            updates: case.updates,
            queries: case.queries,
            seconds: measured.seconds,
            updates_per_s: case.updates as f64 / measured.seconds,
            queries_per_s: case.queries as f64 / measured.seconds,
            cycle_ms_p99: measured.times.quantile_ms(0.99),
            answer_hash: measured.answer_hash,
            case: case.label(),
            hotspots: case.distribution.hotspots().unwrap_or(0),
            cycle_updates: measured.cycle_updates,
            cycle_ms_p50: measured.times.quantile_ms(0.5),
            epochs_behind: measured.epochs_behind,
            window: prepared.window,
            results_per_query: measured.totals.matches as f64 / case.queries.max(1) as f64,
            run_hash: measured.totals.hash(),
            bytes_per_object: measured.memory_bytes as f64 / case.objects as f64,
            cells: settings.cells,
            bucket_objects: settings.bucket_objects,
            launch_threads: settings.launch_threads,
            pgrid_roles: settings.pgrid_roles,
            update_choice: settings.update_choice,
            applied_cycles: measured.grid_updates.applied,
            rebuilt_cycles: measured.grid_updates.rebuilt,
            cycle_ms_max: measured.times.longest_ms(),
            input: case.input.name(),
            bytes_per_update: prepared.bytes_per_update(),
            overlap: case.overlap,
            copy_in_ms,
            dispatch_ms,
            update_ms,
            query_ms,
            copy_out_ms,
            stages_at_a_time: breakdown.map(Breakdown::stages_at_a_time),
            copied_in_bytes: breakdown.map(|breakdown| breakdown.in_bytes),
            copied_out_bytes: breakdown.map(|breakdown| breakdown.out_bytes),
            threads: settings.threads.unwrap_or(threads),
            seed: case.seed,
            machine: machine.to_owned(),
        }
    }

    /// Updates a second, or queries a second if there are no updates.
    pub(super) fn rate(&self) -> f64 {
        if self.updates == 0 { self.queries_per_s } else { self.updates_per_s }
    }

    /// The method that updated the grid; both with their cycles if both did.
    fn ran(&self) -> String {
        match (self.applied_cycles, self.rebuilt_cycles) {
            (0, 0) => String::new(),
            (_, 0) => "apply".to_owned(),
            (0, _) => "rebuild".to_owned(),
            (applied, rebuilt) => format!("apply {applied}, rebuild {rebuilt}"),
        }
    }

    /// The name of the row's series in the plot.
    pub(super) fn series(&self) -> String {
        let backend = self.backend.name();
        match self.experiment {
            Experiment::Threads if self.updates == 0 => format!("{backend}, queries"),
            Experiment::Threads => format!("{backend}, updates"),
            Experiment::Moved if !self.update_choice.is_empty() => {
                format!("{backend}, {}", self.update_choice)
            }
            _ => backend.to_owned(),
        }
    }
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "case", width: 9, cell: |row| row.case.clone() },
        Column { title: "", width: 6, cell: |row| row.backend.name().to_owned() },
        Column { title: "objects", width: 9, cell: |row| row.objects.to_string() },
        Column { title: "updates/s", width: 11, cell: |row| format!("{:.0}", row.updates_per_s) },
        Column { title: "queries/s", width: 11, cell: |row| format!("{:.0}", row.queries_per_s) },
        Column { title: "p50 ms", width: 8, cell: |row| format!("{:.2}", row.cycle_ms_p50) },
        Column { title: "p99 ms", width: 8, cell: |row| format!("{:.2}", row.cycle_ms_p99) },
        Column { title: "max ms", width: 8, cell: |row| format!("{:.2}", row.cycle_ms_max) },
        Column { title: "behind", width: 6, cell: |row| row.epochs_behind.to_string() },
        Column { title: "found", width: 6, cell: |row| format!("{:.2}", row.results_per_query) },
        Column { title: "B/object", width: 8, cell: |row| format!("{:.1}", row.bytes_per_object) },
        Column { title: "cells", width: 9, cell: |row| row.cells.to_string() },
        Column { title: "bucket", width: 6, cell: |row| row.bucket_objects.to_string() },
        Column { title: "B/update", width: 8, cell: |row| format!("{:.1}", row.bytes_per_update) },
        Column { title: "grid", width: 7, cell: Self::ran },
    ];

    fn backend(&self) -> &'static str {
        self.backend.name()
    }

    fn case(&self) -> String {
        format!("{:?} {}", self.experiment, self.case)
    }

    fn answer_hash(&self) -> &str {
        &self.answer_hash
    }
}
