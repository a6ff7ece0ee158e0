//! A result: one row of the table and of the files.
//!
//! Files have more columns than the printed table.

use serde::Serialize;

use super::case::Case;
use super::options::{Distribution, EvaluationName, Experiment};
use super::prepared::Rows;
use super::trial::Measured;
use crate::harness::{BackendName, Column, ResultRow};

/// One backend's run of one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    pub(super) backend: BackendName,
    pub(super) objects: u64,
    pub(super) distribution: Distribution,
    /// Circles; 0 is the rate without any.
    pub(super) regions: u64,
    pub(super) radius_m: f64,
    pub(super) events_wanted: &'static str,
    pub(super) updates: u64,
    pub(super) events: u64,
    pub(super) seconds: f64,
    pub(super) updates_per_s: f64,
    pub(super) events_per_s: f64,
    pub(super) ns_per_update: f64,
    /// 99th percentile of the time from a cycle's submission until its events are readable.
    pub(super) cycle_ms_p99: f64,
    /// Hash of the number of events of each circle in every cycle, and of all events of the last
    /// cycle: equal for all backends.
    pub(super) event_hash: String,
    pub(super) memory_bytes: u64,
    pub(super) cycle_updates: usize,
    pub(super) cycle_ms_p50: f64,
    pub(super) events_per_update: f64,
    /// Circles that contain an object, at the end.
    pub(super) memberships_per_object: f64,
    /// Speeds of `uniform`, metres a second.
    pub(super) speed_range: Option<String>,
    /// The fixes that are evaluated.
    pub(super) evaluation_mode: EvaluationName,
    /// Share of the circles replaced per second of event time.
    pub(super) churn: f64,
    /// True if circles follow objects.
    pub(super) follow: bool,
    pub(super) seed: u64,
    pub(super) machine: String,
}

impl Row {
    pub(super) fn new(
        case: &Case,
        rows: &Rows,
        backend: BackendName,
        measured: &Measured,
        machine: &str,
    ) -> Self {
        let motion = &rows.motion;
        let (updates, seconds) = (motion.updates, measured.seconds);
        let is_uniform = motion.distribution == Distribution::Uniform;
        Self {
            experiment: case.experiment,
            backend,
            objects: motion.params.objects,
            distribution: motion.distribution,
            regions: case.regions.regions,
            radius_m: case.regions.radius_m,
            events_wanted: case.experiment.events_wanted(),
            updates,
            events: measured.events,
            seconds,
            updates_per_s: updates as f64 / seconds,
            events_per_s: measured.events as f64 / seconds,
            ns_per_update: 1e9 * seconds / updates as f64,
            cycle_ms_p99: measured.times.quantile_ms(0.99),
            event_hash: measured.event_hash.clone(),
            memory_bytes: measured.memory_bytes,
            cycle_updates: motion.cycle_updates(),
            cycle_ms_p50: measured.times.quantile_ms(0.5),
            events_per_update: measured.events as f64 / updates as f64,
            memberships_per_object: measured.memberships_per_object,
            speed_range: is_uniform.then(|| motion.params.speed_range.to_string()),
            evaluation_mode: case.evaluation_mode,
            churn: case.regions.churn,
            follow: case.regions.follows,
            seed: motion.params.seed,
            machine: machine.to_owned(),
        }
    }
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "workload", width: 8, cell: |row| row.distribution.name().to_owned() },
        Column { title: "", width: 5, cell: |row| row.backend.name().to_owned() },
        Column { title: "objects", width: 9, cell: |row| row.objects.to_string() },
        Column { title: "circles", width: 8, cell: |row| row.regions.to_string() },
        Column { title: "radius m", width: 8, cell: |row| row.radius_m.to_string() },
        Column { title: "updates/s", width: 11, cell: |row| format!("{:.0}", row.updates_per_s) },
        Column { title: "events/s", width: 11, cell: |row| format!("{:.0}", row.events_per_s) },
        Column { title: "ns/update", width: 9, cell: |row| format!("{:.1}", row.ns_per_update) },
        Column { title: "ev/upd", width: 8, cell: |row| format!("{:.3}", row.events_per_update) },
        Column {
            title: "members",
            width: 7,
            cell: |row| format!("{:.2}", row.memberships_per_object),
        },
        Column { title: "p50 ms", width: 8, cell: |row| format!("{:.2}", row.cycle_ms_p50) },
        Column { title: "p99 ms", width: 8, cell: |row| format!("{:.2}", row.cycle_ms_p99) },
    ];

    fn backend(&self) -> &'static str {
        self.backend.name()
    }

    fn case(&self) -> String {
        format!("{:?} {} of {} m", self.experiment, self.regions, self.radius_m)
    }

    fn answer_hash(&self) -> &str {
        &self.event_hash
    }
}
