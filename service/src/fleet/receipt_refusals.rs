//! Rows that are refused, and measures that are dropped, on receipt: the engine does not receive
//! them.
//!
//! The request carries their counts by reason and lists the first of them. They are merged into the
//! outcome, so that row numbers and counts match the client's message. A message that has only
//! invalid rows costs no more than parsing it.

use shoal_engine::{Refusal, Request};

use super::newest_times::NewestTimes;
use crate::limits::REFUSED_ROWS_REPORTED_MAX;

/// Refused rows of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedRows {
    /// The first [`REFUSED_ROWS_REPORTED_MAX`] of them with their numbers, ascending.
    pub first: Vec<(u32, Refusal)>,
    /// How many there are, by reason.
    pub counts: [u64; Refusal::COUNT],
}

/// Measures of a message that were dropped, so that their rows could be kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DroppedOnReceipt {
    /// The first [`REFUSED_ROWS_REPORTED_MAX`] of them: the number of the row in the message, and the
    /// reason for which the measure would refuse the row.
    pub first: Vec<(u32, Refusal)>,
    /// How many there are, by this reason.
    pub counts: [u64; Refusal::COUNT],
}

impl DroppedOnReceipt {
    /// Adds a measure of a row whose number is not smaller.
    pub(crate) fn push(&mut self, row: u32, reason: Refusal) {
        note(&mut self.first, &mut self.counts, (row, reason));
    }
}

/// Counts a reason, and lists it with its row if it is one of the first.
fn note(
    first: &mut Vec<(u32, Refusal)>,
    counts: &mut [u64; Refusal::COUNT],
    (row, reason): (u32, Refusal),
) {
    counts[reason as usize] += 1;
    if first.len() < REFUSED_ROWS_REPORTED_MAX {
        first.push((row, reason));
    }
}

/// A request as the engine receives it.
#[derive(Debug)]
pub struct ConvertedRequest {
    /// Without the refused rows.
    pub request: Request,
    /// The rows refused on receipt.
    pub refused: RefusedRows,
    /// The measures dropped on receipt, if there are any.
    pub dropped: Option<Box<DroppedOnReceipt>>,
    /// The newest times of its rows, if the fleet bounds its event clock.
    pub times: NewestTimes,
}

impl From<Request> for ConvertedRequest {
    fn from(request: Request) -> Self {
        Self {
            request,
            refused: RefusedRows::default(),
            dropped: None,
            times: NewestTimes::default(),
        }
    }
}

impl RefusedRows {
    /// Adds a row with a greater number.
    pub(crate) fn push(&mut self, row: u32, refusal: Refusal) {
        note(&mut self.first, &mut self.counts, (row, refusal));
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Merges these rows with rows refused later, for example by the engine. The later rows are
    /// numbered without these.
    #[must_use]
    pub(crate) fn joined(self, later: &[(u32, Refusal)]) -> Self {
        let Self { first: on_receipt, mut counts } = self;
        later.iter().for_each(|(_, refusal)| counts[*refusal as usize] += 1);
        let mut first = Vec::new();
        let mut rest = on_receipt.into_iter().peekable();
        let mut before = 0;
        for (row, refusal) in later {
            // All rows refused on receipt before one that is listed are in the list.
            while let Some(earlier) = rest.next_if(|(refused, _)| *refused <= row + before) {
                first.push(earlier);
                before += 1;
            }
            if first.len() >= REFUSED_ROWS_REPORTED_MAX {
                break;
            }
            first.push((row + before, *refusal));
        }
        first.extend(rest);
        first.truncate(REFUSED_ROWS_REPORTED_MAX);
        Self { first, counts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_as_in_the_message() {
        // Bits of `on_receipt` and of `later`: who refuses each of six rows.
        for on_receipt in 0_u32..64 {
            for later in (0_u32..64).filter(|rows| rows & on_receipt == 0) {
                let is_in = |rows: u32, row: u32| rows >> row & 1 == 1;
                let received = (0..6).filter(|row| !is_in(on_receipt, *row));
                let numbered: Vec<_> = (0..)
                    .zip(received)
                    .filter(|(_, row)| is_in(later, *row))
                    .map(|(number, _)| (number, Refusal::Object))
                    .collect();
                let mut refused = RefusedRows::default();
                (0..6)
                    .filter(|row| is_in(on_receipt, *row))
                    .for_each(|row| refused.push(row, Refusal::Speed));
                let joined = refused.joined(&numbered);
                let expected: Vec<_> = (0..6)
                    .filter(|row| is_in(on_receipt | later, *row))
                    .map(|row| {
                        let is_speed = is_in(on_receipt, row);
                        (row, if is_speed { Refusal::Speed } else { Refusal::Object })
                    })
                    .collect();
                assert_eq!(joined.count(), expected.len() as u64);
                assert_eq!(joined.first, expected);
            }
        }
    }

    #[test]
    fn the_first_rows_are_listed_whoever_refuses_them() {
        // Of every seven rows, one is refused on receipt and one later.
        let (mut refused, mut later, mut expected) =
            (RefusedRows::default(), Vec::new(), Vec::new());
        let mut received = 0;
        for row in 0..7_000_u32 {
            let by = match row % 7 {
                2 => Some(Refusal::NotFinite),
                5 => Some(Refusal::TimeTooLate),
                _ => None,
            };
            expected.extend(by.map(|refusal| (row, refusal)));
            match by {
                Some(Refusal::NotFinite) => refused.push(row, Refusal::NotFinite),
                Some(refusal) => later.push((received, refusal)),
                None => {}
            }
            received += u32::from(by != Some(Refusal::NotFinite));
        }
        assert_eq!(refused.first.len(), REFUSED_ROWS_REPORTED_MAX);
        let joined = refused.joined(&later);
        assert_eq!(joined.first, expected[..REFUSED_ROWS_REPORTED_MAX]);
        assert_eq!(joined.counts[Refusal::NotFinite as usize], 1_000);
        assert_eq!(joined.counts[Refusal::TimeTooLate as usize], 1_000);
    }
}
