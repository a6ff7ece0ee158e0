//! The state at a past moment: each object's newest fix at or before it.
//!
//! Partitions are read backwards from the moment, and in each run only the tile that has the
//! newest fix of an object of which nothing newer is known. Objects are answered in ascending
//! parts that fit the budget.

use std::collections::HashMap;
use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};

use super::budget::QueryBudget;
use super::row_filter::RowFilter;
use crate::batch::EVERY_OBJECT;
use crate::error::HistoryError;
use crate::run::{ObjectEntry, RunReader};
use crate::version::{Runs, Version};

/// A past moment and the objects that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsOfQuery {
    /// The moment, Unix milliseconds.
    pub time_ms: i64,
    /// A fix older than this at the moment is not part of the state. Without it all partitions
    /// before the moment may have to be read.
    pub ttl_ms: Option<i64>,
    /// The objects; `None` for all.
    pub objects: Option<Vec<u64>>,
}

/// What is known of an object.
#[derive(Clone, Copy, Debug, Default)]
struct Candidate {
    /// Newest fix and the generation of its run.
    newest: Option<(FixRow, u64)>,
    /// The last removal at or before the moment; it ends fixes of this time too.
    removed_ms: Option<i64>,
    /// A later partition than that which is read has settled it.
    is_settled: bool,
}

/// The state at a moment, objects ascending.
#[derive(Debug)]
pub struct AsOf<F> {
    version: Arc<Version>,
    query: AsOfQuery,
    filter: F,
    budget: QueryBudget,
    /// Objects from this one on remain; `None` at the end.
    from: Option<u64>,
}

/// One part of the answer.
struct Part {
    /// Objects from the first to before the second.
    objects: (u64, u64),
    candidates: HashMap<u64, Candidate>,
    rows_max: usize,
    cleared_ms: Option<i64>,
}

impl Part {
    fn contains(&self, object: u64) -> bool {
        self.objects.0 <= object && object < self.objects.1
    }

    /// What is known of an object of this part.
    fn candidate(&mut self, object: u64) -> &mut Candidate {
        self.candidates.entry(object).or_default()
    }

    /// Ends the part earlier if it has too many objects.
    fn cut(&mut self) {
        if self.candidates.len() >= self.rows_max.saturating_mul(2) {
            let mut objects: Vec<u64> = self.candidates.keys().copied().collect();
            let (_, end, _) = objects.select_nth_unstable(self.rows_max);
            self.objects.1 = *end;
            self.candidates.retain(|object, _| *object < self.objects.1);
        }
    }
}

