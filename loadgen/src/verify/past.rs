//! The past of a fleet, built from its acknowledged changes: the oracle for answers of the history.
//!
//! It keeps every change with its epoch and answers as of any epoch, by the rules of
//! `service/history/HISTORY.md`, section 1. The caller adds accepted rows only. If the number of
//! changes reaches its maximum, an addition fails; no change is ever dropped.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::{FixRow, deadline_ms};
use shoal_engine::{Region, Request, RequestOutcome};

/// The past grew beyond the limit of its oracle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the oracle holds {max} changes, its limit: send fewer rows")]
pub struct PastFull {
    /// The limit.
    pub max: usize,
}

/// Every change of a fleet since the run began.
#[derive(Clone, Debug)]
pub struct Past {
    /// Fixes by (object, time, epoch). Of several fixes with the same key, the last to arrive is
    /// kept.
    fixes: BTreeMap<(u64, i64, u64), Arrived>,
    /// The keys of `fixes`, ordered by time.
    by_time: BTreeSet<(i64, u64, u64)>,
    /// Removals by object, in order of arrival; the key `None` holds clears.
    removals: BTreeMap<Option<u64>, Vec<Removal>>,
    changes: usize,
    ttl_ms: Option<i64>,
    changes_max: usize,
}

/// A fix and its position in the order of arrival of all changes.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    row: FixRow,
    place: usize,
}

/// A removal and its position in the order of arrival of all changes.
#[derive(Clone, Copy, Debug)]
struct Removal {
    epoch: u64,
    /// Clock of the fleet after the cycle of the removal, Unix milliseconds.
    clock_ms: i64,
    place: usize,
}

impl Past {
    /// A past without changes. Without `ttl_ms` fixes do not expire.
    #[must_use]
    pub fn new(ttl_ms: Option<i64>, changes_max: usize) -> Self {
        let (fixes, by_time, removals) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { fixes, by_time, removals, changes: 0, ttl_ms, changes_max }
    }

    /// Adds the changes of an epoch with their outcomes; `clock_ms` is the clock after the epoch.
    ///
    /// # Errors
    /// [`PastFull`] if the past has `changes_max` changes.
    pub fn add(
        &mut self,
        epoch: u64,
        requests: &[Request],
        outcomes: &[RequestOutcome],
        clock_ms: i64,
    ) -> Result<(), PastFull> {
        for (request, outcome) in requests.iter().zip(outcomes) {
            match request {
                Request::Fixes(columns) => {
                    let mut refused = outcome.refused.iter().map(|(row, _)| *row).peekable();
                    for row in 0..columns.len() {
                        if refused.next_if(|refused| *refused as usize == row).is_none() {
                            self.fix(epoch, columns.row(row))?;
                        }
                    }
                }
                Request::Remove(objects) => {
                    objects
                        .iter()
                        .try_for_each(|object| self.remove(epoch, Some(*object), clock_ms))?;
                }
                Request::Clear => self.remove(epoch, None, clock_ms)?,
                Request::Rewind => {}
                request => unreachable!("nothing sends {request:?}"),
            }
        }
        Ok(())
    }

    /// Adds an accepted row of an epoch. Rows of the same epoch must be added in order of arrival.
    ///
    /// # Errors
    /// [`PastFull`] if the past has `changes_max` changes.
    pub fn fix(&mut self, epoch: u64, row: FixRow) -> Result<(), PastFull> {
        let place = self.next_place()?;
        self.fixes.insert((row.object, row.time_ms, epoch), Arrived { row, place });
        self.by_time.insert((row.time_ms, row.object, epoch));
        Ok(())
    }

    /// Adds a removal, or a clear if `object` is `None`; `clock_ms` is the clock after its cycle.
    ///
    /// # Errors
    /// [`PastFull`] if the past has `changes_max` changes.
    pub fn remove(
        &mut self,
        epoch: u64,
        object: Option<u64>,
        clock_ms: i64,
    ) -> Result<(), PastFull> {
        let place = self.next_place()?;
        self.removals.entry(object).or_default().push(Removal { epoch, clock_ms, place });
        Ok(())
    }

    fn next_place(&mut self) -> Result<usize, PastFull> {
        if self.changes >= self.changes_max {
            return Err(PastFull { max: self.changes_max });
        }
        self.changes += 1;
        Ok(self.changes)
    }

    /// The fixes of an object within a window, as of an epoch, in ascending order of time.
    #[must_use]
    pub fn trajectory(&self, epoch: u64, object: u64, window_ms: (i64, i64)) -> Vec<FixRow> {
        let (from_ms, to_ms) = window_ms;
        let mut rows: Vec<FixRow> = Vec::new();
        if from_ms > to_ms {
            return rows;
        }
        let range = self.fixes.range((object, from_ms, 0)..=(object, to_ms, u64::MAX));
        for (_, Arrived { row, .. }) in range.filter(|((.., arrived), _)| *arrived <= epoch) {
            match rows.last_mut().filter(|last| last.time_ms == row.time_ms) {
                Some(last) => *last = *row,
                None => rows.push(*row),
            }
        }
        rows
    }

