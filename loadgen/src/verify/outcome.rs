//! What should have become of a change, and does the server say the same?
//!
//! Counts, refusals by reason and refused rows, compared exactly. Where an ack was merged over
//! epochs that cannot be told apart, only the sums are certain and only they are compared.

use shoal_engine::Refusal;
use shoal_proto::v1::{RefusedCount, RefusedRow, RemoveResponse, ReportAck, RowCounts};

/// Rows that an ack tells one by one; the server's limit.
const REFUSED_ROWS_TOLD_MAX: usize = 256;

/// What should have become of a change.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome {
    /// Rows by what became of them.
    pub rows: RowCounts,
    /// Refused rows by the number of their reason.
    pub refused_by_reason: [u64; Refusal::COUNT],
    /// Message, row and reason of the first refused rows.
    pub refused_rows: Vec<(u64, u32, i32)>,
    /// Objects that a removal took away.
    pub removed: u64,
    /// Ids of a removal that did not exist.
    pub missing: u64,
}

impl Outcome {
    /// Counts a refused row.
    pub fn refuse(&mut self, message: u64, row: u32, reason: Refusal) {
        self.rows.refused += 1;
        self.refused_by_reason[reason as usize] += 1;
        if self.refused_rows.len() < REFUSED_ROWS_TOLD_MAX {
            self.refused_rows.push((message, row, reason as i32));
        }
    }

    /// Adds the outcome of the messages that follow.
    pub fn add(&mut self, later: &Self) {
        let (sum, rows) = (&mut self.rows, &later.rows);
        sum.applied += rows.applied;
        sum.duplicate += rows.duplicate;
        sum.superseded += rows.superseded;
        sum.late += rows.late;
        sum.refused += rows.refused;
        for (sum, rows) in self.refused_by_reason.iter_mut().zip(later.refused_by_reason) {
            *sum += rows;
        }
        let room = REFUSED_ROWS_TOLD_MAX - self.refused_rows.len();
        self.refused_rows.extend(later.refused_rows.iter().take(room));
    }

    /// How a removal's response differs, if it does.
    #[must_use]
    pub fn removal_difference(&self, response: &RemoveResponse) -> Option<String> {
        let expected = (self.removed, self.missing);
        let got = (response.removed_count, response.missing_count);
        (expected != got).then(|| {
            let epoch = response.epoch;
            format!(
                "removal in epoch {epoch}: expected (removed, missing) {expected:?}, the server \
                 said {got:?}"
            )
        })
    }

    /// How an ack differs, if it does; with `is_loose` only the sum of accepted rows is compared,
    /// not what became of each.
    #[must_use]
    pub fn ack_difference(&self, ack: &ReportAck, is_loose: bool) -> Option<String> {
        let name = format!(
            "ack of messages {} to {} in epochs {} to {}",
            ack.first_message, ack.last_message, ack.first_epoch, ack.epoch
        );
        let (mut expected, mut got) = (self.rows, ack.rows.unwrap_or_default());
        if is_loose {
            (expected, got) = (merged(&expected), merged(&got));
        }
        if expected != got {
            return Some(format!("{name}: expected {expected:?}, the server said {got:?}"));
        }
        let reasons = (0..).zip(&self.refused_by_reason).filter(|(_, rows)| **rows > 0);
        let reasons: Vec<_> =
            reasons.map(|(reason, rows)| RefusedCount { reason, rows: *rows }).collect();
        if reasons != ack.refused_by_reason {
            let got = &ack.refused_by_reason;
            return Some(format!("{name}: expected refusals {reasons:?}, the server said {got:?}"));
        }
        let place = |row: &RefusedRow| (row.message, row.row, row.reason);
        let told: Vec<_> = ack.refused_rows.iter().map(place).collect();
        (told != self.refused_rows).then(|| {
            let expected = &self.refused_rows;
            format!("{name}: expected refused rows {expected:?}, the server told {told:?}")
        })
    }
}

/// Accepted rows as one count.
fn merged(rows: &RowCounts) -> RowCounts {
    RowCounts {
        applied: rows.applied + rows.duplicate + rows.superseded + rows.late,
        refused: rows.refused,
        ..RowCounts::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_add_up_to_the_whole() {
        let part = |message: u64, rows: u32| {
            let mut outcome = Outcome::default();
            outcome.rows.applied = 10;
            (0..rows).for_each(|row| outcome.refuse(message, row, Refusal::OutsideSpace));
            outcome
        };
        let mut sum = part(1, 200);
        sum.add(&part(2, 200));
        assert_eq!((sum.rows.applied, sum.rows.refused), (20, 400));
        assert_eq!(sum.refused_by_reason[3], 400);
        assert_eq!(sum.refused_rows.len(), REFUSED_ROWS_TOLD_MAX);
        assert_eq!(sum.refused_rows[200], (2, 0, 3));
    }

    #[test]
    fn a_loose_comparison_still_counts_every_row() {
        let mut outcome = Outcome::default();
        outcome.rows.applied = 5;
        let ack = |superseded| ReportAck {
            rows: Some(RowCounts { superseded, ..RowCounts::default() }),
            ..ReportAck::default()
        };
        assert_eq!(outcome.ack_difference(&ack(5), true), None);
        assert!(outcome.ack_difference(&ack(5), false).is_some());
        assert!(outcome.ack_difference(&ack(4), true).is_some());
    }
}
