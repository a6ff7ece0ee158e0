//! The fixes of a window in the order of time.
//!
//! Runs are ordered by object, so a part of the answer is found by a scan of its partition that
//! keeps the least rows; a partition with more rows than the budget holds is scanned again.

use std::cmp::Reverse;
use std::sync::Arc;

use shoal_codec::{ColumnSet, FixColumns, FixRow};

use super::budget::QueryBudget;
use super::row_filter::RowFilter;
use crate::error::HistoryError;
use crate::version::{Runs, Version};

/// Order of the answer; of equal identity the newest generation comes first.
type Key = (i64, u64, Reverse<u64>);

/// Fixes between two times, both included, by (time, object).
#[derive(Debug)]
pub struct Replay<F> {
    version: Arc<Version>,
    window_ms: (i64, i64),
    filter: F,
    budget: QueryBudget,
    /// Partitions that remain, the one that is read last.
    partitions: Vec<Runs>,
    /// The last identity that was returned.
    after: Option<(i64, u64)>,
}

/// The least rows of a partition.
struct Least {
    rows: Vec<(Key, FixRow)>,
    rows_max: usize,
    /// Rows from this key on are not kept.
    end: Option<Key>,
}

impl Least {
    fn push(&mut self, key: Key, row: FixRow) {
        if self.end.is_some_and(|end| key >= end) {
            return;
        }
        self.rows.push((key, row));
        if self.rows.len() >= self.rows_max.saturating_mul(2) {
            self.cut();
        }
    }

    /// Keeps the least rows only.
    fn cut(&mut self) {
        if self.rows.len() > self.rows_max {
            let (_, (end, _), _) =
                self.rows.select_nth_unstable_by_key(self.rows_max, |(key, _)| *key);
            self.end = Some(*end);
            self.rows.truncate(self.rows_max);
        }
    }
}

impl<F: RowFilter> Replay<F> {
    /// Memory that each row of the budget, a power of two, takes at most: of twice as many, in a list
    /// that doubles, and in the answer.
    pub const ROW_BYTES: usize = 3 * size_of::<(Key, FixRow)>() + size_of::<FixRow>();

    /// Begins a replay from `from_ms` to `to_ms`.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        (from_ms, to_ms): (i64, i64),
        filter: F,
        budget: QueryBudget,
    ) -> Self {
        let partitions = version.partitions_in(from_ms, to_ms).rev();
        let partitions = partitions.cloned().collect();
        Self { version, window_ms: (from_ms, to_ms), filter, budget, partitions, after: None }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the next fixes, at most as many as the budget holds and possibly none; false at the
    /// end.
    ///
    /// # Errors
    /// As [`super::Scan::next`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        let Some(runs) = self.partitions.last().cloned() else { return Ok(false) };
        let mut least = Least { rows: Vec::new(), rows_max: self.budget.rows_max(), end: None };
        for file in runs.iter() {
            self.read(file, &mut least)?;
        }
        least.cut();
        if least.end.is_none() {
            self.partitions.pop();
        }
        let mut rows = least.rows;
        rows.sort_unstable_by_key(|(key, _)| *key);
        for ((time_ms, object, _), row) in rows {
            if self.after != Some((time_ms, object)) {
                self.after = Some((time_ms, object));
                let before = out.len();
                out.push_row(row);
                if self.version.is_erased(object) || !self.filter.matches(out, before) {
                    out.truncate(before);
                }
            }
        }
        Ok(true)
    }

    fn read(
        &mut self,
        file: &Arc<crate::run::RunFile>,
        least: &mut Least,
    ) -> Result<(), HistoryError> {
        let (from_ms, to_ms) = self.window_ms;
        let from_ms = self.after.map_or(from_ms, |(time_ms, _)| from_ms.max(time_ms));
        if !file.entry.zone.meets_times(from_ms, to_ms) {
            return Ok(());
        }
        let generation = Reverse(file.entry.generation);
        let mut reader = self.version.reader(file)?;
        let index = reader.index().clone();
        let mut tile = 0;
        while tile < index.zones.len() {
            let to_ms = least.end.map_or(to_ms, |(time_ms, ..)| to_ms.min(time_ms));
            let span = reader.span(tile);
            let zones = index.zones[span].iter();
            let wanted = zones.take_while(|zone| zone.meets_times(from_ms, to_ms)).count();
            let span = tile..tile + wanted;
            tile = span.end.max(tile + 1);
            if span.is_empty() {
                continue;
            }
            self.budget.take_tiles(span.len())?;
            let rows = reader.load(span, ColumnSet::ALL)?;
            for row in 0..rows.len() {
                let identity = (rows.time_ms[row], rows.object[row]);
                let is_next = self.after.is_none_or(|after| identity > after);
                if is_next && (from_ms..=to_ms).contains(&identity.0) {
                    least.push((identity.0, identity.1, generation), rows.row(row));
                }
            }
        }
        Ok(())
    }
}
