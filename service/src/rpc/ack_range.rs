//! Merges the acknowledgements that a client has not read.
//!
//! A range covers consecutive messages of one stream. It has the sums of their counts and a list of
//! the first refused rows, so that its size is bounded for any number of messages.

use shoal_engine::{Refusal, RequestOutcome};
use shoal_proto::v1::{DroppedMeasure, FailedMessage, MeasureCounts};
use shoal_proto::v1::{RefusedCount, RefusedRow, ReportAck, RowCounts};

use crate::cycle::Durability;
use crate::error::ServiceError;
use crate::fleet::{DroppedOnReceipt, RefusedRows, RowTotals, Token};
use crate::fleet_request::durability_value;
use crate::limits::{FAILED_MESSAGES_TOLD_MAX, REFUSED_ROWS_REPORTED_MAX};
use crate::status::rpc_status;

/// The rows whose position was refused on receipt, each with the coordinate at fault.
pub(super) type Faults = Vec<(u32, &'static str)>;

/// The outcome of one message.
#[derive(Debug)]
pub(super) enum Settled {
    /// Applied in this epoch and term of the engine.
    Applied {
        term: u64,
        epoch: u64,
        outcome: RequestOutcome,
        refused: Box<RefusedRows>,
        dropped: Option<Box<DroppedOnReceipt>>,
        faults: Faults,
        durability: Durability,
    },
    /// Applied earlier; its rows are visible at this epoch.
    Duplicate { term: u64, epoch: u64, durability: Durability },
    /// Not applied.
    Failed(ServiceError),
}

/// The outcomes of consecutive messages.
#[derive(Debug, Default)]
pub(super) struct AckRange {
    first_message: u64,
    last_message: u64,
    rows: RowTotals,
    refused_by_reason: [u64; Refusal::COUNT],
    refused_rows: Vec<RefusedRow>,
    dropped: MeasureCounts,
    dropped_measures: Vec<DroppedMeasure>,
    failed: Vec<FailedMessage>,
    failed_messages: u64,
    duplicate_messages: u64,
    first_epoch: u64,
    epoch: u64,
    term: u64,
    /// The weakest durability of the messages.
    durability: Option<Durability>,
    token: Token,
}

impl AckRange {
    /// True if no message was added yet.
    pub(super) fn is_empty(&self) -> bool {
        self.last_message == 0
    }

    /// Adds the outcome of the next message; numbers count from 1.
    pub(super) fn add(&mut self, message: u64, settled: Settled) {
        if self.is_empty() {
            self.first_message = message;
        }
        self.last_message = message;
        match settled {
            Settled::Applied { term, epoch, outcome, refused, dropped, faults, durability } => {
                self.visible(term, epoch, durability);
                self.rows.add(&outcome, refused.count());
                self.add_refused(message, &refused, &faults);
                if let Some(dropped) = dropped {
                    self.add_dropped(message, &dropped);
                }
            }
            Settled::Duplicate { term, epoch, durability } => {
                self.visible(term, epoch, durability);
                self.duplicate_messages += 1;
            }
            Settled::Failed(error) => {
                self.failed_messages += 1;
                if self.failed.len() < FAILED_MESSAGES_TOLD_MAX {
                    let status = Some(rpc_status(error));
                    self.failed.push(FailedMessage { message, status });
                }
            }
        }
    }

    fn visible(&mut self, term: u64, epoch: u64, durability: Durability) {
        if self.first_epoch == 0 {
            self.first_epoch = epoch;
        }
        (self.term, self.epoch) = (term, epoch);
        self.durability = Some(self.durability.map_or(durability, |least| least.min(durability)));
        self.token.add(term, epoch);
    }

    fn add_refused(&mut self, message: u64, refused: &RefusedRows, faults: &Faults) {
        for (sum, rows) in self.refused_by_reason.iter_mut().zip(&refused.counts) {
            *sum += rows;
        }
        let free = REFUSED_ROWS_REPORTED_MAX - self.refused_rows.len();
        for &(row, refusal) in refused.first.iter().take(free) {
            let field = field_at_fault(refusal, row, faults).into();
            let reason = refusal as i32;
            self.refused_rows.push(RefusedRow { message, row, field, reason });
        }
    }

    fn add_dropped(&mut self, message: u64, dropped: &DroppedOnReceipt) {
        self.dropped.speed += dropped.counts[Refusal::Speed as usize];
        self.dropped.heading += dropped.counts[Refusal::Heading as usize];
        self.dropped.altitude += dropped.counts[Refusal::Altitude as usize];
        self.dropped.validity += dropped.counts[Refusal::Validity as usize];
        let free = REFUSED_ROWS_REPORTED_MAX - self.dropped_measures.len();
        self.dropped_measures.extend(dropped.first.iter().take(free).map(|&(row, reason)| {
            let field = reason.field().unwrap_or_default().to_owned();
            DroppedMeasure { message, row, field }
        }));
    }

    /// Converts the range to a message of the API.
    pub(super) fn into_ack(self) -> ReportAck {
        let reasons = Refusal::ALL.into_iter().map(|refusal| RefusedCount {
            reason: refusal as i32,
            rows: self.refused_by_reason[refusal as usize],
        });
        ReportAck {
            first_message: self.first_message,
            last_message: self.last_message,
            rows: Some(row_counts(&self.rows)),
            refused_by_reason: reasons.filter(|reason| reason.rows > 0).collect(),
            refused_rows: self.refused_rows,
            failed: self.failed,
            failed_messages: self.failed_messages,
            duplicate_messages: self.duplicate_messages,
            epoch: self.epoch,
            token: self.token.to_bytes(),
            first_epoch: self.first_epoch,
            term: self.term,
            durability: self.durability.map(durability_value).unwrap_or_default().into(),
            dropped: (self.dropped != MeasureCounts::default()).then_some(self.dropped),
            dropped_measures: self.dropped_measures,
        }
    }
}

/// Converts counts to a message of the API.
pub(super) fn row_counts(rows: &RowTotals) -> RowCounts {
    RowCounts {
        applied: rows.applied,
        duplicate: rows.duplicate,
        superseded: rows.superseded,
        late: rows.late,
        expired: rows.expired,
        refused: rows.refused,
        ahead: rows.ahead,
    }
}

/// The field that a refusal concerns: a field of `Fix`, or `block` of `ReportRequest` if the
/// position of a row in a block is refused, because a block's coordinates are checked as a pair.
fn field_at_fault(refusal: Refusal, row: u32, faults: &Faults) -> &'static str {
    refusal.field().unwrap_or_else(|| {
        let fault = faults.binary_search_by_key(&row, |fault| fault.0);
        fault.map_or("block", |index| faults[index].1)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn applied(epoch: u64, rows: Vec<(u32, Refusal)>) -> Settled {
        let outcome = RequestOutcome { applied: 2, late: 1, ..Default::default() };
        let mut refused = RefusedRows::default();
        rows.into_iter().for_each(|(row, refusal)| refused.push(row, refusal));
        let mut dropped = DroppedOnReceipt::default();
        [Refusal::Speed, Refusal::Altitude].into_iter().for_each(|reason| dropped.push(3, reason));
        let (refused, faults) = (Box::new(refused), vec![(4, "y")]);
        let (dropped, durability) = (Some(Box::new(dropped)), Durability::Logged);
        Settled::Applied { term: 9, epoch, outcome, refused, dropped, faults, durability }
    }

    #[test]
    fn a_range_sums_its_messages() {
        let mut range = AckRange::default();
        range.add(7, Settled::Failed(ServiceError::Deadline));
        range.add(8, applied(3, vec![(1, Refusal::Speed), (4, Refusal::NotFinite)]));
        range.add(9, Settled::Duplicate { term: 9, epoch: 4, durability: Durability::Applied });
        range.add(10, applied(5, vec![(2, Refusal::OutsideSpace)]));
        let ack = range.into_ack();
        assert_eq!((ack.first_message, ack.last_message), (7, 10));
        assert_eq!((ack.first_epoch, ack.epoch), (3, 5));
        assert_eq!(ack.durability(), shoal_proto::v1::Durability::Applied);
        assert_eq!((ack.failed_messages, ack.duplicate_messages), (1, 1));
        let rows = ack.rows.unwrap();
        assert_eq!((rows.applied, rows.late, rows.refused), (4, 2, 3));
        let refused: Vec<_> =
            ack.refused_rows.iter().map(|row| (row.message, row.row, row.field.as_str())).collect();
        assert_eq!(refused, [(8, 1, "speed_mps"), (8, 4, "y"), (10, 2, "block")]);
        let reasons: Vec<_> =
            ack.refused_by_reason.iter().map(|reason| (reason.reason, reason.rows)).collect();
        assert_eq!(reasons, [(2, 1), (3, 1), (6, 1)]);
        assert_eq!(
            ack.dropped,
            Some(MeasureCounts { speed: 2, altitude: 2, ..MeasureCounts::default() })
        );
        let dropped: Vec<_> = ack
            .dropped_measures
            .iter()
            .map(|measure| (measure.message, measure.row, measure.field.as_str()))
            .collect();
        let (speed, altitude) = ("speed_mps", "altitude_m");
        assert_eq!(dropped, [(8, 3, speed), (8, 3, altitude), (10, 3, speed), (10, 3, altitude)]);
        assert_eq!(Token::parse(&ack.token).unwrap(), Token::new(9, 5));
    }

    #[test]
    fn an_unread_range_stays_small() {
        use prost::Message as _;
        let mut range = AckRange::default();
        for message in 1..=10_000 {
            let refused = (0..300).map(|row| (row, Refusal::Object)).collect();
            range.add(2 * message, applied(message, refused));
            range.add(2 * message + 1, Settled::Failed(ServiceError::field("f", "p".repeat(200))));
        }
        let ack = range.into_ack();
        assert_eq!(ack.rows.unwrap().refused, 3_000_000);
        assert_eq!(ack.failed_messages, 10_000);
        assert_eq!(
            ack.dropped,
            Some(MeasureCounts { speed: 10_000, altitude: 10_000, ..MeasureCounts::default() })
        );
        assert_eq!(ack.dropped_measures.len(), REFUSED_ROWS_REPORTED_MAX);
        assert!(ack.encoded_len() < 256 << 10, "{} bytes", ack.encoded_len());
    }
}
