//! The summary at the end of a report: rows by outcome, reasons of refusal, and the first bad rows
//! with their number in the file.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use shoal_client::{AckTotals, ServerError, v1};
use shoal_service::json::fleet::counts_json;

use super::file_rows::RowBatch;

/// A report from its first message to its last acknowledgement.
#[derive(Clone, Debug)]
pub struct ReportSummary {
    fleet: String,
    /// Number of rows sent before each message. The first entry is for message 1.
    rows_before: Vec<u64>,
    rows_sent: u64,
    unreadable: u64,
    unreadable_shown: Vec<String>,
    totals: AckTotals,
    elapsed: Duration,
    /// For an import: the number of rows that the history does not keep.
    not_kept: Option<u64>,
}

impl ReportSummary {
    /// For a new report to `fleet`.
    #[must_use]
    pub fn new(fleet: &str) -> Self {
        Self {
            fleet: fleet.to_owned(),
            rows_before: Vec::new(),
            rows_sent: 0,
            unreadable: 0,
            unreadable_shown: Vec::new(),
            totals: AckTotals::default(),
            elapsed: Duration::ZERO,
            not_kept: None,
        }
    }

    /// Counts the next message, which has this many rows.
    pub fn sent(&mut self, rows: usize) {
        self.rows_before.push(self.rows_sent);
        self.rows_sent += rows as u64;
    }

    /// Rows sent so far.
    #[must_use]
    pub fn rows_sent(&self) -> u64 {
        self.rows_sent
    }

    /// Counts the rows of a batch that could not be read.
    pub fn unreadable(&mut self, batch: &RowBatch) {
        self.unreadable += batch.unreadable;
        self.unreadable_shown.extend(batch.unreadable_shown.iter().cloned());
    }

    /// Takes the sums of all acknowledgements.
    pub fn finish(&mut self, totals: AckTotals, elapsed: Duration) {
        (self.totals, self.elapsed) = (totals, elapsed);
    }

    /// The last epoch of an acknowledgement, if there is one.
    #[must_use]
    pub fn last_epoch(&self) -> Option<u64> {
        (self.totals.epoch > 0).then_some(self.totals.epoch)
    }

    /// Takes the number of rows that are older than what the history keeps.
    pub fn not_kept(&mut self, rows: u64) {
        self.not_kept = Some(rows);
    }

    /// Whether a row was refused, a message failed or a row could not be read.
    #[must_use]
    pub fn is_partly_refused(&self) -> bool {
        self.unreadable > 0 || self.totals.is_partly_refused()
    }

    /// Number of a refused row among those sent, from 1.
    fn row_number(&self, row: &v1::RefusedRow) -> u64 {
        let message = usize::try_from(row.message).unwrap_or(usize::MAX).wrapping_sub(1);
        self.rows_before.get(message).copied().unwrap_or(0) + u64::from(row.row) + 1
    }

    fn rows_per_s(&self) -> f64 {
        self.rows_sent as f64 / self.elapsed.as_secs_f64().max(1e-9)
    }

    /// For scripts: one JSON object.
    #[must_use]
    pub fn json(&self) -> Value {
        let totals = &self.totals;
        let by_reason: serde_json::Map<String, Value> = totals
            .refused_by_reason
            .iter()
            .map(|(reason, rows)| (reason_name(*reason), json!(rows)))
            .collect();
        let refused_rows: Vec<Value> = totals
            .refused_rows
            .iter()
            .map(|row| {
                let (number, reason) = (self.row_number(row), reason_name(row.reason));
                json!({ "row": number, "field": row.field, "reason": reason })
            })
            .collect();
        let failed: Vec<Value> = totals
            .failed
            .iter()
            .map(|failed| {
                let (reason, detail) = reason_and_detail(failed);
                json!({ "message": failed.message, "reason": reason, "detail": detail })
            })
            .collect();
        let mut document = json!({
            "fleet": self.fleet,
            "rows_sent": self.rows_sent,
            "rows": counts_json(&totals.rows),
            "unreadable_rows": self.unreadable,
            "refused_by_reason": by_reason,
            "refused_rows": refused_rows,
            "messages": totals.messages,
            "failed_messages": totals.failed_messages,
            "failed": failed,
            "duplicate_messages": totals.duplicate_messages,
            "epoch": totals.epoch,
            "seconds": self.elapsed.as_secs_f64(),
            "rows_per_s": self.rows_per_s(),
        });
        if let Some(rows) = self.not_kept {
            document["rows_not_kept"] = json!(rows);
        }
        document
    }

