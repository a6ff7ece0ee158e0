//! What should the fleet hold after an epoch?
//!
//! A map from object to record that follows the words of `shoal_engine::Backend` for the acknowledged
//! changes of one epoch after the other; a unit test holds it equal to the engine's model. It uses
//! neither the model's map (expiry there costs a scan a cycle) nor any index of the product. Changes
//! of one object must come in their order; objects stay on one connection, so they do.

use std::collections::HashMap;

use shoal_codec::FixRow;
use shoal_engine::{Judge, Space};
use shoal_proto::v1::{RefusedCount, RefusedRow, RowCounts};

use super::event::{Acked, Removed, SentRows};

/// Rows that an ack tells one by one; the server's limit.
const REFUSED_ROWS_TOLD_MAX: usize = 256;

/// The expected state of one fleet.
#[derive(Debug)]
pub struct Oracle {
    space: Space,
    judge: Judge,
    ttl_ms: Option<i64>,
    clock_ms: i64,
    rows: Vec<FixRow>,
    places: HashMap<u64, usize>,
}

/// One acknowledged change of an epoch.
#[derive(Debug)]
pub enum Change {
    /// Rows.
    Acked(Acked),
    /// Removals.
    Removed(Removed),
}

/// An object that an epoch has touched so far.
struct Touched {
    /// Its record at the start of the epoch; none once it was removed.
    start: Option<FixRow>,
    /// Whether it exists at this point of the order of arrival.
    exists: bool,
    /// The winner so far, and whose change it came in.
    winner: Option<(usize, FixRow)>,
}

/// An epoch while its changes arrive.
struct Arrivals<'a> {
    oracle: &'a Oracle,
    touched: HashMap<u64, Touched>,
    outcomes: Vec<Outcome>,
    time_max_ms: i64,
}

/// What should have become of a change.
#[derive(Debug, Default)]
struct Outcome {
    rows: RowCounts,
    refused_by_reason: [u64; shoal_engine::Refusal::COUNT],
    refused_rows: Vec<RefusedRow>,
    removed: u64,
    missing: u64,
}

impl Oracle {
    /// An empty fleet whose clock stands at `clock_ms`; event times after `time_max_ms` are refused.
    #[must_use]
    pub fn new(space: Space, ttl_ms: Option<i64>, clock_ms: i64, time_max_ms: i64) -> Self {
        Self {
            judge: Judge::new(&space, time_max_ms),
            space,
            ttl_ms,
            clock_ms,
            rows: Vec::new(),
            places: HashMap::new(),
        }
    }

    /// The space of all positions.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.space
    }

    /// The fleet's clock.
    #[must_use]
    pub fn clock_ms(&self) -> i64 {
        self.clock_ms
    }

    /// Every record that has not expired, in no order.
    pub fn rows(&self) -> impl Iterator<Item = &FixRow> {
        self.rows.iter().filter(|row| self.is_alive(row))
    }

    /// The record of one object.
    #[must_use]
    pub fn get(&self, object: u64) -> Option<&FixRow> {
        let row = &self.rows[*self.places.get(&object)?];
        self.is_alive(row).then_some(row)
    }

    /// Whether a record is young enough for the time to live.
    fn is_alive(&self, row: &FixRow) -> bool {
        self.ttl_ms
            .is_none_or(|ttl_ms| self.clock_ms.saturating_sub(row.time_ms) <= ttl_ms)
    }

    /// Applies all changes of one epoch; tells where their acks say something else than it expects.
    pub fn apply(&mut self, changes: &[Change]) -> Vec<String> {
        let mut arrivals = Arrivals {
            oracle: self,
            touched: HashMap::new(),
            outcomes: Vec::with_capacity(changes.len()),
            time_max_ms: self.clock_ms,
        };
        for change in changes {
            arrivals.outcomes.push(Outcome::default());
            match change {
                Change::Acked(acked) => arrivals.reports(acked),
                Change::Removed(removed) => arrivals.removals(&removed.objects),
            }
        }
        let Arrivals {
            touched,
            mut outcomes,
            time_max_ms,
            ..
        } = arrivals;
        self.clock_ms = time_max_ms;
        for (object, touched) in touched {
            self.settle(object, &touched, &mut outcomes);
        }
        let pairs = changes.iter().zip(&outcomes);
        pairs
            .filter_map(|(change, outcome)| outcome.difference(change))
            .collect()
    }

    /// Makes the winner of one object its record.
    fn settle(&mut self, object: u64, touched: &Touched, outcomes: &mut [Outcome]) {
        match touched.winner {
            Some((change, winner)) if touched.start == Some(winner) => {
                outcomes[change].rows.duplicate += 1;
            }
            Some((change, winner)) => {
                outcomes[change].rows.applied += 1;
                match self.places.get(&object) {
                    Some(place) => self.rows[*place] = winner,
                    None => {
                        self.places.insert(object, self.rows.len());
                        self.rows.push(winner);
                    }
                }
            }
            None if !touched.exists => self.forget(object),
            None => {}
        }
    }

    fn forget(&mut self, object: u64) {
        let Some(place) = self.places.remove(&object) else {
            return;
        };
        self.rows.swap_remove(place);
        if let Some(moved) = self.rows.get(place) {
            self.places.insert(moved.object, place);
        }
    }
}

