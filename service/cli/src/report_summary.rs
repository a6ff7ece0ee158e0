//! The summary at the end of a report: rows by outcome, reasons of refusal, the first bad rows with
//! their place and value, and how the file was understood.

use std::fmt::Write as _;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use serde_json::{Value, json};
use shoal_client::{AckTotals, ServerError, v1};
use shoal_service::json::fleet::counts_json;

use super::input::{RowBatch, SourceSummary};
use super::refusal_finder::{RefusalFinder, RefusedFix};

/// A report from its first message to its last acknowledgement.
#[derive(Clone, Debug)]
pub struct ReportSummary {
    fleet: String,
    refused: RefusalFinder,
    unreadable: u64,
    unreadable_shown: Vec<String>,
    totals: AckTotals,
    /// How the file was understood; `None` for a position from flags.
    source: Option<SourceSummary>,
    elapsed: Duration,
    /// True if a signal stopped the report before the end of its file.
    is_stopped: bool,
    /// For an import: the number of rows that the history does not keep.
    not_kept: Option<u64>,
}

impl ReportSummary {
    /// For a new report to `fleet`.
    #[must_use]
    pub fn new(fleet: &v1::Fleet) -> Self {
        Self {
            fleet: fleet.name.clone(),
            refused: RefusalFinder::new(fleet),
            unreadable: 0,
            unreadable_shown: Vec::new(),
            totals: AckTotals::default(),
            source: None,
            elapsed: Duration::ZERO,
            is_stopped: false,
            not_kept: None,
        }
    }

    /// Takes the rows of the next message.
    pub fn sent(&mut self, batch: &Arc<RowBatch>, rows: Range<usize>) {
        self.refused.sent(batch, rows);
    }

    /// Finds the rows that the acknowledgements so far refuse.
    pub fn settle(&mut self, totals: &AckTotals) {
        self.refused.settle(totals);
    }

    /// Rows sent so far.
    #[must_use]
    pub fn rows_sent(&self) -> u64 {
        self.refused.rows_sent()
    }

    /// Takes a signal: the rest of the file is not sent.
    pub fn stop(&mut self) {
        self.is_stopped = true;
    }

    /// Whether a signal stopped the report before the end of its file.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Counts the rows of a batch that could not be read.
    pub fn unreadable(&mut self, batch: &RowBatch) {
        self.unreadable += batch.unreadable;
        self.unreadable_shown.extend(batch.unreadable_shown.iter().cloned());
    }

