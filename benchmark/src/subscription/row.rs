//! One result: a row of the table and of the JSON list.

use serde::Serialize;

use super::case::Case;
use super::contender::Measured;
use super::options::{BackendName, Distribution, Experiment, JudgingName};
use super::prepared::Rows;

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
    /// From a cycle's submission to its events readable, 99 in 100 cycles.
    pub(super) cycle_ms_p99: f64,
    /// Of how many events each circle had in every cycle, and of all events of the last cycle: the
    /// same for every backend.
    pub(super) event_hash: String,
    pub(super) memory_bytes: u64,
    pub(super) cycle_updates: usize,
    pub(super) cycle_ms_p50: f64,
    pub(super) events_per_update: f64,
    /// Circles that an object is in, at the end.
    pub(super) memberships_per_object: f64,
    /// Speeds of `uniform`, metres a second; nothing for others.
    pub(super) speed_range: Option<String>,
    /// What circles judge.
    pub(super) judging: JudgingName,
    /// Share of the circles that is replaced in a second of event time.
    pub(super) churn: f64,
    /// Circles follow objects.
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
            judging: case.judging,
            churn: case.regions.churn,
            follow: case.regions.follows,
            seed: motion.params.seed,
            machine: machine.to_owned(),
        }
    }

    /// Which line of a plot it belongs to.
    pub(super) fn series(&self) -> String {
        format!("{}, {} m", self.backend.name(), self.radius_m)
    }
}