impl Arrivals<'_> {
    /// The rows of all messages of one ack that did not fail.
    fn reports(&mut self, acked: &Acked) {
        for (number, message) in (acked.ack.first_message..).zip(&acked.messages) {
            if !acked
                .ack
                .failed
                .iter()
                .any(|failed| failed.message == number)
            {
                self.message(number, message);
            }
        }
    }

    fn message(&mut self, number: u64, message: &SentRows) {
        for index in 0..message.columns.len() {
            let row = message.row(index);
            let Some(reason) = self.oracle.judge.judge_row(&row) else {
                self.row(row);
                continue;
            };
            let outcome = self.outcome();
            outcome.rows.refused += 1;
            outcome.refused_by_reason[reason as usize] += 1;
            if outcome.refused_rows.len() < REFUSED_ROWS_TOLD_MAX {
                outcome.refused_rows.push(RefusedRow {
                    message: number,
                    row: index as u32,
                    field: String::new(),
                    reason: reason as i32,
                });
            }
        }
    }

    /// The outcome of the change that is arriving.
    fn outcome(&mut self) -> &mut Outcome {
        self.outcomes.last_mut().expect("a change is arriving")
    }

    fn touch(&mut self, object: u64) -> &mut Touched {
        let start = || self.oracle.get(object).copied();
        self.touched.entry(object).or_insert_with(|| {
            let start = start();
            Touched {
                start,
                exists: start.is_some(),
                winner: None,
            }
        })
    }

    fn row(&mut self, row: FixRow) {
        self.time_max_ms = self.time_max_ms.max(row.time_ms);
        let change = self.outcomes.len() - 1;
        let touched = self.touch(row.object);
        touched.exists = true;
        if touched
            .start
            .is_some_and(|start| row.time_ms < start.time_ms)
        {
            self.outcome().rows.late += 1;
            return;
        }
        // At equal time the later arrival wins.
        let loser = match touched.winner {
            Some((_, winner)) if row.time_ms < winner.time_ms => Some(change),
            before => {
                touched.winner = Some((change, row));
                before.map(|(change, _)| change)
            }
        };
        if let Some(loser) = loser {
            self.outcomes[loser].rows.superseded += 1;
        }
    }

    fn removals(&mut self, objects: &[u64]) {
        for object in objects {
            let gone = Touched {
                start: None,
                exists: false,
                winner: None,
            };
            let before = std::mem::replace(self.touch(*object), gone);
            if let Some((change, _)) = before.winner {
                self.outcomes[change].rows.superseded += 1;
            }
            let outcome = self.outcome();
            if before.exists {
                outcome.removed += 1;
            } else {
                outcome.missing += 1;
            }
        }
    }
}

impl Outcome {
    /// How the server's word differs from what is expected, if it does.
    fn difference(&self, change: &Change) -> Option<String> {
        match change {
            Change::Acked(acked) => self.ack_difference(acked),
            Change::Removed(Removed { response, .. }) => {
                let (expected, got) = (
                    (self.removed, self.missing),
                    (response.removed, response.missing),
                );
                (expected != got).then(|| {
                    format!(
                        "removal in epoch {}: expected (removed, missing) {expected:?}, the server \
                         said {got:?}",
                        response.epoch
                    )
                })
            }
        }
    }

    fn ack_difference(&self, acked: &Acked) -> Option<String> {
        let ack = &acked.ack;
        let got = ack.rows.unwrap_or_default();
        let mut expected = self.rows;
        if ack.first_epoch != ack.epoch {
            // How a merged range was divided over its epochs is not told, only the sum is certain.
            let settled =
                |rows: &RowCounts| rows.applied + rows.duplicate + rows.superseded + rows.late;
            if settled(&expected) == settled(&got) && expected.refused == got.refused {
                expected = got;
            }
        }
        let name = format!(
            "ack of messages {} to {} in epoch {}",
            ack.first_message, ack.last_message, ack.epoch
        );
        if expected != got {
            return Some(format!(
                "{name}: expected {expected:?}, the server said {got:?}"
            ));
        }
        let reasons = self
            .refused_by_reason
            .iter()
            .enumerate()
            .filter(|(_, rows)| **rows > 0);
        let reasons: Vec<_> = reasons
            .map(|(reason, rows)| RefusedCount {
                reason: reason as i32,
                rows: *rows,
            })
            .collect();
        if reasons != ack.refused_by_reason {
            let got = &ack.refused_by_reason;
            return Some(format!(
                "{name}: expected refusals {reasons:?}, the server said {got:?}"
            ));
        }
        let place = |row: &RefusedRow| (row.message, row.row, row.reason);
        let (expected, got) = (
            self.refused_rows.iter().map(place),
            ack.refused_rows.iter().map(place),
        );
        (!expected.clone().eq(got.clone())).then(|| {
            let (expected, got): (Vec<_>, Vec<_>) = (expected.collect(), got.collect());
            format!("{name}: expected refused rows {expected:?}, the server told {got:?}")
        })
    }
}
