//! The fixes of some objects in the order of time.

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};

use super::budget::QueryBudget;
use crate::error::HistoryError;
use crate::version::{Runs, Version};

/// Fixes of objects between two times, both included: object after object in the order of the
/// request, times ascending.
#[derive(Debug)]
pub struct Trajectory {
    version: Arc<Version>,
    window_ms: (i64, i64),
    every_ms: i64,
    budget: QueryBudget,
    /// Objects that remain, the next one last.
    objects: Vec<u64>,
    partitions: Vec<Runs>,
    /// Index of the next partition to be read for the object.
    at: usize,
    /// Fixes of the object before this time are left out.
    due_ms: i64,
}

impl Trajectory {
    /// Most memory for each row of the budget, if the budget is a power of two. It covers the row
    /// in a list that doubles, in its sorted copy, and in the answer.
    pub const ROW_BYTES: usize = 4 * size_of::<FixRow>();

    /// Begins the trajectories of `objects`. With `every_ms` above 0, a fix is left out if less
    /// time has passed since the last one that is returned.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        objects: &[u64],
        (from_ms, to_ms): (i64, i64),
        every_ms: i64,
        budget: QueryBudget,
    ) -> Self {
        let partitions = version.partitions_in(from_ms, to_ms).cloned();
        let partitions = partitions.collect();
        let is_kept = |object: &u64| !version.is_erased(*object);
        let objects = objects.iter().rev().copied().filter(is_kept).collect();
        let window_ms = (from_ms, to_ms);
        let due_ms = i64::MIN;
        Self { version, window_ms, every_ms, budget, objects, partitions, at: 0, due_ms }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the fixes of one object in one partition, possibly none. Returns false at the end.
    ///
    /// # Errors
    /// As [`super::Scan::next`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        let Some(&object) = self.objects.last() else { return Ok(false) };
        let Some(runs) = self.partitions.get(self.at).cloned() else {
            self.objects.pop();
            (self.at, self.due_ms) = (0, i64::MIN);
            return Ok(true);
        };
        self.at += 1;
        let mut found: Vec<FixRow> = Vec::new();
        for file in runs.iter() {
            let zone = &file.entry.zone;
            if zone.meets_times(self.window_ms.0, self.window_ms.1) {
                let mut reader = self.version.reader(file)?;
                reader.fixes_of(object, self.window_ms, &mut self.budget, &mut found)?;
                self.budget.hold("fixes of one object in one partition", found.len())?;
            }
        }
        // The sort is stable, so of equal times the newest generation is last.
        found.sort_by_key(|row| row.time_ms);
        for (index, row) in found.iter().enumerate() {
            let next = found.get(index + 1);
            if next.is_none_or(|next| next.time_ms != row.time_ms) && row.time_ms >= self.due_ms {
                out.push_row(*row);
                if self.every_ms > 0 {
                    self.due_ms = row.time_ms.saturating_add(self.every_ms);
                }
            }
        }
        Ok(true)
    }
}
