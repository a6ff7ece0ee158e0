//! The past of a fleet as its acknowledged changes give it: the oracle of the history's answers.
//!
//! It keeps every change with its epoch and answers as of any of them, by the rules of
//! `service/history/HISTORY.md`, section 1. The caller adds accepted rows only. Beyond a number of
//! changes it refuses more: it never forgets a part of the past.

use std::collections::{BTreeMap, BTreeSet};

use shoal_codec::FixRow;
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
    /// By object, time and epoch; of equal ones the last to arrive.
    fixes: BTreeMap<(u64, i64, u64), FixRow>,
    /// Their keys by time.
    by_time: BTreeSet<(i64, u64, u64)>,
    /// Epochs by object (none: a clear) and the clock at which the removal acted.
    removals: BTreeMap<(Option<u64>, i64), u64>,
    ttl_ms: Option<i64>,
    changes_max: usize,
}

impl Past {
    /// A past without changes. Without `ttl_ms` fixes do not expire.
    #[must_use]
    pub fn new(ttl_ms: Option<i64>, changes_max: usize) -> Self {
        let (fixes, by_time, removals) = (BTreeMap::new(), BTreeSet::new(), BTreeMap::new());
        Self { fixes, by_time, removals, ttl_ms, changes_max }
    }

    /// Adds the changes of an epoch with their outcomes; `clock_ms` is the clock after it.
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
                request => unreachable!("nothing sends {request:?}"),
            }
        }
        Ok(())
    }

    /// Adds an accepted row of an epoch; of one epoch in the order of arrival.
    ///
    /// # Errors
    /// [`PastFull`] if the past has `changes_max` changes.
    pub fn fix(&mut self, epoch: u64, row: FixRow) -> Result<(), PastFull> {
        self.reserve()?;
        self.fixes.insert((row.object, row.time_ms, epoch), row);
        self.by_time.insert((row.time_ms, row.object, epoch));
        Ok(())
    }

    /// Adds a removal, or a clear without an object, with the clock after its cycle.
    ///
    /// # Errors
    /// [`PastFull`] as for a fix.
    pub fn remove(
        &mut self,
        epoch: u64,
        object: Option<u64>,
        clock_ms: i64,
    ) -> Result<(), PastFull> {
        self.reserve()?;
        self.removals.entry((object, clock_ms)).or_insert(epoch);
        Ok(())
    }

    fn reserve(&self) -> Result<(), PastFull> {
        let is_full = self.fixes.len() + self.removals.len() >= self.changes_max;
        if is_full { Err(PastFull { max: self.changes_max }) } else { Ok(()) }
    }

    /// The fixes of an object within a window, as of an epoch, times ascending.
    #[must_use]
    pub fn trajectory(&self, epoch: u64, object: u64, window_ms: (i64, i64)) -> Vec<FixRow> {
        let (from_ms, to_ms) = window_ms;
        let mut rows: Vec<FixRow> = Vec::new();
        if from_ms > to_ms {
            return rows;
        }
        let range = self.fixes.range((object, from_ms, 0)..=(object, to_ms, u64::MAX));
        for (_, row) in range.filter(|((.., arrived), _)| *arrived <= epoch) {
            match rows.last_mut().filter(|last| last.time_ms == row.time_ms) {
                Some(last) => *last = *row,
                None => rows.push(*row),
            }
        }
        rows
    }

    /// The fixes in a region within a window, as of an epoch, by (time, object).
    #[must_use]
    pub fn passed(&self, epoch: u64, region: &Region, window_ms: (i64, i64)) -> Vec<FixRow> {
        let (from_ms, to_ms) = window_ms;
        let mut rows: Vec<FixRow> = Vec::new();
        if from_ms > to_ms {
            return rows;
        }
        let range = self.by_time.range((from_ms, 0, 0)..=(to_ms, u64::MAX, u64::MAX));
        for (time_ms, object, arrived) in range.filter(|(.., arrived)| *arrived <= epoch) {
            let row = self.fixes[&(*object, *time_ms, *arrived)];
            match rows.last_mut() {
                Some(last) if (last.object, last.time_ms) == (*object, *time_ms) => *last = row,
                _ => rows.push(row),
            }
        }
        rows.retain(|row| region.contains(row.x, row.y));
        rows
    }

    /// Every object with a fix, whatever its epoch, ascending.
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

    /// The record of an object at a moment, as of an epoch.
    #[must_use]
    pub fn as_of(&self, epoch: u64, object: u64, time_ms: i64) -> Option<FixRow> {
        let range = self.fixes.range((object, i64::MIN, 0)..=(object, time_ms, u64::MAX));
        let (_, row) = range.rev().find(|((.., arrived), _)| *arrived <= epoch)?;
        let is_fresh = self.ttl_ms.is_none_or(|ttl_ms| time_ms - row.time_ms <= ttl_ms);
        let is_removed = [None, Some(object)].into_iter().any(|object| {
            let mut ends = self.removals.range((object, row.time_ms)..=(object, time_ms));
            ends.any(|(_, acted)| *acted <= epoch)
        });
        (is_fresh && !is_removed).then_some(*row)
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
        // Older than the clock of the removal: ended, whenever it arrives.
        past.fix(3, row(7, 105, 2)).unwrap();
        past.fix(4, row(7, 120, 3)).unwrap();
        past.remove(5, None, 130).unwrap();
        assert_eq!(past.as_of(1, 7, 110), Some(row(7, 100, 1)));
        assert_eq!(past.as_of(2, 7, 109), Some(row(7, 100, 1)));
        assert_eq!(past.as_of(2, 7, 110), None);
        assert_eq!(past.as_of(3, 7, 115), None);
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
