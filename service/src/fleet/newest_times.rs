//! The newest event times of rows, with their objects.
//!
//! Tells whether a second row confirms the newest time. The size is constant; the result is exact
//! and does not depend on the order of the rows.

use shoal_codec::FixColumns;

/// Rows of a group; a group whose times are all too old is skipped as a whole.
const ROWS_AT_ONCE: usize = 64;

/// The time and the object of a row.
type TimeOf = (i64, u64);

/// See the file's head. Times are Unix milliseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NewestTimes {
    /// The newest row.
    newest: Option<TimeOf>,
    /// The newest row of another object.
    other: Option<TimeOf>,
    /// The newest time of that object before its newest.
    earlier_ms: Option<i64>,
}

impl NewestTimes {
    /// The newest time.
    #[must_use]
    pub fn newest_ms(&self) -> Option<i64> {
        self.newest.map(|(time_ms, _)| time_ms)
    }

    /// The newest time that a second row confirms. This is the newest time of an object other than
    /// that of the newest row. If all rows are of one object, it is the time before the newest.
    #[must_use]
    pub fn confirmed_ms(&self) -> Option<i64> {
        self.other.map_or(self.earlier_ms, |(time_ms, _)| Some(time_ms))
    }

    /// Adds a row.
    pub fn add(&mut self, time_ms: i64, object: u64) {
        let row = Some((time_ms, object));
        match self.newest {
            None => self.newest = row,
            Some((newest_ms, newest_object)) if newest_object == object => {
                let earlier_ms = time_ms.min(newest_ms);
                if time_ms > newest_ms {
                    self.newest = row;
                }
                if time_ms != newest_ms {
                    self.earlier_ms = self.earlier_ms.max(Some(earlier_ms));
                }
            }
            // Equal times are ordered by object, so that the order of the rows does not matter.
            before if before < row => {
                (self.newest, self.other, self.earlier_ms) = (row, before, None);
            }
            _ => self.other = self.other.max(row),
        }
    }

    /// Adds rows.
    pub fn add_columns(&mut self, columns: &FixColumns) {
        let times = columns.time_ms.chunks(ROWS_AT_ONCE);
        for (times, objects) in times.zip(columns.object.chunks(ROWS_AT_ONCE)) {
            let greatest = times.iter().copied().max();
            // Skip groups of rows that are all older than the confirmed time.
            if self.other.is_some() && greatest < self.confirmed_ms() {
                continue;
            }
            times.iter().zip(objects).for_each(|(time_ms, object)| self.add(*time_ms, *object));
        }
    }

    /// Adds the rows of `later`.
    pub fn merge(&mut self, later: &Self) {
        let Some((time_ms, object)) = later.newest else { return };
        later.earlier_ms.into_iter().for_each(|time_ms| self.add(time_ms, object));
        later.other.into_iter().for_each(|(time_ms, object)| self.add(time_ms, object));
        self.add(time_ms, object);
    }
}

#[cfg(test)]
mod tests {
    use shoal_codec::FixRow;

    use shoal_testkit::Random;

    use super::*;

    /// The same times, found by sorting all rows.
    fn naive(rows: &[TimeOf]) -> (Option<i64>, Option<i64>) {
        let newest = rows.iter().copied().max();
        let Some((newest_ms, object)) = newest else { return (None, None) };
        let other = rows.iter().filter(|row| row.1 != object).map(|row| row.0).max();
        let earlier = rows.iter().map(|row| row.0).filter(|time_ms| *time_ms < newest_ms).max();
        (Some(newest_ms), other.or(earlier))
    }

    #[test]
    fn times_are_those_of_a_sort() {
        let mut random = Random::new(7);
        let mut below = |end: u64| random.below(end);
        for round in 0..4_000 {
            let (count, objects, span) = (below(300), 1 + below(4), 1 + below(50));
            let rows: Vec<TimeOf> =
                (0..count).map(|_| (below(span) as i64, below(objects))).collect();
            let found = |times: &NewestTimes| (times.newest_ms(), times.confirmed_ms());
            let mut columns = FixColumns::new();
            rows.iter().for_each(|row| columns.push_row(FixRow::new(row.1, row.0, 0, 0)));
            let mut whole = NewestTimes::default();
            whole.add_columns(&columns);
            assert_eq!(found(&whole), naive(&rows), "round {round}: {rows:?}");
            let mut merged = NewestTimes::default();
            for part in rows.chunks(1 + below(80) as usize) {
                let mut times = NewestTimes::default();
                part.iter().for_each(|row| times.add(row.0, row.1));
                merged.merge(&times);
            }
            assert_eq!(found(&merged), naive(&rows), "round {round}: {rows:?}");
        }
    }
}