impl<F: RowFilter> AsOf<F> {
    /// Begins a query.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        mut query: AsOfQuery,
        filter: F,
        budget: QueryBudget,
    ) -> Self {
        if let Some(objects) = &mut query.objects {
            objects.sort_unstable();
            objects.dedup();
            objects.retain(|object| !version.is_erased(*object));
        }
        Self { version, query, filter, budget, from: Some(0) }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the states of the next objects that match the filter, at most twice as many as the
    /// budget holds and possibly none; false at the end.
    ///
    /// # Errors
    /// As [`super::Scan::next`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        let Some(from) = self.from else { return Ok(false) };
        let mut part = Part {
            objects: (from, EVERY_OBJECT),
            candidates: HashMap::new(),
            rows_max: self.budget.rows_max(),
            cleared_ms: None,
        };
        let oldest_ms = self.oldest_ms();
        let version = self.version.clone();
        for runs in version.partitions_in(oldest_ms, self.query.time_ms).rev() {
            self.read_partition(runs, &mut part)?;
            part.candidates.values_mut().for_each(|it| it.is_settled = true);
            // What is older than a clear is over.
            if part.cleared_ms.is_some() || self.is_complete(&part) {
                break;
            }
        }
        self.from = (part.objects.1 != EVERY_OBJECT).then_some(part.objects.1);
        self.answer(&part, out);
        Ok(true)
    }

    fn oldest_ms(&self) -> i64 {
        self.query.ttl_ms.map_or(i64::MIN, |ttl_ms| self.query.time_ms.saturating_sub(ttl_ms))
    }

    /// Whether all objects that are asked for are settled.
    fn is_complete(&self, part: &Part) -> bool {
        let objects = self.query.objects.as_ref();
        objects.is_some_and(|objects| {
            let mut asked = objects.iter().filter(|object| part.contains(**object));
            asked.all(|object| part.candidates.contains_key(object))
        })
    }

    fn read_partition(&mut self, runs: &Runs, part: &mut Part) -> Result<(), HistoryError> {
        let readers: Result<Vec<_>, _> =
            runs.iter().map(|file| self.version.reader(file)).collect();
        let mut readers = readers?;
        for reader in readers.iter().filter(|reader| reader.entry().removals > 0) {
            self.read_removals(reader, part)?;
        }
        for reader in &mut readers {
            let zone = reader.entry().zone;
            if zone.meets_times(i64::MIN, self.query.time_ms) {
                self.read_run(reader, part)?;
            }
        }
        Ok(())
    }

    fn read_removals(&self, reader: &RunReader, part: &mut Part) -> Result<(), HistoryError> {
        reader.removals(|object, clock_ms| {
            if clock_ms > self.query.time_ms {
            } else if object == EVERY_OBJECT {
                part.cleared_ms = part.cleared_ms.max(Some(clock_ms));
            } else if part.contains(object) && self.is_asked(object) {
                let candidate = part.candidate(object);
                candidate.removed_ms = candidate.removed_ms.max(Some(clock_ms));
                part.cut();
            }
        })
    }

    fn is_asked(&self, object: u64) -> bool {
        let objects = self.query.objects.as_ref();
        objects.is_none_or(|objects| objects.binary_search(&object).is_ok())
    }

    /// Reads the newest fixes of objects that are not settled.
    fn read_run(&mut self, reader: &mut RunReader, part: &mut Part) -> Result<(), HistoryError> {
        let mut sought: Vec<(u64, ObjectEntry)> = Vec::new();
        let is_open = |part: &Part, object: u64| {
            let candidate = part.candidates.get(&object);
            part.contains(object) && candidate.is_none_or(|candidate| !candidate.is_settled)
        };
        if let Some(objects) = &self.query.objects {
            for &object in objects.iter().filter(|object| is_open(part, **object)) {
                sought.extend(reader.find(object)?.map(|entry| (object, entry)));
            }
            return self.read_newest(reader, &mut sought, part);
        }
        for page in 0..reader.object_pages() {
            let (objects, entries) = reader.object_page(page)?;
            let entries = objects.into_iter().zip(entries);
            sought.extend(entries.filter(|(object, _)| is_open(part, *object)));
            if sought.len() >= self.budget.rows_max() {
                self.read_newest(reader, &mut sought, part)?;
                sought.clear();
            }
        }
        self.read_newest(reader, &mut sought, part)
    }

    fn read_newest(
        &mut self,
        reader: &mut RunReader,
        sought: &mut [(u64, ObjectEntry)],
        part: &mut Part,
    ) -> Result<(), HistoryError> {
        // In the order of rows, so that a tile is decoded once.
        sought.sort_unstable_by_key(|(_, entry)| entry.first_row);
        let generation = reader.entry().generation;
        for (object, entry) in sought.iter().filter(|(object, _)| !self.version.is_erased(*object))
        {
            if !part.contains(*object) {
                continue;
            }
            let newest = reader.newest_fix(entry, self.query.time_ms, &mut self.budget)?;
            if let Some(row) = newest {
                let candidate = part.candidate(*object);
                let known = candidate.newest.map(|(row, known)| (row.time_ms, known));
                if known <= Some((row.time_ms, generation)) {
                    candidate.newest = Some((row, generation));
                }
                part.cut();
            }
        }
        Ok(())
    }

    /// The states of a part, by object.
    fn answer(&self, part: &Part, out: &mut FixColumns) {
        let oldest_ms = self.oldest_ms();
        let live = part.candidates.values().filter_map(|candidate| {
            let (row, _) = candidate.newest?;
            let ended_ms = candidate.removed_ms.max(part.cleared_ms);
            let is_over = ended_ms.is_some_and(|ended_ms| row.time_ms <= ended_ms);
            (row.time_ms >= oldest_ms && !is_over).then_some(row)
        });
        let mut rows: Vec<FixRow> = live.collect();
        rows.sort_unstable_by_key(|row| row.object);
        for row in rows {
            let before = out.len();
            out.push_row(row);
            if !self.filter.matches(out, before) {
                out.truncate(before);
            }
        }
    }
}
