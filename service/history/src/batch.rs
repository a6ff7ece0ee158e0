//! Accepted fixes, removals and clears in the order of their arrival, until they become runs.
//!
//! A batch is sorted when it is sealed. Its memory is proportional to its rows and removals.

use std::borrow::Cow;
use std::collections::HashMap;

use shoal_codec::FixRow;

use crate::error::HistoryError;
use crate::partition::Partition;
use crate::removal::{EVERY_OBJECT, Mark, Removal, Return, keep_last, sort_returns};

/// What arrived since the last seal.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    rows: Vec<FixRow>,
    removals: Vec<Removal>,
    /// How many rows arrived before each removal.
    rows_before: Vec<usize>,
    /// Number of removals whose cycle has ended; their clocks are set.
    ended: usize,
    returns: Vec<Return>,
    is_arranged: bool,
}

/// Summary of the existing runs when a batch is sealed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Before {
    /// The greatest time of a fix.
    pub(crate) newest_ms: i64,
    /// The greatest reach of a removal.
    pub(crate) reach_ms: i64,
    /// Number of the next removal.
    pub(crate) next_removal: u64,
}

impl Batch {
    /// Appends an accepted fix: applied, superseded or late.
    ///
    /// # Panics
    /// If its object is `u64::MAX`, which no accepted fix has.
    pub fn fix(&mut self, row: FixRow) {
        assert_ne!(row.object, EVERY_OBJECT, "the engine refuses this id");
        self.rows.push(row);
    }

    /// Appends the removal of an object. It acts at the clock after its cycle.
    ///
    /// # Panics
    /// If the object is `u64::MAX`.
    pub fn removal(&mut self, object: u64) {
        assert_ne!(object, EVERY_OBJECT, "no object has this id");
        self.remove(object);
    }

    /// Appends the removal of all objects. It acts at the clock after its cycle.
    pub fn clear_all(&mut self) {
        self.remove(EVERY_OBJECT);
    }

    fn remove(&mut self, object: u64) {
        let mark = Mark { number: 0, reach_ms: i64::MIN };
        self.removals.push(Removal { object, clock_ms: i64::MIN, mark });
        self.rows_before.push(self.rows.len());
    }

    /// Ends a cycle with the fleet's clock after it.
    pub fn end_cycle(&mut self, clock_ms: i64) {
        for removal in &mut self.removals[self.ended..] {
            removal.clock_ms = clock_ms;
        }
        self.ended = self.removals.len();
    }