    /// The fixes in a region, or anywhere, within a window, as of an epoch, by (time, object).
    #[must_use]
    pub fn passed(
        &self,
        epoch: u64,
        region: Option<&Region>,
        window_ms: (i64, i64),
    ) -> Vec<FixRow> {
        let (from_ms, to_ms) = window_ms;
        let mut rows: Vec<FixRow> = Vec::new();
        if from_ms > to_ms {
            return rows;
        }
        let range = self.by_time.range((from_ms, 0, 0)..=(to_ms, u64::MAX, u64::MAX));
        for (time_ms, object, arrived) in range.filter(|(.., arrived)| *arrived <= epoch) {
            let row = self.fixes[&(*object, *time_ms, *arrived)].row;
            match rows.last_mut() {
                Some(last) if (last.object, last.time_ms) == (*object, *time_ms) => *last = row,
                _ => rows.push(row),
            }
        }
        rows.retain(|row| region.is_none_or(|region| region.contains(row.x, row.y)));
        rows
    }

    /// Every object with a fix in any epoch, ascending.
    #[must_use]
    pub fn objects(&self) -> Vec<u64> {
        let mut objects = Vec::new();
        let mut next = Some((0, i64::MIN, 0));
        while let Some(from) = next {
            let found = self.fixes.range(from..).next();
            next = found.and_then(|((object, ..), _)| {
                objects.push(*object);
                Some((object.checked_add(1)?, i64::MIN, 0))
            });
        }
        objects
    }

    /// The record of an object at `time_ms`, as of an epoch: the newest fix up to that time that
    /// arrived after the last removal or clear with a clock up to that time. `None` if it has
    /// expired.
    #[must_use]
    pub fn as_of(&self, epoch: u64, object: u64, time_ms: i64) -> Option<FixRow> {
        let acted = |removal: &&Removal| removal.epoch <= epoch && removal.clock_ms <= time_ms;
        let last = [None, Some(object)].into_iter().filter_map(|object| {
            let removals = self.removals.get(&object)?;
            Some(removals.iter().rev().find(acted)?.place)
        });
        let last = last.max().unwrap_or(0);
        let range = self.fixes.range((object, i64::MIN, 0)..=(object, time_ms, u64::MAX));
        let mut known = range.rev().filter(|((.., arrived), _)| *arrived <= epoch);
        let (_, Arrived { row, .. }) = known.find(|(_, arrived)| arrived.place > last)?;
        let is_fresh = time_ms <= deadline_ms(row.time_ms, row.valid_ms, self.ttl_ms);
        is_fresh.then_some(*row)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(object: u64, time_ms: i64, x: i32) -> FixRow {
        FixRow::new(object, time_ms, x, 0)
    }

    #[test]
    fn an_answer_shows_the_changes_up_to_its_epoch() {
        let mut past = Past::new(None, 10);
        past.fix(1, row(7, 100, 1)).unwrap();
        past.fix(3, row(7, 50, 2)).unwrap();
        past.fix(4, row(7, 100, 3)).unwrap();
        past.fix(4, row(7, 100, 4)).unwrap();
        assert_eq!(past.trajectory(0, 7, (0, 200)), []);
        assert_eq!(past.trajectory(2, 7, (0, 200)), [row(7, 100, 1)]);
        assert_eq!(past.trajectory(4, 7, (50, 100)), [row(7, 50, 2), row(7, 100, 4)]);
        assert_eq!(past.trajectory(4, 8, (0, 200)), []);
        assert_eq!(past.as_of(3, 7, 100), Some(row(7, 100, 1)));
        assert_eq!(past.as_of(4, 7, 99), Some(row(7, 50, 2)));
    }

    #[test]
    fn removals_clears_and_the_ttl_end_a_record() {
        let mut past = Past::new(Some(30), 10);
        past.fix(1, row(7, 100, 1)).unwrap();
        past.remove(2, Some(7), 110).unwrap();
        // This fix is older than the clock of the removal, but arrived after it, so the object
        // exists again.
        past.fix(3, row(7, 105, 2)).unwrap();
        past.fix(4, row(7, 120, 3)).unwrap();
        past.remove(5, None, 130).unwrap();
        assert_eq!(past.as_of(1, 7, 110), Some(row(7, 100, 1)));
        assert_eq!(past.as_of(2, 7, 109), Some(row(7, 100, 1)));
        assert_eq!(past.as_of(2, 7, 110), None);
        assert_eq!(past.as_of(3, 7, 115), Some(row(7, 105, 2)));
        assert_eq!(past.as_of(4, 7, 150), Some(row(7, 120, 3)));
        assert_eq!(past.as_of(4, 7, 151), None);
        assert_eq!(past.as_of(5, 7, 130), None);
        assert_eq!(past.trajectory(5, 7, (0, 200)).len(), 3);
    }

    #[test]
    fn a_full_past_refuses_more() {
        let mut past = Past::new(None, 1);
        past.fix(1, row(7, 100, 1)).unwrap();
        assert_eq!(past.fix(1, row(7, 101, 1)), Err(PastFull { max: 1 }));
        assert_eq!(past.remove(2, None, 101), Err(PastFull { max: 1 }));
    }
}
