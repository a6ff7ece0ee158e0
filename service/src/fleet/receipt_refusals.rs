//! Rows that are refused on receipt: they cannot be converted, and the engine does not receive
//! them.
//!
//! A sparse list accompanies the request; its rows are put back into the outcome, so that numbers
//! and counts are those of the client's message.

use shoal_engine::{Refusal, Request, RequestOutcome};

/// A row that was refused on receipt.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ReceiptRefusal {
    /// Its number in the message.
    pub row: u32,
    /// The reason among those that do not depend on the cycle.
    pub refusal: Refusal,
    /// Its event time, which its cycle may refuse for a lower reason.
    pub time_ms: i64,
}

/// A request as the engine receives it.
#[derive(Debug)]
pub struct ConvertedRequest {
    /// Without the refused rows.
    pub request: Request,
    /// The rows refused on receipt, ascending.
    pub refused: Vec<ReceiptRefusal>,
}

impl From<Request> for ConvertedRequest {
    fn from(request: Request) -> Self {
        Self { request, refused: Vec::new() }
    }
}

/// Adds the rows refused on receipt to the outcome of the others, which the engine numbers without
/// them. Event times after `time_max_ms` are too late.
pub(super) fn add_to(outcome: &mut RequestOutcome, refused: &[ReceiptRefusal], time_max_ms: i64) {
    if refused.is_empty() {
        return;
    }
    let by_engine = std::mem::take(&mut outcome.refused);
    let all = &mut outcome.refused;
    all.reserve_exact(by_engine.len() + refused.len());
    let reason = |refused: &ReceiptRefusal| {
        let is_late = refused.time_ms > time_max_ms && refused.refusal > Refusal::TimeTooLate;
        (refused.row, if is_late { Refusal::TimeTooLate } else { refused.refusal })
    };
    let mut rest = refused.iter().map(reason).peekable();
    let mut before = 0;
    for (row, refusal) in by_engine {
        while let Some(earlier) = rest.next_if(|(refused, _)| *refused <= row + before) {
            all.push(earlier);
            before += 1;
        }
        all.push((row + before, refusal));
    }
    all.extend(rest);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_numbered_as_in_the_message() {
        // Bits of `on_receipt` and of `by_engine`: who refuses each of six rows.
        for on_receipt in 0_u32..64 {
            for by_engine in (0_u32..64).filter(|rows| rows & on_receipt == 0) {
                let is_in = |rows: u32, row: u32| rows >> row & 1 == 1;
                let refused = |row| ReceiptRefusal { row, refusal: Refusal::Speed, time_ms: 5 };
                let received = (0..6).filter(|row| !is_in(on_receipt, *row));
                let mut outcome = RequestOutcome {
                    refused: (0..)
                        .zip(received)
                        .filter(|(_, row)| is_in(by_engine, *row))
                        .map(|(number, _)| (number, Refusal::Object))
                        .collect(),
                    ..RequestOutcome::default()
                };
                let list: Vec<_> =
                    (0..6).filter(|row| is_in(on_receipt, *row)).map(refused).collect();
                add_to(&mut outcome, &list, 5);
                let expected: Vec<_> = (0..6)
                    .filter(|row| is_in(on_receipt | by_engine, *row))
                    .map(|row| {
                        let is_speed = is_in(on_receipt, row);
                        (row, if is_speed { Refusal::Speed } else { Refusal::Object })
                    })
                    .collect();
                assert_eq!(outcome.refused, expected);
            }
        }
    }

    #[test]
    fn a_late_row_has_the_lower_reason() {
        use Refusal::{Altitude, NotFinite, Speed, TimeTooEarly, TimeTooLate};
        for (refusal, time_ms, reason) in [
            (Speed, 9, Speed),
            (Speed, 10, TimeTooLate),
            (Altitude, 10, TimeTooLate),
            (TimeTooEarly, 10, TimeTooEarly),
            (NotFinite, 10, NotFinite),
        ] {
            let mut outcome = RequestOutcome::default();
            add_to(&mut outcome, &[ReceiptRefusal { row: 3, refusal, time_ms }], 9);
            assert_eq!(outcome.refused, [(3, reason)]);
        }
    }
}