    /// Number of fixes and removals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() + self.removals.len()
    }

    /// Whether nothing arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Removes everything and keeps the allocations.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.removals.clear();
        self.rows_before.clear();
        self.returns.clear();
        (self.ended, self.is_arranged) = (0, false);
    }

    /// Numbers the removals and lists the returns. Repeated calls change nothing. Must be called
    /// before [`Self::parts`] sorts the rows. `last_removals` returns, for ascending objects, the
    /// last removals in the runs whose reach is at least the given time. Returns the number of the
    /// next removal.
    ///
    /// # Errors
    /// Errors of `last_removals`.
    pub(crate) fn arrange(
        &mut self,
        before: Before,
        last_removals: impl FnOnce(&[u64], i64) -> Result<HashMap<u64, Mark>, HistoryError>,
    ) -> Result<u64, HistoryError> {
        assert_eq!(self.ended, self.removals.len(), "a batch has whole cycles");
        if !self.is_arranged {
            let within = || self.rows.iter().filter(|row| row.time_ms <= before.reach_ms);
            let last = if let Some(from_ms) = within().map(|row| row.time_ms).min() {
                let mut sought: Vec<u64> = within().map(|row| row.object).collect();
                sought.sort_unstable();
                sought.dedup();
                last_removals(&sought, from_ms)?
            } else {
                HashMap::new()
            };
            if !last.is_empty() || !self.removals.is_empty() {
                self.follow_arrival(before, last);
            }
            self.is_arranged = true;
        }
        Ok(before.next_removal + self.removals.len() as u64)
    }

    fn follow_arrival(&mut self, before: Before, last: HashMap<u64, Mark>) {
        let in_runs = |(object, mark)| (object, LastRemoval { mark, idle_ms: None });
        let mut arrival = Arrival {
            // No removal has a smaller reach than one before it.
            newest_ms: before.newest_ms.max(before.reach_ms),
            last: last.into_iter().map(in_runs).collect(),
            returns: std::mem::take(&mut self.returns),
        };
        let (mut number, mut at) = (before.next_removal, 0);
        let mut kept = Vec::with_capacity(self.removals.len());
        for (removal, rows_before) in self.removals.iter().zip(&self.rows_before) {
            self.rows[at..*rows_before].iter().for_each(|row| arrival.fix(row));
            at = *rows_before;
            let mark = Mark { number, reach_ms: arrival.newest_ms };
            let removal = Removal { mark, ..*removal };
            if arrival.remove(&removal) {
                kept.push(removal);
                number += 1;
            }
        }
        self.rows[at..].iter().for_each(|row| arrival.fix(row));
        self.ended = kept.len();
        (self.removals, self.returns) = (kept, arrival.returns);
        self.rows_before.clear();
    }

    /// Sorts fixes by (partition, object, time) and keeps the last to arrive of equal identities.
    /// Sorts removals by (partition, object, clock), and returns like fixes.
    fn sort(&mut self, partition_ms: i64) {
        let partition = |time_ms: i64| time_ms.div_euclid(partition_ms);
        // Stable: rows of equal identity stay in the order of arrival.
        self.rows.sort_by_key(|row| (partition(row.time_ms), row.object, row.time_ms));
        keep_last(&mut self.rows, |row| (row.object, row.time_ms));
        self.removals.sort_unstable_by_key(|removal| (partition(removal.time_ms()), *removal));
        sort_returns(&mut self.returns);
        self.returns.sort_by_key(|returned| partition(returned.time_ms));
    }

    /// Splits the batch by partition; the rows of each part are sorted. `choose` gets the ascending
    /// partitions of the shortest length and may replace them by longer ones.
    pub(crate) fn parts(
        &mut self,
        partition_ms: i64,
        choose: impl FnOnce(&mut [Filled]),
    ) -> Vec<Part<'_>> {
        self.sort(partition_ms);
        let start = |time_ms: i64| Partition::of(time_ms, partition_ms).start_ms;
        let (mut rows, mut removals) = (&self.rows[..], &self.removals[..]);
        let mut returns = &self.returns[..];
        let (mut filled, mut shortest) = (Vec::new(), Vec::new());
        loop {
            let starts =
                [rows.first().map(|row| row.time_ms), removals.first().map(Removal::time_ms)];
            let Some(first) = starts.into_iter().flatten().map(start).min() else { break };
            let fixes = rows.partition_point(|row| start(row.time_ms) == first);
            let ends = removals.partition_point(|removal| start(removal.time_ms()) == first);
            let back = returns.partition_point(|returned| start(returned.time_ms) == first);
            let partition = Partition::of(first, partition_ms);
            let newest_ms = rows[..fixes].iter().map(|row| row.time_ms).max();
            filled.push(Filled { partition, rows: fixes, newest_ms });
            shortest.push((&rows[..fixes], &removals[..ends], &returns[..back]));
            (rows, removals, returns) = (&rows[fixes..], &removals[ends..], &returns[back..]);
        }
        choose(&mut filled);
        let mut parts: Vec<Part<'_>> = Vec::new();
        for (Filled { partition, .. }, (rows, removals, returns)) in filled.iter().zip(shortest) {
            match parts.last_mut().filter(|part| part.partition == *partition) {
                Some(part) => {
                    part.rows.to_mut().extend_from_slice(rows);
                    part.removals.to_mut().extend_from_slice(removals);
                    part.returns.to_mut().extend_from_slice(returns);
                }
                None => parts.push(Part {
                    partition: *partition,
                    rows: Cow::Borrowed(rows),
                    removals: Cow::Borrowed(removals),
                    returns: Cow::Borrowed(returns),
                }),
            }
        }
        for part in &mut parts {
            // Only parts joined from several shortest partitions are owned; these are sorted again.
            if let Cow::Owned(rows) = &mut part.rows {
                rows.sort_unstable_by_key(|row| (row.object, row.time_ms));
            }
            if let Cow::Owned(removals) = &mut part.removals {
                removals.sort_unstable();
            }
            if let Cow::Owned(returns) = &mut part.returns {
                returns.sort_unstable();
            }
        }
        parts
    }
}

/// A partition with fixes or removals of the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Filled {
    pub(crate) partition: Partition,
    /// Its fixes.
    pub(crate) rows: usize,
    /// The greatest time of its fixes; `None` without fixes.
    pub(crate) newest_ms: Option<i64>,
}

/// The fixes, removals and returns of one partition.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// The partition.
    pub(crate) partition: Partition,
    /// Fixes, (object, time) ascending.
    pub(crate) rows: Cow<'a, [FixRow]>,
    /// Removals, (object, clock) ascending.
    pub(crate) removals: Cow<'a, [Removal]>,
    /// Returns, (object, time) ascending.
    pub(crate) returns: Cow<'a, [Return]>,
}

/// A walk through a batch in the order of arrival.
struct Arrival {
    newest_ms: i64,
    /// Last removal by object; the last clear is under [`EVERY_OBJECT`].
    last: HashMap<u64, LastRemoval>,
    returns: Vec<Return>,
}

