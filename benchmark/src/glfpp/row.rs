//! One result: a row of the table, the JSON list and the CSV file.
//!
//! The first eleven keys are the published ones; their names and meaning stay.

use serde::Serialize;

use super::breakdown::Breakdown;
use super::case::{Case, Distribution};
use super::contender::Measured;
use super::options::{BackendName, Experiment};

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
    /// From a cycle's submission to its answers readable, 99 in 100 cycles; of a backend without
    /// cycles, what a worker takes at a time.
    pub(super) cycle_ms_p99: f64,
    /// Of the last cycle's queries, asked again at rest: the same for every backend.
    pub(super) answer_hash: String,
    /// The case within its experiment.
    pub(super) case: String,
    /// Hot-spots of `gauss`, else 0.
    pub(super) hotspots: u32,
    /// Updates of what `cycle_ms_p99` is the time of.
    pub(super) cycle_updates: usize,
    pub(super) cycle_ms_p50: f64,
    /// Staleness: answers hold on the state so many epochs before their own cycle's.
    pub(super) epochs_behind: u64,
    /// Side of a window as a share of the space's side.
    pub(super) window: f64,
    pub(super) results_per_query: f64,
    /// Of how many objects each query found while the clock ran; repeats only for backends that
    /// work in cycles.
    pub(super) run_hash: String,
    pub(super) bytes_per_object: f64,
    /// Cells and objects of a bucket, 0 where the backend chooses them as it runs.
    pub(super) cells: u64,
    pub(super) bucket_objects: usize,
    /// Threads of kernels on the device at a time, 0 for as many as fit.
    pub(super) launch_threads: u32,
    /// How grids on a device are brought up: `cheaper`, `apply` or `rebuild`.
    pub(super) update_way: &'static str,
    /// How queries are answered on a device: by `rows` of cells, or whole queries where they are
    /// short.
    pub(super) query_way: &'static str,
    /// Milliseconds a cycle by stage, stages at a time and bytes a cycle over the bus, where they
    /// were recorded.
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
        case: &Case,
        backend: BackendName,
        measured: Measured,
        breakdown: Option<&Breakdown>,
        (threads, machine): (usize, &str),
    ) -> Self {
        let settings = measured.settings;
        let stages_ms = breakdown.map(|breakdown| breakdown.stage_ms.map(Some)).unwrap_or_default();
        let [copy_in_ms, dispatch_ms, update_ms, query_ms, copy_out_ms] = stages_ms;
        let hotspots = match case.distribution {
            Distribution::Gauss(hotspots) => hotspots,
            Distribution::Uniform => 0,
        };
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
            hotspots,
            cycle_updates: measured.cycle_updates,
            cycle_ms_p50: measured.times.quantile_ms(0.5),
            epochs_behind: measured.epochs_behind,
            window: case.window,
            results_per_query: measured.results as f64 / case.queries.max(1) as f64,
            run_hash: measured.run_hash,
            bytes_per_object: measured.memory_bytes as f64 / case.objects as f64,
            cells: settings.cells,
            bucket_objects: settings.bucket_objects,
            launch_threads: settings.launch_threads,
            update_way: settings.update_way,
            query_way: settings.query_way,
            copy_in_ms,
            dispatch_ms,
            update_ms,
            query_ms,
            copy_out_ms,
            stages_at_a_time: breakdown.map(Breakdown::stages_at_a_time),
            copied_in_bytes: breakdown.map(|breakdown| breakdown.in_bytes),
            copied_out_bytes: breakdown.map(|breakdown| breakdown.out_bytes),
            threads,
            seed: case.seed,
            machine: machine.to_owned(),
        }
    }

    /// What the experiment is about: updates a second, or queries where there are no updates.
    pub(super) fn rate(&self) -> f64 {
        if self.updates == 0 { self.queries_per_s } else { self.updates_per_s }
    }

    /// Which line of its experiment's plot it belongs to.
    pub(super) fn series(&self) -> String {
        let backend = self.backend_name();
        match self.experiment {
            Experiment::Threads if self.updates == 0 => format!("{backend}, queries"),
            Experiment::Threads => format!("{backend}, updates"),
            _ => backend.to_owned(),
        }
    }

    /// The backend's name as it is written.
    pub(super) fn backend_name(&self) -> &'static str {
        match self.backend {
            BackendName::Pgrid => "pgrid",
            BackendName::Cpu => "cpu",
            BackendName::Cuda => "cuda",
        }
    }
}
