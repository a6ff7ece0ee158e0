//! The first refused rows of a report, with their places and values in the file.
//!
//! The server names a refused row by message and index. The rows of a message are kept until it is
//! acknowledged, as they are where it may be sent again, so memory is bounded by the messages on
//! their way.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;

use shoal_client::{AckTotals, v1};
use shoal_engine::limits::TIME_MIN_MS;
use shoal_service::fleet_space;
use shoal_service::timestamp::rfc3339;
use shoal_table::{TimeUnit, printable};

use crate::input::RowBatch;

/// Rows of a message on its way.
#[derive(Clone, Debug)]
struct SentRows {
    /// The rows of the stream before it.
    rows_before: u64,
    batch: Arc<RowBatch>,
    /// The rows of the batch that are in the message.
    rows: Range<usize>,
}

/// A refused row.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusedFix {
    /// Its number among the rows that were sent, from 1.
    pub row: u64,
    /// Its line or row in the file, if it came from one.
    pub place: Option<u64>,
    /// The field at fault, as the protocol names it.
    pub field: String,
    /// A number of `RefusalReason`.
    pub reason: i32,
    /// The value at fault, in the unit of the protocol.
    pub value: String,
    /// What is wrong with the value.
    pub detail: String,
}

impl RefusedFix {
    /// The value and what is wrong with it, or its reason alone.
    pub(super) fn explanation(&self, reason: String) -> String {
        match (self.value.as_str(), self.detail.as_str()) {
            (_, "") => reason,
            ("", detail) => format!("{detail} [{reason}]"),
            (value, detail) => format!("`{}`: {detail} [{reason}]", printable(value)),
        }
    }
}

/// Finds refused rows.
#[derive(Clone, Debug)]
pub struct RefusalFinder {
    fleet: v1::Fleet,
    sent: VecDeque<SentRows>,
    /// Messages before the first in `sent`.
    dropped: u64,
    rows_sent: u64,
    found: Vec<RefusedFix>,
}

impl RefusalFinder {
    /// For a new report to `fleet`.
    #[must_use]
    pub fn new(fleet: &v1::Fleet) -> Self {
        let fleet = fleet.clone();
        Self { fleet, sent: VecDeque::new(), dropped: 0, rows_sent: 0, found: Vec::new() }
    }

    /// Takes the rows of the next message.
    pub fn sent(&mut self, batch: &Arc<RowBatch>, rows: Range<usize>) {
        let count = rows.len() as u64;
        let sent = SentRows { rows_before: self.rows_sent, batch: batch.clone(), rows };
        self.rows_sent += count;
        self.sent.push_back(sent);
    }

    /// Rows sent so far.
    #[must_use]
    pub fn rows_sent(&self) -> u64 {
        self.rows_sent
    }

    /// The refused rows, at most [`AckTotals::LISTED_MAX`].
    #[must_use]
    pub fn found(&self) -> &[RefusedFix] {
        &self.found
    }

    /// Finds the rows that were refused since the last call, and forgets the messages that are
    /// settled.
    pub fn settle(&mut self, totals: &AckTotals) {
        for row in totals.refused_rows.iter().skip(self.found.len()) {
            let refused = self.find(row);
            self.found.push(refused);
        }
        while self.dropped < totals.messages_settled && self.sent.pop_front().is_some() {
            self.dropped += 1;
        }
    }

    fn find(&self, row: &v1::RefusedRow) -> RefusedFix {
        let message = row.message.checked_sub(self.dropped + 1);
        let sent = message.and_then(|message| self.sent.get(usize::try_from(message).ok()?));
        let index = row.row as usize;
        let in_batch = sent.map_or(0, |sent| sent.rows.start) + index;
        let fix = sent.and_then(|sent| sent.batch.fixes.get(in_batch));
        let (value, detail) = fix.map_or_else(Default::default, |fix| self.explain(row, fix));
        RefusedFix {
            row: sent.map_or(0, |sent| sent.rows_before) + index as u64 + 1,
            place: sent.and_then(|sent| sent.batch.places.get(in_batch).copied()),
            field: row.field.clone(),
            reason: row.reason,
            value,
            detail,
        }
    }

