//! A result: one row of the table and of the files.
//!
//! Files have more columns than the printed table.

use serde::Serialize;

use super::options::{Durability, Experiment, byte_text};
use super::trial::Measured;
use crate::harness::command::value_name;
use crate::harness::{Column, ResultRow};

/// What is measured in a case.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Contender {
    /// The position log.
    Log,
    /// Raw writes past the page cache.
    Direct,
    /// Raw writes through the page cache.
    Buffered,
    /// A plain sequential read with a checksum.
    Plain,
    /// The engine with blocks from memory.
    Engine,
    /// The engine with blocks from the log.
    Replay,
    /// A copy of the state of the engine.
    Export,
    /// A checkpoint written and synced.
    Write,
    /// A checkpoint read into a new engine.
    Load,
}

impl Contender {
    /// Its name in the table.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Log => "log",
            Self::Direct => "direct",
            Self::Buffered => "buffered",
            Self::Plain => "plain",
            Self::Engine => "engine",
            Self::Replay => "replay",
            Self::Export => "export",
            Self::Write => "write",
            Self::Load => "load",
        }
    }

    /// Whether the ratio of other contenders refers to this one.
    pub(super) fn is_reference(self) -> bool {
        matches!(self, Self::Direct | Self::Buffered | Self::Plain | Self::Engine)
    }
}

/// One case.
#[derive(Clone, Debug)]
pub(super) struct Case {
    pub(super) experiment: Experiment,
    pub(super) plan: Option<&'static str>,
    pub(super) group_bytes: Option<u64>,
    pub(super) durability: Option<Durability>,
    pub(super) objects: Option<u64>,
    pub(super) rows: u64,
    pub(super) groups: u64,
    pub(super) bytes: u64,
}

/// One contender in one case.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) experiment: Experiment,
    pub(super) contender: Contender,
    pub(super) plan: Option<&'static str>,
    /// Maximum bytes of the blocks of a group.
    pub(super) group_bytes: Option<u64>,
    pub(super) durability: Option<Durability>,
    pub(super) objects: Option<u64>,
    pub(super) rows: u64,
    pub(super) groups: u64,
    /// Bytes of all blocks, or of the file of a checkpoint.
    pub(super) bytes: u64,
    /// Seconds of the median run.
    pub(super) seconds: f64,
    pub(super) seconds_min: f64,
    pub(super) seconds_max: f64,
    pub(super) groups_per_s: f64,
    pub(super) mb_per_s: f64,
    pub(super) rows_per_s: f64,
    /// Time of a sync over all runs; 0 if nothing is synced.
    pub(super) sync_us_p50: f64,
    pub(super) sync_us_p99: f64,
    /// Time of a write with its sync over all runs; 0 if there is none. In `busy`, the time of a
    /// cycle.
    pub(super) group_us_p50: f64,
    pub(super) group_us_p99: f64,
    /// The rate divided by the rate of the fastest reference.
    pub(super) ratio: Option<f64>,
    /// Named parts of the median run, in seconds unless the name says otherwise.
    pub(super) parts: String,
    pub(super) hash: String,
    pub(super) runs: u32,
    pub(super) file_system: String,
    pub(super) machine: String,
}

impl Row {
    /// Builds the row; `reference_s` is the time of the fastest reference, seconds.
    pub(super) fn new(
        case: &Case,
        measured: &Measured,
        reference_s: Option<f64>,
        runs: u32,
        file_system: &str,
        machine: &str,
    ) -> Self {
        let run = &measured.median;
        let rate = |count: u64| count as f64 / run.seconds;
        let times = &measured.times;
        let parts = run.parts.iter().map(|(name, seconds)| format!("{name} {seconds:.3}"));
        Self {
            experiment: case.experiment,
            contender: measured.contender,
            plan: case.plan,
            group_bytes: case.group_bytes,
            durability: case.durability,
            objects: case.objects,
            rows: case.rows,
            groups: case.groups,
            bytes: case.bytes,
            seconds: run.seconds,
            seconds_min: measured.seconds_min,
            seconds_max: measured.seconds_max,
            groups_per_s: rate(case.groups),
            mb_per_s: rate(case.bytes) / 1e6,
            rows_per_s: rate(case.rows),
            sync_us_p50: times.sync.quantile_ms(0.5) * 1e3,
            sync_us_p99: times.sync.quantile_ms(0.99) * 1e3,
            group_us_p50: times.group.quantile_ms(0.5) * 1e3,
            group_us_p99: times.group.quantile_ms(0.99) * 1e3,
            ratio: reference_s.map(|seconds| seconds / run.seconds),
            parts: parts.collect::<Vec<_>>().join(", "),
            hash: run.hash.clone(),
            runs,
            file_system: file_system.to_owned(),
            machine: machine.to_owned(),
        }
    }

    /// The parameter that varies between the rows of an experiment.
    pub(super) fn size(&self) -> String {
        match (self.group_bytes, self.objects) {
            (Some(bytes), None) => byte_text(bytes),
            (_, Some(objects)) => objects.to_string(),
            (None, None) => String::new(),
        }
    }
}

/// A number above 0, or a dash.
fn number(value: f64, digits: usize) -> String {
    if value > 0.0 { format!("{value:.digits$}") } else { "-".into() }
}

impl ResultRow for Row {
    const COLUMNS: &'static [Column<Self>] = &[
        Column { title: "plan", width: 7, cell: |row| row.plan.unwrap_or("-").to_owned() },
        Column { title: "size", width: 8, cell: Row::size },
        Column {
            title: "level",
            width: 7,
            cell: |row| row.durability.map_or_else(|| "-".into(), |level| value_name(&level)),
        },
        Column { title: "", width: 8, cell: |row| row.contender.name().to_owned() },
        Column { title: "s", width: 7, cell: |row| format!("{:.3}", row.seconds) },
        Column { title: "groups/s", width: 8, cell: |row| number(row.groups_per_s, 0) },
        Column { title: "MB/s", width: 6, cell: |row| format!("{:.0}", row.mb_per_s) },
        Column { title: "M rows/s", width: 8, cell: |row| number(row.rows_per_s / 1e6, 2) },
        Column { title: "sync us", width: 7, cell: |row| number(row.sync_us_p50, 0) },
        Column { title: "p99", width: 6, cell: |row| number(row.sync_us_p99, 0) },
        Column { title: "group us", width: 8, cell: |row| number(row.group_us_p50, 0) },
        Column { title: "p99", width: 6, cell: |row| number(row.group_us_p99, 0) },
        Column { title: "ratio", width: 6, cell: |row| number(row.ratio.unwrap_or(0.0), 2) },
        Column { title: "parts", width: 0, cell: |row| row.parts.clone() },
    ];

    fn backend(&self) -> &'static str {
        self.contender.name()
    }

    fn case(&self) -> String {
        let plan = self.plan.unwrap_or("-");
        format!("{} {plan} {} {:?}", value_name(&self.experiment), self.size(), self.durability)
    }

    fn answer_hash(&self) -> &str {
        &self.hash
    }
}
