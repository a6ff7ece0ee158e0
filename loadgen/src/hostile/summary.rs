//! The results of attacks, as a table for people and as JSON for scripts; the keys of the JSON are
//! a contract.

use std::fmt::Write as _;

use comfy_table::{Table, presets};
use serde::Serialize;

use super::attacker::AttackReport;
use super::http_client::HttpRow;
use crate::measure::{Percentiles, Summary};

/// The results of `shoal-loadgen hostile`.
#[derive(Clone, Debug, Default, Serialize)]
pub struct HostileSummary {
    /// Objects of the fleet.
    pub objects: u64,
    /// Seconds of each attack.
    pub seconds: f64,
    /// The largest permitted 99th percentile, if there is one.
    pub p99_max_ms: Option<f64>,
    /// The results of the well-behaved client without an attack, then during each attack.
    pub rows: Vec<AttackRow>,
    /// A signal ended the command early.
    pub interrupted: bool,
    /// Failures of the command itself.
    pub problems: Vec<String>,
}

/// The results of the well-behaved client during one attack.
#[derive(Clone, Debug, Default, Serialize)]
pub struct AttackRow {
    /// Name of the attack; `none` for the client alone.
    pub attack: String,
    /// Reports acknowledged.
    pub acks: u64,
    /// From the intended send time of a report to its ack.
    pub ack_ms: Percentiles,
    /// Rows accepted per second.
    pub rows_per_s: f64,
    /// Queries answered.
    pub queries: u64,
    /// From the intended send time of a query to the end of its answer.
    pub query_ms: Percentiles,
    /// Reports, rows and queries of the client that were refused.
    pub refused: u64,
    /// Rows and queries that were due, but not sent, because too many were unanswered.
    pub unsent: u64,
    /// The error that ended the client's measurement early, if any.
    pub broken: Option<String>,
    /// Causes of the first refusals.
    pub refusals: Vec<String>,
    /// The client of the HTTP address, if there is one.
    pub http: Option<HttpRow>,
    /// The attacker's side.
    pub attacker: Option<AttackReport>,
    /// The server's resident memory, if its process is known.
    pub server_mib: Option<ServerMib>,
}

/// Resident memory of the server, MiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct ServerMib {
    /// Before the attack.
    pub before: u64,
    /// The maximum during the attack.
    pub max: u64,
    /// After the attack and the `--rest` seconds without load that follow it.
    pub after: u64,
}

impl AttackRow {
    /// Stores the results of the client. A complete client sends at least `queries_due` queries.
    pub fn set_client(&mut self, summary: Summary, queries_due: u64) {
        let queries_sent = summary.queries + summary.failed_queries;
        self.unsent = summary.behind_rows + queries_due.saturating_sub(queries_sent);
        self.acks = summary.messages;
        self.rows_per_s = summary.updates_per_s;
        self.ack_ms = summary.ack_ms;
        self.queries = summary.queries;
        self.query_ms = summary.query_ms;
        self.refused = summary.failed_messages + summary.refused_rows + summary.failed_queries;
        self.refusals = summary.problems;
    }

    fn is_good(&self, p99_max_ms: Option<f64>) -> bool {
        let http = self.http.as_ref();
        let refused = self.refused + http.map_or(0, |http| http.refused);
        let p99 = self.ack_ms.p99.max(self.query_ms.p99).max(http.map_or(0.0, |http| http.ms.p99));
        refused == 0 && self.broken.is_none() && p99_max_ms.is_none_or(|max| p99 <= max)
    }

    /// The cells of this row of the table.
    fn cells(&self) -> [String; 10] {
        let absent = || "-".to_owned();
        let ms = |count: u64, of: &Percentiles| match count {
            0 => absent(),
            _ => format!("{:.1}/{:.1}/{:.1}", of.p50, of.p99, of.max),
        };
        let attacker = self.attacker.as_ref();
        let counts = |count: fn(&AttackReport) -> u64| {
            attacker.map_or_else(absent, |report| count(report).to_string())
        };
        let cpu = attacker.and_then(|report| report.cpu_per_s);
        let server = self.server_mib;
        [
            self.attack.clone(),
            ms(self.acks, &self.ack_ms),
            format!("{:.0}", self.rows_per_s),
            ms(self.queries, &self.query_ms),
            self.http.as_ref().map_or_else(absent, |http| ms(http.answered, &http.ms)),
            match &self.broken {
                Some(_) => "broken".to_owned(),
                None => {
                    (self.refused + self.http.as_ref().map_or(0, |http| http.refused)).to_string()
                }
            },
            cpu.map_or_else(absent, |cpu| format!("{cpu:.2}")),
            counts(|report| report.answered),
            counts(|report| report.refused),
            server.map_or_else(absent, |ServerMib { before, max, after }| {
                format!("{before}/{max}/{after}")
            }),
        ]
    }

