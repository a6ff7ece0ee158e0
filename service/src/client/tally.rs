//! What became of the rows of a report?
//!
//! Sums of acknowledgements. Only the first refusals are kept one by one; all are counted.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use shoal_proto::v1;

/// Refused rows and failed messages that are kept to be shown.
pub const SHOWN_MAX: usize = 10;

/// Sums over the acknowledgements of one stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Tally {
    /// Messages acknowledged.
    pub messages: u64,
    /// Rows by what became of them.
    pub rows: v1::RowCounts,
    /// Refused rows by reason (number on the wire).
    pub refused_by_reason: BTreeMap<i32, u64>,
    /// The first refused rows.
    pub refused_rows: Vec<v1::RefusedRow>,
    /// The first messages that were not applied.
    pub failed: Vec<v1::FailedMessage>,
    /// Messages that were not applied.
    pub failed_messages: u64,
    /// Messages that had been applied before.
    pub duplicate_messages: u64,
    /// Epoch of the last message applied.
    pub epoch: u64,
}

impl Tally {
    /// Adds an acknowledgement.
    pub fn add(&mut self, ack: v1::ReportAck) {
        self.messages = ack.last_message;
        if let Some(rows) = ack.rows {
            self.rows.applied += rows.applied;
            self.rows.duplicate += rows.duplicate;
            self.rows.superseded += rows.superseded;
            self.rows.late += rows.late;
            self.rows.refused += rows.refused;
        }
        for count in ack.refused_by_reason {
            *self.refused_by_reason.entry(count.reason).or_default() += count.rows;
        }
        let room = SHOWN_MAX - self.refused_rows.len();
        self.refused_rows.extend(ack.refused_rows.into_iter().take(room));
        let room = SHOWN_MAX - self.failed.len();
        self.failed.extend(ack.failed.into_iter().take(room));
        self.failed_messages += ack.failed_messages;
        self.duplicate_messages += ack.duplicate_messages;
        self.epoch = self.epoch.max(ack.epoch);
    }

    /// Rows acknowledged, whatever became of them.
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        let rows = &self.rows;
        rows.applied + rows.duplicate + rows.superseded + rows.late + rows.refused
    }

    /// True when something that was sent did not become state by its own fault.
    #[must_use]
    pub fn is_partly_refused(&self) -> bool {
        self.rows.refused > 0 || self.failed_messages > 0
    }
}

/// A reason for people and scripts: `outside_space`.
#[must_use]
pub fn reason_name(reason: i32) -> String {
    match v1::RefusalReason::try_from(reason) {
        Ok(reason) => {
            let name = reason.as_str_name();
            name.strip_prefix("REFUSAL_REASON_").unwrap_or(name).to_lowercase()
        }
        Err(_) => format!("reason_{reason}"),
    }
}

/// Row counts as JSON.
#[must_use]
pub fn counts_json(rows: &v1::RowCounts) -> Value {
    json!({
        "applied": rows.applied,
        "duplicate": rows.duplicate,
        "superseded": rows.superseded,
        "late": rows.late,
        "refused": rows.refused,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_everything_and_keep_the_first_refusals() {
        let reason = v1::RefusalReason::OutsideSpace as i32;
        let mut tally = Tally::default();
        for first in [1, 9] {
            let row = |row| v1::RefusedRow { message: first, row, field: "x".to_owned(), reason };
            tally.add(v1::ReportAck {
                first_message: first,
                last_message: first + 7,
                rows: Some(v1::RowCounts { applied: 5, refused: 8, ..Default::default() }),
                refused_by_reason: vec![v1::RefusedCount { reason, rows: 8 }],
                refused_rows: (0..8).map(row).collect(),
                epoch: first,
                ..Default::default()
            });
        }
        assert_eq!((tally.messages, tally.rows_total(), tally.epoch), (16, 26, 9));
        assert_eq!(tally.refused_by_reason[&reason], 16);
        assert_eq!(tally.refused_rows.len(), SHOWN_MAX);
        assert!(tally.is_partly_refused());
        assert_eq!(reason_name(reason), "outside_space");
        assert_eq!(reason_name(77), "reason_77");
    }
}
