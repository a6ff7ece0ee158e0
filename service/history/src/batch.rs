//! Accepted fixes, removals and clears in the order of their arrival, until they become runs.
//!
//! It is sorted once, when it is sealed; memory is that of its rows.

use std::borrow::Cow;

use shoal_codec::FixRow;

use crate::partition::Partition;

/// Stands for all objects in a list of removals; it is no object's id.
pub(crate) const EVERY_OBJECT: u64 = u64::MAX;

/// What arrived since the last seal.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    rows: Vec<FixRow>,
    /// Object and clock.
    removals: Vec<(u64, i64)>,
}

impl Batch {
    /// An accepted fix: applied, superseded or late.
    ///
    /// # Panics
    /// If its object is `u64::MAX`, which no accepted fix has.
    pub fn fix(&mut self, row: FixRow) {
        assert_ne!(row.object, EVERY_OBJECT, "the engine refuses this id");
        self.rows.push(row);
    }

    /// The removal of an object at a clock.
    ///
    /// # Panics
    /// If the object is `u64::MAX`.
    pub fn removal(&mut self, object: u64, clock_ms: i64) {
        assert_ne!(object, EVERY_OBJECT, "no object has this id");
        self.removals.push((object, clock_ms));
    }

    /// The removal of all objects at a clock.
    pub fn clear_all(&mut self, clock_ms: i64) {
        self.removals.push((EVERY_OBJECT, clock_ms));
    }

    /// Fixes and removals.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rows.len() + self.removals.len()
    }

    /// Whether nothing arrived.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets everything; allocations remain.
    pub fn clear(&mut self) {
        self.rows.clear();
        self.removals.clear();
    }

    /// Sorts fixes by (partition, object, time), of which the last to arrive remains, and removals
    /// by (partition, object, clock).
    fn sort(&mut self, partition_ms: i64) {
        let partition = |time_ms: i64| time_ms.div_euclid(partition_ms);
        // Stable: rows of equal identity stay in the order of arrival.
        self.rows.sort_by_key(|row| (partition(row.time_ms), row.object, row.time_ms));
        self.rows.dedup_by(|later, earlier| {
            let is_same = (later.object, later.time_ms) == (earlier.object, earlier.time_ms);
            if is_same {
                *earlier = *later;
            }
            is_same
        });
        self.removals.sort_unstable_by_key(|(object, clock)| (partition(*clock), *object, *clock));
        self.removals.dedup();
    }

    /// The fixes and removals of each partition, sorted: those of the shortest length, or longer
    /// ones that `partition_of` returns for a time.
    pub(crate) fn parts(
        &mut self,
        partition_ms: i64,
        partition_of: impl Fn(i64) -> Partition,
    ) -> Vec<Part<'_>> {
        self.sort(partition_ms);
        let start = |time_ms: i64| Partition::of(time_ms, partition_ms).start_ms;
        let (mut rows, mut removals) = (&self.rows[..], &self.removals[..]);
        let mut parts: Vec<Part<'_>> = Vec::new();
        loop {
            let starts = [rows.first().map(|row| row.time_ms), removals.first().map(|it| it.1)];
            let Some(first) = starts.into_iter().flatten().map(start).min() else { break };
            let fixes = rows.partition_point(|row| start(row.time_ms) == first);
            let ends = removals.partition_point(|(_, clock)| start(*clock) == first);
            let partition = partition_of(first);
            match parts.last_mut().filter(|part| part.partition == partition) {
                Some(part) => {
                    part.rows.to_mut().extend_from_slice(&rows[..fixes]);
                    part.removals.to_mut().extend_from_slice(&removals[..ends]);
                }
                None => parts.push(Part {
                    partition,
                    rows: Cow::Borrowed(&rows[..fixes]),
                    removals: Cow::Borrowed(&removals[..ends]),
                }),
            }
            (rows, removals) = (&rows[fixes..], &removals[ends..]);
        }
        for part in &mut parts {
            // Only those of several shortest partitions are owned.
            if let Cow::Owned(rows) = &mut part.rows {
                rows.sort_unstable_by_key(|row| (row.object, row.time_ms));
            }
            if let Cow::Owned(removals) = &mut part.removals {
                removals.sort_unstable();
            }
        }
        parts
    }
}

/// What arrived for one partition.
#[derive(Debug)]
pub(crate) struct Part<'a> {
    /// The partition.
    pub(crate) partition: Partition,
    /// Fixes, (object, time) ascending.
    pub(crate) rows: Cow<'a, [FixRow]>,
    /// Removals, (object, clock) ascending.
    pub(crate) removals: Cow<'a, [(u64, i64)]>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_identities_keep_the_last_to_arrive_and_partitions_are_cut() {
        let mut batch = Batch::default();
        for (object, time_ms, x) in [(7, 1_500, 1), (3, -1, 2), (7, 1_500, 3), (7, 900, 4)] {
            batch.fix(FixRow::new(object, time_ms, x, 0));
        }
        batch.removal(3, 2_000);
        batch.clear_all(2_000);
        batch.removal(3, 2_000);
        assert_eq!(batch.len(), 7);
        let mut found = |coarse_from: i64| {
            let of = |time_ms| {
                Partition::of(time_ms, [1_000, 8_000][usize::from(time_ms >= coarse_from)])
            };
            let parts = batch.parts(1_000, of);
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
}
