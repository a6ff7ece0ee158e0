//! Accepted fixes, removals and clears in the order of their arrival, until they become runs.

use shoal_codec::FixRow;

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
    pub(crate) fn sort(&mut self, partition_ms: i64) {
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

    /// The fixes and removals of each partition, by its first time; sorted before.
    pub(crate) fn partitions(&self, partition_ms: i64) -> Vec<(i64, &[FixRow], &[(u64, i64)])> {
        let start = |time_ms: i64| time_ms.div_euclid(partition_ms) * partition_ms;
        let (mut rows, mut removals) = (&self.rows[..], &self.removals[..]);
        let mut partitions = Vec::new();
        loop {
            let starts = [rows.first().map(|row| row.time_ms), removals.first().map(|it| it.1)];
            let Some(first) = starts.into_iter().flatten().map(start).min() else { break };
            let fixes = rows.partition_point(|row| start(row.time_ms) == first);
            let ends = removals.partition_point(|(_, clock)| start(*clock) == first);
            partitions.push((first, &rows[..fixes], &removals[..ends]));
            (rows, removals) = (&rows[fixes..], &removals[ends..]);
        }
        partitions
    }
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
        batch.sort(1_000);
        let partitions = batch.partitions(1_000);
        let found: Vec<_> = partitions
            .iter()
            .map(|(start, rows, removals)| {
                (*start, rows.iter().map(|row| row.x).collect::<Vec<_>>(), removals.len())
            })
            .collect();
        assert_eq!(
            found,
            [(-1_000, vec![2], 0), (0, vec![4], 0), (1_000, vec![3], 0), (2_000, vec![], 2)]
        );
        batch.clear();
        assert!(batch.is_empty());
    }
}