    /// For people: a few lines.
    #[must_use]
    pub fn text(&self) -> String {
        let (totals, mut text) = (&self.totals, String::new());
        let rows = &totals.rows;
        let (seconds, rate) = (self.elapsed.as_secs_f64(), self.rows_per_s());
        let written = writeln!(
            text,
            "{} rows to fleet {} in {seconds:.2} s ({rate:.0} rows/s), epoch {}\n  applied {}, \
             duplicate {}, superseded {}, late {}, refused {}",
            self.rows_sent,
            self.fleet,
            totals.epoch,
            rows.applied,
            rows.duplicate,
            rows.superseded,
            rows.late,
            rows.refused
        );
        let written = written.and_then(|()| self.write_expired(&mut text));
        let written = written.and_then(|()| self.write_ahead(&mut text));
        let written = written.and_then(|()| match self.not_kept {
            Some(rows @ 1..) => {
                writeln!(text, "  not kept, older than the retention of the history: {rows}")
            }
            _ => Ok(()),
        });
        let written = written.and_then(|()| self.write_refusals(&mut text));
        written.expect("writing to a string does not fail");
        text
    }

    fn write_expired(&self, text: &mut String) -> std::fmt::Result {
        match self.totals.rows.expired {
            0 => Ok(()),
            rows => writeln!(text, "  expired, older than the time to live of the fleet: {rows}"),
        }
    }

    fn write_ahead(&self, text: &mut String) -> std::fmt::Result {
        match self.totals.rows.ahead {
            0 => Ok(()),
            rows => {
                writeln!(text, "  ahead of the event clock, which does not follow them: {rows}")
            }
        }
    }

    fn write_refusals(&self, text: &mut String) -> std::fmt::Result {
        let totals = &self.totals;
        for (reason, rows) in &totals.refused_by_reason {
            writeln!(text, "  refused for {}: {rows}", reason_name(*reason))?;
        }
        for row in &totals.refused_rows {
            let (number, reason) = (self.row_number(row), reason_name(row.reason));
            writeln!(text, "    row {number}, {}: {reason}", row.field)?;
        }
        let shown_max = AckTotals::LISTED_MAX as u64;
        if totals.rows.refused > shown_max {
            writeln!(text, "    and {} more", totals.rows.refused - shown_max)?;
        }
        if totals.failed_messages > 0 {
            writeln!(text, "  messages refused whole: {}", totals.failed_messages)?;
        }
        for failed in &totals.failed {
            let (reason, detail) = reason_and_detail(failed);
            writeln!(text, "    message {}: {detail} [{reason}]", failed.message)?;
        }
        if self.unreadable > 0 {
            writeln!(text, "  rows that cannot be read: {}", self.unreadable)?;
        }
        self.unreadable_shown.iter().try_for_each(|shown| writeln!(text, "    {shown}"))
    }
}

/// The stable reason of a failed message, and its text for people.
fn reason_and_detail(failed: &v1::FailedMessage) -> (String, String) {
    let error = failed.status.as_ref().map(ServerError::from);
    error.map_or_else(Default::default, |error| (error.reason_name, error.message))
}

/// The name of a reason in lower case, such as `outside_space`.
fn reason_name(reason: i32) -> String {
    match v1::RefusalReason::try_from(reason) {
        Ok(reason) => {
            let name = reason.as_str_name();
            name.strip_prefix("REFUSAL_REASON_").unwrap_or(name).to_lowercase()
        }
        Err(_) => format!("reason_{reason}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_rows_are_numbered_through_all_messages() {
        let mut summary = ReportSummary::new("default");
        summary.sent(100);
        summary.sent(50);
        let reason = v1::RefusalReason::Heading as i32;
        let row = v1::RefusedRow { message: 2, row: 4, field: "heading_deg".to_owned(), reason };
        let totals = AckTotals {
            rows: v1::RowCounts { applied: 146, expired: 3, refused: 1, ..Default::default() },
            refused_by_reason: [(reason, 1), (77, 0)].into(),
            refused_rows: vec![row],
            ..Default::default()
        };
        summary.finish(totals, Duration::from_millis(500));
        let text = summary.text();
        assert!(text.contains("row 105, heading_deg: heading"), "{text}");
        assert!(
            text.contains("  expired, older than the time to live of the fleet: 3\n"),
            "{text}"
        );
        assert!(text.contains("150 rows") && text.contains("300 rows/s"), "{text}");
        let document = summary.json();
        assert_eq!(document["refused_by_reason"]["heading"], 1);
        assert_eq!(document["refused_by_reason"]["reason_77"], 0);
        assert_eq!(document["rows"]["expired"], 3);
        assert_eq!(document["refused_rows"][0]["row"], 105);
        assert!(summary.is_partly_refused());
    }
}