    /// The value at fault, and its bounds with a guess of what was meant.
    fn explain(&self, row: &v1::RefusedRow, fix: &v1::Fix) -> (String, String) {
        use v1::RefusalReason as Reason;
        let real = |value: Option<f64>| value.map_or_else(String::new, |value| value.to_string());
        let reason = Reason::try_from(row.reason).unwrap_or_default();
        match reason {
            Reason::Object => (fix.object.to_string(), "this number is reserved".to_owned()),
            Reason::ObjectLimit => {
                let object =
                    if fix.name.is_empty() { fix.object.to_string() } else { fix.name.clone() };
                (object, "the object is new, and the fleet has objects_max objects".to_owned())
            }
            Reason::TimeTooEarly | Reason::TimeTooLate => {
                let bound = if reason == Reason::TimeTooEarly {
                    format!("before {} ({TIME_MIN_MS})", rfc3339(TIME_MIN_MS))
                } else {
                    "too far after the clock of the server".to_owned()
                };
                let looks = match TimeUnit::of(fix.time_ms as f64) {
                    Some(TimeUnit::Milliseconds) => String::new(),
                    Some(unit) => format!("; as milliseconds it looks like {}", unit.word()),
                    None => explain_factor(fix.time_ms),
                };
                (fix.time_ms.to_string(), format!("{} is {bound}{looks}", rfc3339(fix.time_ms)))
            }
            Reason::NotFinite | Reason::OutsideSpace => self.explain_position(&row.field, fix),
            Reason::Speed => {
                (real(fix.speed_mps.map(f64::from)), "it must be 0 to 4294967 m/s".to_owned())
            }
            Reason::Heading => {
                (real(fix.heading_deg.map(f64::from)), "it must be 0 to below 360".to_owned())
            }
            Reason::Altitude => {
                (real(fix.altitude_m), "it must be -2147483.646 to 2147483.647 m".to_owned())
            }
            Reason::Validity => (real(fix.valid_s), "it must be 0 to 4294967.293 s".to_owned()),
            Reason::Name => {
                (fix.name.clone(), "a name has 1 to 256 bytes, no control character".to_owned())
            }
            Reason::NamedFleet => (fix.object.to_string(), "the fleet takes names".to_owned()),
            Reason::NumericFleet => (fix.name.clone(), "the fleet takes numbers".to_owned()),
            Reason::NameLimit => {
                (fix.name.clone(), "the name is new, and the fleet has names_max names".to_owned())
            }
            Reason::Unspecified => Default::default(),
        }
    }

    fn explain_position(&self, field: &str, fix: &v1::Fix) -> (String, String) {
        let bounds = fleet_space::space(&self.fleet).map(|space| {
            let (bounds, is_geographic) = (space.bounds(), space.is_geographic());
            let (x_max, y_max) = space.to_api(bounds.x_max, bounds.y_max);
            if is_geographic { (-180.0, 180.0, -90.0, 90.0) } else { (0.0, x_max, 0.0, y_max) }
        });
        let Ok((x_min, x_max, y_min, y_max)) = bounds else { return Default::default() };
        let is_y = field == "y" || (field != "x" && (x_min..=x_max).contains(&fix.x));
        let (value, min, max) = if is_y { (fix.y, y_min, y_max) } else { (fix.x, x_min, x_max) };
        let is_geographic = fleet_space::is_geographic(&self.fleet);
        let is_swapped =
            is_geographic && (x_min..=x_max).contains(&fix.y) && (y_min..=y_max).contains(&fix.x);
        let is_scaled = is_geographic && value.abs() > 1e3 && value.abs() <= max * 1e7;
        // ITU-R M.1371: longitude 181 and latitude 91 mean "not available".
        let unavailable: f64 = if is_y { 91.0 } else { 181.0 };
        let is_unavailable = is_geographic && (value - unavailable).abs() < 1e-9;
        let looks = if is_unavailable {
            "; AIS writes this where it has no position"
        } else if is_swapped {
            "; x and y look swapped"
        } else if is_scaled {
            "; it looks like a fraction of a degree or like metres"
        } else {
            ""
        };
        (value.to_string(), format!("it must be {min} to {max}{looks}"))
    }
}

