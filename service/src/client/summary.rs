//! What is said at the end of a report?
//!
//! Counts by what became of the rows, reasons of refusal, and the first bad rows with their number
//! in the file, so that a person can go and look.

use std::fmt::Write as _;
use std::time::Duration;

use serde_json::{Value, json};
use shoal_proto::v1;

use super::rows::RowBatch;
use super::tally::{SHOWN_MAX, Tally, counts_json, reason_name};

/// A report from its first message to its last acknowledgement.
#[derive(Clone, Debug)]
pub struct Summary {
    fleet: String,
    /// Rows sent before each message: message 1 is the first.
    rows_before: Vec<u64>,
    rows_sent: u64,
    unreadable: u64,
    unreadable_shown: Vec<String>,
    tally: Tally,
    elapsed: Duration,
}

impl Summary {
    /// Of a report to `fleet` that has not begun.
    #[must_use]
    pub fn new(fleet: &str) -> Self {
        Self {
            fleet: fleet.to_owned(),
            rows_before: Vec::new(),
            rows_sent: 0,
            unreadable: 0,
            unreadable_shown: Vec::new(),
            tally: Tally::default(),
            elapsed: Duration::ZERO,
        }
    }

    /// The next message goes out with this many rows.
    pub fn sent(&mut self, rows: usize) {
        self.rows_before.push(self.rows_sent);
        self.rows_sent += rows as u64;
    }

    /// Rows sent so far.
    #[must_use]
    pub fn rows_sent(&self) -> u64 {
        self.rows_sent
    }

    /// Takes note of rows that could not be read.
    pub fn unreadable(&mut self, batch: &RowBatch) {
        self.unreadable += batch.unreadable;
        self.unreadable_shown.extend(batch.unreadable_shown.iter().cloned());
    }

    /// Everything was acknowledged.
    pub fn finish(&mut self, tally: Tally, elapsed: Duration) {
        self.tally = tally;
        self.elapsed = elapsed;
    }

    /// True when a row did not get in by its own fault.
    #[must_use]
    pub fn is_partly_refused(&self) -> bool {
        self.unreadable > 0 || self.tally.is_partly_refused()
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
        let tally = &self.tally;
        let by_reason: serde_json::Map<String, Value> = tally
            .refused_by_reason
            .iter()
            .map(|(reason, rows)| (reason_name(*reason), json!(rows)))
            .collect();
        let refused_rows: Vec<Value> = tally
            .refused_rows
            .iter()
            .map(|row| {
                let (number, reason) = (self.row_number(row), reason_name(row.reason));
                json!({ "row": number, "field": row.field, "reason": reason })
            })
            .collect();
        let failed: Vec<Value> = tally
            .failed
            .iter()
            .map(|failed| {
                let (reason, detail) = reason_and_detail(failed);
                json!({ "message": failed.message, "reason": reason, "detail": detail })
            })
            .collect();
        json!({
            "fleet": self.fleet,
            "rows_sent": self.rows_sent,
            "rows": counts_json(&tally.rows),
            "unreadable_rows": self.unreadable,
            "refused_by_reason": by_reason,
            "refused_rows": refused_rows,
            "messages": tally.messages,
            "failed_messages": tally.failed_messages,
            "failed": failed,
            "duplicate_messages": tally.duplicate_messages,
            "epoch": tally.epoch,
            "seconds": self.elapsed.as_secs_f64(),
            "rows_per_s": self.rows_per_s(),
        })
    }

    /// For people: a few lines.
    #[must_use]
    pub fn text(&self) -> String {
        let (tally, mut text) = (&self.tally, String::new());
        let rows = &tally.rows;
        let (seconds, rate) = (self.elapsed.as_secs_f64(), self.rows_per_s());
        let written = writeln!(
            text,
            "{} rows to fleet {} in {seconds:.2} s ({rate:.0} rows/s), epoch {}\n  applied {}, \
             duplicate {}, superseded {}, late {}, refused {}",
            self.rows_sent,
            self.fleet,
            tally.epoch,
            rows.applied,
            rows.duplicate,
            rows.superseded,
            rows.late,
            rows.refused
        );
        let written = written.and_then(|()| self.write_refusals(&mut text));
        written.expect("writing to a string does not fail");
        text
    }

    fn write_refusals(&self, text: &mut String) -> std::fmt::Result {
        let tally = &self.tally;
        for (reason, rows) in &tally.refused_by_reason {
            writeln!(text, "  refused for {}: {rows}", reason_name(*reason))?;
        }
        for row in &tally.refused_rows {
            let (number, reason) = (self.row_number(row), reason_name(row.reason));
            writeln!(text, "    row {number}, {}: {reason}", row.field)?;
        }
        if tally.rows.refused > SHOWN_MAX as u64 {
            writeln!(text, "    and {} more", tally.rows.refused - SHOWN_MAX as u64)?;
        }
        if tally.failed_messages > 0 {
            writeln!(text, "  messages refused whole: {}", tally.failed_messages)?;
        }
        for failed in &tally.failed {
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
fn reason_and_detail(failed: &v1::FailedMessage) -> (String, &str) {
    let status = failed.status.as_ref();
    let details = status.map(tonic_types::RpcStatusExt::get_error_details).unwrap_or_default();
    let reason = details.error_info().map_or_else(String::new, |info| info.reason.clone());
    (reason, status.map_or("", |status| &status.message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_rows_are_numbered_through_all_messages() {
        let mut summary = Summary::new("default");
        summary.sent(100);
        summary.sent(50);
        let reason = v1::RefusalReason::Heading as i32;
        let row = v1::RefusedRow { message: 2, row: 4, field: "heading_deg".to_owned(), reason };
        let mut tally = Tally::default();
        tally.add(v1::ReportAck {
            last_message: 2,
            rows: Some(v1::RowCounts { applied: 149, refused: 1, ..Default::default() }),
            refused_by_reason: vec![v1::RefusedCount { reason, rows: 1 }],
            refused_rows: vec![row],
            ..Default::default()
        });
        summary.finish(tally, Duration::from_millis(500));
        let text = summary.text();
        assert!(text.contains("row 105, heading_deg: heading"), "{text}");
        assert!(text.contains("150 rows") && text.contains("300 rows/s"), "{text}");
        let document = summary.json();
        assert_eq!(document["refused_by_reason"]["heading"], 1);
        assert_eq!(document["refused_rows"][0]["row"], 105);
        assert!(summary.is_partly_refused());
    }
}
