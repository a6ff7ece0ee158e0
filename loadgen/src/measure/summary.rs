//! The results of a run, as a table for people and as JSON for scripts; the keys of the JSON are a
//! contract.
//!
//! Rates cover the time from the start of the clock to the last ack or answer. Rows sent before the
//! clock starts count only in `preloaded_rows`.

use std::fmt::Write as _;
use std::path::Path;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::latency::Percentiles;
use super::progress::thousands;
use crate::error::LoadError;
use crate::subscription::Followed;

/// The results of a run.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Accepted rows per second.
    pub updates_per_s: f64,
    /// Queries answered per second.
    pub queries_per_s: f64,
    /// From the intended (at full speed: actual) send time of a message to its ack.
    pub ack_ms: Percentiles,
    /// From the intended (at full speed: actual) send time of a message to the end of its answers.
    pub query_ms: Percentiles,
    /// Rows refused.
    pub refused_rows: u64,
    /// Rows older than their object's record.
    pub late_rows: u64,
    /// Queries whose answers were compared with the oracle.
    pub verified_queries: u64,
    /// Answers and acks that were wrong.
    pub mismatches: u64,
    /// Blocks were encoded before the clock started.
    pub prepared: bool,

    /// From the actual send time of a message to its ack; excludes delays before sending.
    pub ack_from_send_ms: Percentiles,
    /// From the actual send time of a message to the end of its answers.
    pub query_from_send_ms: Percentiles,
    /// Name of the workload.
    pub workload: String,
    /// Number of objects requested. A replay has the objects of its file.
    pub objects: u64,
    /// Objects of the fleet at the end.
    pub fleet_objects: u64,
    /// Seed.
    pub seed: u64,
    /// Connections.
    pub connections: u32,
    /// `rows` or `block`.
    pub encoding: &'static str,
    /// `raw`, `fixes` or `planned`; nothing for rows.
    pub block_plan: Option<&'static str>,
    /// Rows of a message.
    pub batch_rows: u32,
    /// Ratio of rows to queries.
    pub update_query: String,
    /// Kinds of query by weight.
    pub query_mix: String,
    /// Side of a query window as a share of the side of the space.
    pub window: f64,
    /// Rows per second requested; 0: as fast as possible.
    pub rate: f64,
    /// Seconds from the start of the clock to the last ack.
    pub update_seconds: f64,
    /// Seconds from the start of the clock to the last answer.
    pub query_seconds: f64,
    /// Rows sent.
    pub sent_rows: u64,
    /// Rows that became their object's record.
    pub applied_rows: u64,
    /// Rows equal to their object's record.
    pub duplicate_rows: u64,
    /// Rows superseded in their own cycle.
    pub superseded_rows: u64,
    /// Rows older than the time to live.
    pub expired_rows: u64,
    /// Rows that were due before the end, but that the server did not accept in time.
    pub behind_rows: u64,
    /// Rows placed before the clock started.
    pub preloaded_rows: u64,
    /// Unreadable rows of a file.
    pub unreadable_rows: u64,
    /// Objects removed.
    pub removed_objects: u64,
    /// Removed objects with a new name.
    pub renamed_objects: u64,
    /// Messages sent.
    pub messages: u64,
    /// Bytes of an update on the wire, without the framing of gRPC.
    pub bytes_per_update: f64,
    /// Messages that failed as a whole.
    pub failed_messages: u64,
    /// Queries answered.
    pub queries: u64,
    /// Queries that failed.
    pub failed_queries: u64,
    /// Rows in all answers.
    pub answer_rows: u64,
    /// Acks and removals whose counts were compared with the oracle.
    pub verified_acks: u64,
    /// Answers selected for comparison whose epoch's changes are unknown.
    pub unverifiable_queries: u64,
    /// The results of questions about the past.
    #[serde(flatten)]
    pub past: PastCounts,
    /// The results of subscribers.
    #[serde(flatten)]
    pub followed: Followed,
    /// A signal ended the run early.
    pub interrupted: bool,
    /// Descriptions of the first mismatches and failures.
    pub problems: Vec<String>,
}