    /// Takes the sums of all acknowledgements, and how the file was understood.
    pub fn finish(&mut self, totals: AckTotals, source: Option<SourceSummary>, elapsed: Duration) {
        self.refused.settle(&totals);
        (self.totals, self.source, self.elapsed) = (totals, source, elapsed);
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

    fn rows_per_s(&self) -> f64 {
        self.rows_sent() as f64 / self.elapsed.as_secs_f64().max(1e-9)
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
        let refused_rows: Vec<Value> =
            self.refused.found().iter().map(|row| self.refused_json(row)).collect();
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
            "rows_sent": self.rows_sent(),
            "rows": counts_json(&totals.rows),
            "unreadable_rows": self.unreadable,
            "unreadable": self.unreadable_shown,
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
        if self.is_stopped {
            document["stopped"] = json!(true);
        }
        if let Some(rows) = self.not_kept {
            document["rows_not_kept"] = json!(rows);
        }
        if let Some(source) = &self.source {
            document["measures_dropped"] = json!(source.dropped.count);
            document["dropped"] = json!(source.dropped.shown);
            document["notes"] = json!(source.notes);
        }
        document
    }

    fn refused_json(&self, row: &RefusedFix) -> Value {
        let mut document = json!({
            "row": row.row,
            "field": row.field,
            "reason": reason_name(row.reason),
            "value": row.value,
            "detail": row.detail,
        });
        if let (Some(source), Some(place)) = (&self.source, row.place) {
            document[format!("file_{}", source.place)] = json!(place);
            document["column"] = json!(source.name_of(&row.field));
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
            self.rows_sent(),
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
        let written = written.and_then(|()| match self.is_stopped {
            true => writeln!(text, "  stopped by a signal: what follows in the file was not sent"),
            false => Ok(()),
        });
        let written = written.and_then(|()| self.write_duplicates(&mut text));
        let written = written.and_then(|()| match self.not_kept {
            Some(rows @ 1..) => {
                writeln!(text, "  not kept, older than the retention of the history: {rows}")
            }
            _ => Ok(()),
        });
        let written = written.and_then(|()| self.write_refusals(&mut text));
        let written = written.and_then(|()| self.write_source(&mut text));
        written.expect("writing to a string does not fail");
        text
    }

    /// Messages that the server had applied under the same producer; their rows are in no count.
    fn write_duplicates(&self, text: &mut String) -> std::fmt::Result {
        let AckTotals { duplicate_messages, failed_messages, .. } = self.totals;
        if duplicate_messages == 0 {
            return Ok(());
        }
        write!(text, "  sent before by this producer and not applied again: ")?;
        if failed_messages == 0 {
            let rows = self.rows_sent().saturating_sub(self.totals.rows_total());
            return writeln!(text, "{rows} rows in {duplicate_messages} messages");
        }
        writeln!(text, "{duplicate_messages} messages")
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
        for row in self.refused.found() {
            writeln!(
                text,
                "    {}: {}",
                self.place_of(row),
                row.explanation(reason_name(row.reason))
            )?;
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
        write_shown(text, &self.unreadable_shown, self.unreadable)
    }

    fn write_source(&self, text: &mut String) -> std::fmt::Result {
        let Some(source) = &self.source else { return Ok(()) };
        let dropped = &source.dropped;
        if dropped.count > 0 {
            writeln!(text, "  measures dropped, which cannot be stored: {}", dropped.count)?;
            write_shown(text, &dropped.shown, dropped.count)?;
        }
        source.notes.iter().try_for_each(|note| writeln!(text, "  read as: {note}"))
    }

    /// Where a refused row is: file, line and column, or its number.
    fn place_of(&self, row: &RefusedFix) -> String {
        match (&self.source, row.place) {
            (Some(source), Some(place)) => {
                format!("{}, {} {place}, {}", source.file, source.place, source.name_of(&row.field))
            }
            _ => format!("row {}, {}", row.row, row.field),
        }
    }
}

/// Writes the first of `count` descriptions, and how many more there are.
fn write_shown(text: &mut String, shown: &[String], count: u64) -> std::fmt::Result {
    shown.iter().try_for_each(|shown| writeln!(text, "    {shown}"))?;
    match count.saturating_sub(shown.len() as u64) {
        0 => Ok(()),
        more => writeln!(text, "    and {more} more"),
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
    use shoal_table::{DroppedMeasures, FixField};

    use super::*;

    #[test]
    fn a_summary_counts_rows_and_names_places() {
        let mut summary =
            ReportSummary::new(&v1::Fleet { name: "default".into(), ..Default::default() });
        let fix = v1::Fix { heading_deg: Some(400.0), ..v1::Fix::default() };
        let fixes = vec![fix; 150];
        let batch = RowBatch { fixes, places: (2..152).collect(), ..RowBatch::default() };
        let batch = Arc::new(batch);
        summary.sent(&batch, 0..100);
        summary.sent(&batch, 100..150);
        let reason = v1::RefusalReason::Heading as i32;
        let row = v1::RefusedRow { message: 2, row: 4, field: "heading_deg".to_owned(), reason };
        let totals = AckTotals {
            rows: v1::RowCounts { applied: 146, expired: 3, refused: 1, ..Default::default() },
            refused_by_reason: [(reason, 1), (77, 0)].into(),
            refused_rows: vec![row],
            ..Default::default()
        };
        let mut names = <[String; FixField::COUNT]>::default();
        names[FixField::Heading as usize] = "course".to_owned();
        let source = SourceSummary {
            file: "a.csv".to_owned(),
            place: "line",
            notes: vec!["object = id".to_owned()],
            names,
            dropped: DroppedMeasures { count: 7, shown: vec!["a.csv, line 3".to_owned()] },
        };
        summary.finish(totals, Some(source), Duration::from_millis(500));
        let text = summary.text();
        for part in [
            "    a.csv, line 106, course: `400`: it must be 0 to below 360 [heading]\n",
            "  expired, older than the time to live of the fleet: 3\n",
            "  measures dropped, which cannot be stored: 7\n    a.csv, line 3\n    and 6 more\n",
            "  read as: object = id\n",
            "150 rows",
            "300 rows/s",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        let document = summary.json();
        assert_eq!(document["refused_by_reason"]["heading"], 1);
        assert_eq!(document["refused_by_reason"]["reason_77"], 0);
        assert_eq!(document["rows"]["expired"], 3);
        let row = &document["refused_rows"][0];
        assert_eq!((&row["row"], &row["file_line"]), (&json!(105), &json!(106)));
        assert_eq!((&row["column"], &row["value"]), (&json!("course"), &json!("400")));
        assert_eq!(document["measures_dropped"], 7);
        assert!(summary.is_partly_refused());
    }
}
