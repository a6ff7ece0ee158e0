//! Sums of acknowledgements.

use std::collections::BTreeMap;

use shoal_proto::v1;

/// Outcomes of the acknowledged messages and rows of a stream. Messages are numbered from 1 in the
/// order in which they were passed to the stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct AckTotals {
    /// Messages acknowledged.
    pub messages: u64,
    /// All messages up to this number are acknowledged, and are not sent again.
    pub messages_settled: u64,
    /// Rows by outcome. Failed and duplicate messages add none.
    pub rows: v1::RowCounts,
    /// Refused rows by reason, as numbered by `RefusalReason`.
    pub refused_by_reason: BTreeMap<i32, u64>,
    /// The first refused rows.
    pub refused_rows: Vec<v1::RefusedRow>,
    /// Dropped measures, see [`ReportOptions::drop_invalid_measures`](crate::ReportOptions).
    pub dropped: v1::MeasureCounts,
    /// The first dropped measures.
    pub dropped_measures: Vec<v1::DroppedMeasure>,
    /// The first messages that failed.
    pub failed: Vec<v1::FailedMessage>,
    /// Messages that failed; nothing of them was applied.
    pub failed_messages: u64,
    /// Messages that had been applied before.
    pub duplicate_messages: u64,
    /// Epoch of the last message applied.
    pub epoch: u64,
    /// Term of `epoch`.
    pub term: u64,
    /// The error after which messages are sent again; `None` once one is acknowledged since.
    pub retried: Option<String>,
    /// Identifies the state after all acknowledged messages: pass it as
    /// `QueryOptions.min_token` to read at least this state.
    pub token: Vec<u8>,
}

impl AckTotals {
    /// Maximum number of refused rows, of dropped measures and of failed messages that are listed;
    /// all are counted.
    pub const LISTED_MAX: usize = 10;

    /// Adds an acknowledgement of `messages` messages, which `ack` numbers as the stream does.
    pub(crate) fn add(&mut self, messages: u64, ack: v1::ReportAck) {
        self.messages += messages;
        if messages > 0 {
            self.retried = None;
        }
        add_counts(&mut self.rows, &ack.rows.unwrap_or_default());
        for count in ack.refused_by_reason {
            *self.refused_by_reason.entry(count.reason).or_default() += count.rows;
        }
        let free = Self::LISTED_MAX - self.refused_rows.len();
        self.refused_rows.extend(ack.refused_rows.into_iter().take(free));
        let dropped = ack.dropped.unwrap_or_default();
        self.dropped.speed += dropped.speed;
        self.dropped.heading += dropped.heading;
        self.dropped.altitude += dropped.altitude;
        self.dropped.validity += dropped.validity;
        let free = Self::LISTED_MAX - self.dropped_measures.len();
        self.dropped_measures.extend(ack.dropped_measures.into_iter().take(free));
        let free = Self::LISTED_MAX - self.failed.len();
        self.failed.extend(ack.failed.into_iter().take(free));
        self.failed_messages += ack.failed_messages;
        self.duplicate_messages += ack.duplicate_messages;
        if !ack.token.is_empty() {
            (self.epoch, self.term, self.token) = (ack.epoch, ack.term, ack.token);
        }
    }

    /// Rows acknowledged, whatever their outcome.
    #[must_use]
    pub fn rows_total(&self) -> u64 {
        rows_total(&self.rows)
    }

    /// Whether a row was refused or a message failed.
    #[must_use]
    pub fn is_partly_refused(&self) -> bool {
        self.rows.refused > 0 || self.failed_messages > 0
    }
}

/// Adds `counts` to `sum`.
pub fn add_counts(sum: &mut v1::RowCounts, counts: &v1::RowCounts) {
    sum.applied += counts.applied;
    sum.duplicate += counts.duplicate;
    sum.superseded += counts.superseded;
    sum.late += counts.late;
    sum.expired += counts.expired;
    sum.refused += counts.refused;
    sum.ahead += counts.ahead;
}

/// The sum over all outcomes.
#[must_use]
pub fn rows_total(rows: &v1::RowCounts) -> u64 {
    rows.applied + rows.duplicate + rows.superseded + rows.late + rows.expired + rows.refused
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_count_everything_and_list_the_first_refusals() {
        let reason = v1::RefusalReason::OutsideSpace as i32;
        let mut totals = AckTotals::default();
        for first in [1, 9] {
            let row = |row| v1::RefusedRow { message: first, row, field: "x".to_owned(), reason };
            let ack = v1::ReportAck {
                rows: Some(v1::RowCounts { applied: 5, refused: 8, ..Default::default() }),
                refused_by_reason: vec![v1::RefusedCount { reason, rows: 8 }],
                refused_rows: (0..8).map(row).collect(),
                epoch: first,
                token: vec![first as u8],
                ..Default::default()
            };
            totals.add(8, ack);
        }
        let dropped = v1::MeasureCounts { speed: 1, heading: 20, altitude: 3, validity: 4 };
        let dropped_measures = vec![v1::DroppedMeasure::default(); 24];
        totals.add(
            1,
            v1::ReportAck { dropped: Some(dropped), dropped_measures, ..Default::default() },
        );
        assert_eq!(totals.dropped, dropped);
        assert_eq!(totals.dropped_measures.len(), AckTotals::LISTED_MAX);
        totals.add(1, v1::ReportAck { failed_messages: 1, ..Default::default() });
        assert_eq!((totals.messages, totals.rows_total(), totals.epoch), (18, 26, 9));
        assert_eq!((totals.refused_by_reason[&reason], totals.token.as_slice()), (16, &[9][..]));
        assert_eq!(totals.refused_rows.len(), AckTotals::LISTED_MAX);
        assert!(totals.is_partly_refused());
    }
}
