//! What should the fleet hold after an epoch?
//!
//! A map from object to record that follows the words of `shoal_engine::Backend` for the
//! acknowledged changes of one epoch after the other; a unit test holds it equal to the engine's
//! model. It uses neither the model's map (expiry there costs a scan a cycle) nor any index of the
//! product. Changes of one object must come in their order; objects stay on one connection, so they
//! do.

use shoal_codec::FixRow;
use shoal_engine::{RowValidator, Space};

use super::event::SentRows;
use super::id_hash::IdMap;
use super::outcome::Outcome;

/// The expected state of one fleet.
#[derive(Debug)]
pub struct Oracle {
    space: Space,
    judge: RowValidator,
    ttl_ms: Option<i64>,
    clock_ms: i64,
    rows: Vec<FixRow>,
    places: IdMap<usize>,
}

/// One acknowledged change of an epoch.
#[derive(Clone, Debug)]
pub enum Change {
    /// The rows of messages, each with its number on its stream.
    Rows(Vec<(u64, SentRows)>),
    /// Removals, in order.
    Remove(Vec<u64>),
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
    touched: IdMap<Touched>,
    outcomes: Vec<Outcome>,
    time_max_ms: i64,
}

impl Oracle {
    /// An empty fleet whose clock stands at `clock_ms`; event times after `time_max_ms` are
    /// refused.
    #[must_use]
    pub fn new(space: Space, ttl_ms: Option<i64>, clock_ms: i64, time_max_ms: i64) -> Self {
        Self {
            judge: RowValidator::new(&space, time_max_ms),
            space,
            ttl_ms,
            clock_ms,
            rows: Vec::new(),
            places: IdMap::default(),
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
        self.ttl_ms.is_none_or(|ttl_ms| self.clock_ms.saturating_sub(row.time_ms) <= ttl_ms)
    }

    /// Applies all changes of one epoch and tells what should have become of each.
    pub fn apply<'a>(&mut self, changes: impl IntoIterator<Item = &'a Change>) -> Vec<Outcome> {
        let mut arrivals = Arrivals {
            oracle: self,
            touched: IdMap::default(),
            outcomes: Vec::new(),
            time_max_ms: self.clock_ms,
        };
        for change in changes {
            arrivals.outcomes.push(Outcome::default());
            match change {
                Change::Rows(messages) => {
                    messages.iter().for_each(|(number, rows)| arrivals.message(*number, rows));
                }
                Change::Remove(objects) => arrivals.removals(objects),
            }
        }
        let Arrivals { touched, mut outcomes, time_max_ms, .. } = arrivals;
        self.clock_ms = time_max_ms;
        for (object, touched) in touched {
            self.settle(object, &touched, &mut outcomes);
        }
        outcomes
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
    fn message(&mut self, number: u64, message: &SentRows) {
        for index in 0..message.columns.len() {
            let row = message.row(index);
            let Some(reason) = self.oracle.judge.validate_row(&row) else {
                self.row(row);
                continue;
            };
            self.outcome().refuse(number, index as u32, reason);
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
            Touched { start, exists: start.is_some(), winner: None }
        })
    }

    fn row(&mut self, row: FixRow) {
        self.time_max_ms = self.time_max_ms.max(row.time_ms);
        let change = self.outcomes.len() - 1;
        let touched = self.touch(row.object);
        touched.exists = true;
        if touched.start.is_some_and(|start| row.time_ms < start.time_ms) {
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
            let gone = Touched { start: None, exists: false, winner: None };
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