/// The last removal of an object, or the last clear.
struct LastRemoval {
    mark: Mark,
    /// Its clock; `None` once a fix of the object, or any fix for a clear, has arrived after it.
    idle_ms: Option<i64>,
}

impl Arrival {
    fn fix(&mut self, row: &FixRow) {
        self.newest_ms = self.newest_ms.max(row.time_ms);
        let mut mark = None;
        for key in [row.object, EVERY_OBJECT] {
            if let Some(last) = self.last.get_mut(&key) {
                last.idle_ms = None;
                mark = mark.max(Some(last.mark));
            }
        }
        let is_within = |mark: &Mark| row.time_ms <= mark.reach_ms;
        if let Some(Mark { number, .. }) = mark.filter(is_within) {
            let (object, time_ms) = (row.object, row.time_ms);
            self.returns.push(Return { object, time_ms, number });
        }
    }

    /// Records a removal. False if it has no effect: no fix of the object arrived since its last
    /// removal, whose clock is not later.
    fn remove(&mut self, &Removal { object, clock_ms, mark }: &Removal) -> bool {
        let idle_ms = self.last.get(&object).and_then(|last| last.idle_ms);
        if idle_ms.is_some_and(|idle_ms| idle_ms <= clock_ms) {
            return false;
        }
        self.last.insert(object, LastRemoval { mark, idle_ms: Some(clock_ms) });
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: Before = Before { newest_ms: i64::MIN, reach_ms: i64::MIN, next_removal: 9 };

    #[test]
    fn equal_identities_keep_the_last_to_arrive_and_partitions_are_cut() {
        let mut batch = Batch::default();
        for (object, time_ms, x) in [(7, 1_500, 1), (3, -1, 2), (7, 1_500, 3), (7, 900, 4)] {
            batch.fix(FixRow::new(object, time_ms, x, 0));
        }
        batch.removal(3);
        batch.clear_all();
        // No fix of the object arrived since its last removal.
        batch.removal(3);
        batch.end_cycle(2_000);
        assert_eq!(batch.len(), 7);
        let next = batch.arrange(BEFORE, |_, _| unreachable!("no run has a removal")).unwrap();
        assert_eq!((next, batch.len()), (11, 6));
        let mut found = |coarse_from: i64| {
            let parts = batch.parts(1_000, |filled| {
                for Filled { partition, .. } in filled {
                    if partition.start_ms >= coarse_from {
                        *partition = Partition::of(partition.start_ms, 8_000);
                    }
                }
            });
            let seen = |part: &Part<'_>| {
                let xs: Vec<i32> = part.rows.iter().map(|row| row.x).collect();
                (part.partition.start_ms, xs, part.removals.len())
            };
            parts.iter().map(seen).collect::<Vec<_>>()
        };
        let shortest =
            [(-1_000, vec![2], 0), (0, vec![4], 0), (1_000, vec![3], 0), (2_000, vec![], 2)];
        assert_eq!(found(i64::MAX), shortest);
        assert_eq!(found(0), [(-1_000, vec![2], 0), (0, vec![4, 3], 2)]);
        batch.clear();
        assert!(batch.is_empty());
    }

    #[test]
    fn fixes_within_the_reach_of_an_earlier_removal_return() {
        let mut batch = Batch::default();
        let fix = |batch: &mut Batch, object, time_ms| {
            batch.fix(FixRow::new(object, time_ms, 0, 0));
        };
        // Object 1 was removed by the runs, 2 and 3 were not.
        fix(&mut batch, 1, 60);
        fix(&mut batch, 1, 61);
        fix(&mut batch, 2, 60);
        batch.removal(2);
        fix(&mut batch, 2, 70);
        fix(&mut batch, 2, 71);
        batch.end_cycle(500);
        fix(&mut batch, 3, 90);
        batch.clear_all();
        fix(&mut batch, 2, 70);
        fix(&mut batch, 3, 91);
        batch.end_cycle(500);
        let before = Before { reach_ms: 60, newest_ms: 70, ..BEFORE };
        let next = batch.arrange(before, |objects, from_ms| {
            assert_eq!((objects, from_ms), (&[1, 2][..], 60));
            Ok(HashMap::from([(1, Mark { number: 4, reach_ms: 60 })]))
        });
        assert_eq!(next.unwrap(), 11);
        let parts = batch.parts(1_000, |_| ());
        assert_eq!(parts.len(), 1);
        let removal = |object, number, reach_ms| Removal {
            object,
            clock_ms: 500,
            mark: Mark { number, reach_ms },
        };
        assert_eq!(*parts[0].removals, [removal(2, 9, 70), removal(EVERY_OBJECT, 10, 90)]);
        let returned = |object, time_ms, number| Return { object, time_ms, number };
        assert_eq!(*parts[0].returns, [returned(1, 60, 4), returned(2, 70, 10)]);
    }
}