/// The results of questions about the past.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PastCounts {
    /// Questions answered.
    pub past_queries: u64,
    /// Questions that failed.
    pub failed_past_queries: u64,
    /// Rows in all answers.
    pub past_rows: u64,
    /// Time from the call to the end of the answer, for trajectories.
    pub trajectory_ms: Percentiles,
    /// The same for states as of a moment.
    pub as_of_ms: Percentiles,
    /// The same for passages.
    pub passed_ms: Percentiles,
    /// The same for replays.
    pub replay_ms: Percentiles,
    /// The same for densities.
    pub density_ms: Percentiles,
    /// Questions whose answers were compared with the oracle.
    pub verified_past_queries: u64,
}

impl Summary {
    /// Whether all queries were answered, no fault was found, and no signal ended the run.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let wrong = self.mismatches + self.failed_messages + self.failed_queries;
        let Followed { lost, repeated, misordered, .. } = self.followed;
        let wrong = wrong + lost + repeated + misordered + self.past.failed_past_queries;
        wrong == 0 && !self.interrupted && self.problems.is_empty()
    }

    /// The results as a table, followed by problems.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        let rate = |rate: f64| thousands(rate.round() as u64);
        let percentiles = Percentiles::to_string;
        let Self { workload, fleet_objects, connections, encoding, .. } = self;
        let prepared = if self.prepared { " prepared" } else { "" };
        let plan = self.block_plan.map_or_else(String::new, |plan| format!(" ({plan})"));
        let (batch, objects) = (thousands(self.batch_rows.into()), thousands(*fleet_objects));
        table.add_row([
            "workload".to_owned(),
            format!("{workload}, {objects} objects, seed {}", self.seed),
        ]);
        table.add_row([
            "sent as".to_owned(),
            format!("{connections} connections,{prepared} {encoding}{plan}, {batch} a message"),
        ]);
        table.add_row(["updates/s".to_owned(), rate(self.updates_per_s)]);
        table.add_row(["queries/s".to_owned(), rate(self.queries_per_s)]);
        table.add_row(["ack".to_owned(), percentiles(&self.ack_ms)]);
        table.add_row(["query".to_owned(), percentiles(&self.query_ms)]);
        if self.rate > 0.0 {
            let (ack, query) = (&self.ack_from_send_ms, &self.query_from_send_ms);
            table.add_row(["ack, once sent".to_owned(), percentiles(ack)]);
            table.add_row(["query, once sent".to_owned(), percentiles(query)]);
        }
        table.add_row(["rows".to_owned(), self.rows_line()]);
        table.add_row([
            "on the wire".to_owned(),
            format!("{:.2} bytes an update", self.bytes_per_update),
        ]);
        table.add_row([
            "queries".to_owned(),
            format!(
                "{} answered with {} rows, {} failed",
                thousands(self.queries),
                thousands(self.answer_rows),
                self.failed_queries
            ),
        ]);
        if self.verified_acks + self.verified_queries + self.unverifiable_queries > 0 {
            table.add_row([
                "verified".to_owned(),
                format!(
                    "{} queries, {} acks, {} could not be; {} mismatches",
                    thousands(self.verified_queries),
                    thousands(self.verified_acks),
                    self.unverifiable_queries,
                    self.mismatches
                ),
            ]);
        }
        if self.past.past_queries + self.past.failed_past_queries > 0 {
            table.add_rows(self.past.rows());
        }
        if self.followed.subscriptions > 0 {
            table.add_rows(self.followed.rows());
        }
        let mut text = table.to_string();
        for problem in &self.problems {
            // Writing to a string cannot fail.
            let _ = write!(text, "\nproblem: {problem}");
        }
        text
    }

    /// The rows by outcome.
    fn rows_line(&self) -> String {
        let counts = [
            (self.sent_rows, "sent"),
            (self.applied_rows, "applied"),
            (self.duplicate_rows, "duplicate"),
            (self.superseded_rows, "superseded"),
            (self.late_rows, "late"),
            (self.expired_rows, "expired"),
            (self.refused_rows, "refused"),
            (self.behind_rows, "behind the rate"),
            (self.preloaded_rows, "placed before"),
            (self.removed_objects, "removed"),
            (self.renamed_objects, "renamed"),
        ];
        let shown =
            counts.iter().enumerate().filter(|(place, (count, _))| *place < 2 || *count > 0);
        let shown: Vec<_> =
            shown.map(|(_, (count, name))| format!("{} {name}", thousands(*count))).collect();
        shown.join(", ")
    }
}