    /// Lines below the table.
    fn notes(&self, text: &mut String) {
        let name = &self.attack;
        // Writing to a string cannot fail.
        if let Some(broken) = &self.broken {
            let _ = write!(text, "\nproblem: {name}: the client's connection broke: {broken}");
        }
        if self.unsent > 0 {
            let unsent = self.unsent;
            let _ = write!(text, "\n{name}: the client had to leave out {unsent} rows and queries");
        }
        if let Some(refusal) = self.http.as_ref().and_then(|http| http.first_refusal.as_ref()) {
            let _ = write!(text, "\nproblem: {name}: HTTP: {refusal}");
        }
        for refusal in &self.refusals {
            let _ = write!(text, "\nproblem: {name}: {refusal}");
        }
        let refusal = self.attacker.as_ref().and_then(|report| report.first_refusal.as_ref());
        if let Some(refusal) = refusal {
            let _ = write!(text, "\n{name}: the attacker was refused: {refusal}");
        }
    }
}

impl HostileSummary {
    /// Whether the client was served during every attack, and within the permitted time if there is
    /// a limit.
    #[must_use]
    pub fn is_good(&self) -> bool {
        let are_rows_good = self.rows.iter().all(|row| row.is_good(self.p99_max_ms));
        are_rows_good && !self.interrupted && self.problems.is_empty()
    }

    /// The results as a table, followed by problems and the attackers' refusals.
    #[must_use]
    pub fn table(&self) -> String {
        let mut table = Table::new();
        table.load_style(presets::NOTHING);
        table.set_header([
            "attack",
            "acks p50/p99/max ms",
            "rows/s",
            "queries p50/p99/max ms",
            "HTTP p50/p99/max ms",
            "refused",
            "attacker CPU s/s",
            "its answered",
            "its refused",
            "server MiB before/max/after",
        ]);
        table.add_rows(self.rows.iter().map(AttackRow::cells));
        let mut text = table.to_string();
        for row in &self.rows {
            row.notes(&mut text);
        }
        for problem in &self.problems {
            let _ = write!(text, "\nproblem: {problem}");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good(change: fn(&mut HostileSummary)) -> bool {
        let row = AttackRow {
            ack_ms: Percentiles { p99: 20.0, ..Percentiles::default() },
            query_ms: Percentiles { p99: 30.0, ..Percentiles::default() },
            ..AttackRow::default()
        };
        let mut summary = HostileSummary { rows: vec![row], ..HostileSummary::default() };
        change(&mut summary);
        summary.is_good()
    }

    #[test]
    fn refusals_and_breaks_of_the_client_are_not_good() {
        assert!(good(|_| ()));
        assert!(!good(|summary| summary.rows[0].refused = 1));
        assert!(!good(|summary| summary.rows[0].broken = Some("reset".to_owned())));
        assert!(!good(|summary| summary.interrupted = true));
        assert!(!good(|summary| summary.problems.push("no attacker".to_owned())));
        let refused = AttackReport { refused: 9, ..AttackReport::default() };
        assert!(good(|summary| summary.rows[0].attacker = Some(AttackReport::default())));
        let mut row = AttackRow { attacker: Some(refused), ..AttackRow::default() };
        assert!(row.is_good(None), "refusals of the attacker are as they should be");
        row.http = Some(HttpRow { refused: 1, ..HttpRow::default() });
        assert!(!row.is_good(None));
        row.http = Some(HttpRow::default());
        assert!(row.is_good(None));
        row.set_client(Summary { refused_rows: 1, queries: 7, ..Summary::default() }, 9);
        assert!(!row.is_good(None));
        assert_eq!(row.unsent, 2);
    }

    #[test]
    fn time_counts_only_with_a_limit() {
        assert!(good(|summary| summary.p99_max_ms = Some(30.0)));
        assert!(!good(|summary| summary.p99_max_ms = Some(29.0)));
    }
}