/// Guesses that a time was read in a unit that is too small, as seconds in nanoseconds.
fn explain_factor(time_ms: i64) -> String {
    let mut factors = [1_000_000, 1_000_000_000].into_iter();
    let is_likely = |factor: &i64| {
        let time = time_ms.checked_mul(*factor).map(|time_ms| TimeUnit::of(time_ms as f64));
        time == Some(Some(TimeUnit::Milliseconds))
    };
    factors.find(is_likely).map_or_else(String::new, |factor| {
        format!(
            "; its unit may be wrong (--time-unit): times {factor} it is {}",
            rfc3339(time_ms * factor)
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(message: u64, row: u32, field: &str, reason: v1::RefusalReason) -> v1::RefusedRow {
        v1::RefusedRow { message, row, field: field.to_owned(), reason: reason.into() }
    }

    #[test]
    fn refused_rows_have_places_and_values() {
        let mut rows = RefusalFinder::new(&v1::Fleet::default());
        let fix = |time_ms, x, y| v1::Fix { time_ms, x, y, ..v1::Fix::default() };
        let first = RowBatch {
            fixes: vec![fix(1_795_590_000, 0.0, 0.0), fix(1_795_590_000_000, 60.0, 120.0)],
            places: vec![2, 5],
            ..RowBatch::default()
        };
        let second = RowBatch {
            fixes: vec![fix(1, 2.0, 3.0), fix(2, 0.0, 601_234_567.0)],
            places: vec![6, 9],
            ..RowBatch::default()
        };
        let (first, second) = (Arc::new(first), Arc::new(second));
        rows.sent(&first, 0..2);
        rows.sent(&second, 0..1);
        rows.sent(&second, 1..2);
        let mut totals = AckTotals {
            refused_rows: vec![
                refused(1, 0, "time_ms", v1::RefusalReason::TimeTooEarly),
                refused(1, 1, "y", v1::RefusalReason::OutsideSpace),
            ],
            messages_settled: 2,
            ..AckTotals::default()
        };
        rows.settle(&totals);
        totals.refused_rows.push(refused(3, 0, "block", v1::RefusalReason::OutsideSpace));
        totals.messages_settled = 3;
        rows.settle(&totals);
        let found = rows.found();
        assert_eq!(found.iter().map(|of| of.row).collect::<Vec<_>>(), [1, 2, 4]);
        assert_eq!(
            found.iter().map(|of| of.place).collect::<Vec<_>>(),
            [Some(2), Some(5), Some(9)]
        );
        assert_eq!(found[0].value, "1795590000");
        assert!(
            found[0].detail.contains("as milliseconds it looks like seconds"),
            "{}",
            found[0].detail
        );
        assert!(found[0].detail.contains("2000-01-01T00:00:00"), "{}", found[0].detail);
        assert_eq!((found[1].value.as_str(), found[2].value.as_str()), ("120", "601234567"));
        assert_eq!(found[1].detail, "it must be -90 to 90; x and y look swapped");
        assert!(rows.sent.is_empty() && rows.rows_sent() == 4);
    }

    #[test]
    fn a_time_in_a_unit_that_is_too_small_is_guessed() {
        // Seconds read as microseconds and as nanoseconds.
        for (time_ms, factor) in [(1_795_590, 1_000_000), (1_795, 1_000_000_000)] {
            let guess = explain_factor(time_ms);
            assert!(guess.contains(&format!("times {factor} it is 2026-11-")), "{guess}");
        }
        for time_ms in [0, -5, 30, i64::MAX, i64::MIN] {
            assert_eq!(explain_factor(time_ms), "");
        }
    }
}