/// Writes results as one JSON object.
///
/// # Errors
/// [`LoadError::Output`].
pub fn write_json(results: &impl Serialize, file: &Path) -> Result<(), LoadError> {
    let mut text = serde_json::to_string_pretty(results)
        .map_err(|error| LoadError::Task(format!("the results are no JSON: {error}")))?;
    text.push('\n');
    std::fs::write(file, text).map_err(|source| LoadError::Output { file: file.to_owned(), source })
}

impl PastCounts {
    /// Rows of the table.
    fn rows(&self) -> [[String; 2]; 6] {
        let counts = format!(
            "{} answered with {} rows, {} failed, {} verified",
            thousands(self.past_queries),
            thousands(self.past_rows),
            self.failed_past_queries,
            thousands(self.verified_past_queries)
        );
        [
            ["past".to_owned(), counts],
            ["trajectory".to_owned(), self.trajectory_ms.to_string()],
            ["as of".to_owned(), self.as_of_ms.to_string()],
            ["passed".to_owned(), self.passed_ms.to_string()],
            ["replay".to_owned(), self.replay_ms.to_string()],
            ["density".to_owned(), self.density_ms.to_string()],
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_promised_keys_are_there() {
        let json = serde_json::to_value(Summary::default()).unwrap();
        for key in [
            "updates_per_s",
            "queries_per_s",
            "refused_rows",
            "late_rows",
            "verified_queries",
            "mismatches",
            "prepared",
            "bytes_per_update",
            "subscriptions",
            "events_per_s",
            "lost",
            "repeated",
            "misordered",
        ] {
            assert!(!json[key].is_null(), "{key}");
        }
        for kind in ["ack_ms", "query_ms", "event_ms"] {
            for key in ["p50", "p99", "p999", "max"] {
                assert!(json[kind][key].is_number(), "{kind}.{key}");
            }
        }
    }

    #[test]
    fn what_is_wrong_is_not_good() {
        assert!(Summary::default().is_good());
        let one = |change: fn(&mut Summary)| {
            let mut summary = Summary::default();
            change(&mut summary);
            summary.is_good()
        };
        assert!(!one(|summary| summary.mismatches = 1));
        assert!(!one(|summary| summary.failed_messages = 1));
        assert!(!one(|summary| summary.failed_queries = 1));
        assert!(!one(|summary| summary.interrupted = true));
        assert!(!one(|summary| summary.followed.lost = 1));
        assert!(!one(|summary| summary.followed.repeated = 1));
        assert!(!one(|summary| summary.followed.misordered = 1));
        assert!(one(|summary| summary.refused_rows = 1));
    }

    #[test]
    fn the_table_tells_rates_and_problems() {
        let summary = Summary {
            updates_per_s: 1_234_567.4,
            block_plan: Some("planned"),
            bytes_per_update: 7.125,
            workload: "uniform".to_owned(),
            problems: vec!["object 5 is missing".to_owned()],
            ..Summary::default()
        };
        let table = summary.table();
        assert!(table.contains("1,234,567") && table.contains("problem: object 5"), "{table}");
        assert!(table.contains("(planned)") && table.contains("7.12 bytes an update"), "{table}");
    }
}
