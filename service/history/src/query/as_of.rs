//! The state at a past moment: each object's newest fix at or before it.
//!
//! Partitions are read backwards from the moment. If a stored state (HISTORY.md, section 3.5)
//! covers a range of them, it is read instead of their runs. In each run, only the tiles with the
//! newest fixes of objects without a known newer fix are read. If an object was removed at or
//! before the moment, fixes within the reach of its last removal count only if they are returns.
//! Objects are answered in ascending parts that fit the budget.

use std::collections::HashMap;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::{slice, thread};

use shoal_codec::{FixColumns, FixRow, VALIDITY_UNKNOWN, deadline_ms};

use super::budget::QueryBudget;
use super::row_filter::{Everywhere, RowFilter};
use crate::error::HistoryError;
use crate::limits::AS_OF_TILES_MIN;
use crate::partition::Partition;
use crate::removal::{EVERY_OBJECT, Mark};
use crate::run::{ObjectEntry, RunFile, RunReader};
use crate::run_device::RunPages;
use crate::version::Version;

/// A past moment and the objects that are asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AsOfQuery {
    /// The moment, Unix milliseconds.
    pub time_ms: i64,
    /// Greatest age, in milliseconds, of a fix in the state; its validity may be less. With `None`,
    /// all partitions before the moment may have to be read.
    pub ttl_ms: Option<i64>,
    /// The objects; `None` for all.
    pub objects: Option<Vec<u64>>,
}

/// The information about an object from the runs read so far.
#[derive(Clone, Copy, Debug, Default)]
struct ObjectState {
    /// Newest fix and the generation of its run.
    newest: Option<(FixRow, u64)>,
    /// Its last removal at or before the moment.
    removed: Option<Mark>,
    /// Newest time, in the current partition, of its returns from the last removal.
    returned_ms: Option<i64>,
    /// True if `newest` is final: older partitions cannot change it.
    is_settled: bool,
}

/// The state at a moment, objects ascending.
#[derive(Debug)]
pub struct AsOf<F> {
    version: Arc<Version>,
    query: AsOfQuery,
    filter: F,
    budget: QueryBudget,
    /// False to ignore what ends a record: removals and validities.
    has_ends: bool,
    /// First object that was not answered yet; `None` at the end.
    from: Option<u64>,
    /// Most threads that read a run at the same time.
    threads: usize,
}

/// One part of the answer.
struct Part {
    /// Range of objects, the end excluded.
    objects: (u64, u64),
    states: HashMap<u64, ObjectState>,
    /// Objects that are settled, ascending.
    settled: Vec<u64>,
    rows_max: usize,
    /// The last clear at or before the moment.
    cleared: Option<Mark>,
    /// Runs whose removals are still to be read, the next run last.
    removals: Vec<Arc<RunFile>>,
}

impl Part {
    fn contains(&self, object: u64) -> bool {
        self.objects.0 <= object && object < self.objects.1
    }

    /// The state of an object, inserted if absent.
    fn state(&mut self, object: u64) -> &mut ObjectState {
        self.states.entry(object).or_default()
    }

    /// The later of the object's last removal and the last clear.
    fn last_removal(&self, object: u64) -> Option<Mark> {
        let removed = self.states.get(&object).and_then(|state| state.removed);
        removed.max(self.cleared)
    }

    /// True if the last removal of the object ends all its fixes up to `time_ms` except returns.
    fn is_over(&self, object: u64, time_ms: i64) -> bool {
        self.last_removal(object).is_some_and(|mark| time_ms <= mark.reach_ms)
    }

    /// Discards fixes that a removal ended, and settles the objects whose newest fix remains.
    /// Returns (object, time) of the returns that are still to be read, ascending.
    fn settle(&mut self) -> Vec<(u64, i64)> {
        let (cleared, mut returned) = (self.cleared, Vec::new());
        let before = self.settled.len();
        for (object, state) in &mut self.states {
            if state.is_settled {
                continue;
            }
            let returned_ms = state.returned_ms;
            let is_live = |(row, _): &(FixRow, u64)| {
                let last = state.removed.max(cleared);
                last.is_none_or(|mark| row.time_ms > mark.reach_ms)
                    || returned_ms == Some(row.time_ms)
            };
            state.newest = state.newest.filter(is_live);
            state.is_settled = state.newest.is_some();
            if state.is_settled {
                self.settled.push(*object);
            } else if let Some(time_ms) = returned_ms {
                returned.push((*object, time_ms));
            }
        }
        if self.settled.len() > before {
            self.settled.sort_unstable();
        }
        returned.sort_unstable();
        returned
    }

    /// Indexes of the objects that [`Self::is_open`] accepts. `objects` must ascend.
    fn open_among(&self, objects: &[u64]) -> Vec<usize> {
        let first = objects.first().copied().unwrap_or(EVERY_OBJECT);
        let known = self.settled.partition_point(|settled| *settled < first);
        let mut settled = self.settled[known..].iter().peekable();
        let is_open = |object: u64| {
            while settled.next_if(|settled| **settled < object).is_some() {}
            self.contains(object) && settled.peek() != Some(&&object)
        };
        let are_open = objects.iter().copied().map(is_open).enumerate();
        are_open.filter_map(|(at, is_open)| is_open.then_some(at)).collect()
    }

    /// True if the object belongs to the part and is not settled.
    fn is_open(&self, object: u64) -> bool {
        let state = self.states.get(&object);
        self.contains(object) && state.is_none_or(|state| !state.is_settled)
    }

    /// True if the newest known fix of the object is older than `time_ms`, or none is known.
    fn is_before(&self, object: u64, time_ms: i64) -> bool {
        let newest = self.states.get(&object).and_then(|state| state.newest);
        newest.is_none_or(|(row, _)| row.time_ms < time_ms)
    }

    /// Takes a fix of an object of the part, unless a newer one is known.
    fn offer(&mut self, row: FixRow, generation: u64) {
        let state = self.state(row.object);
        let known = state.newest.map(|(row, known)| (row.time_ms, known));
        if known <= Some((row.time_ms, generation)) {
            state.newest = Some((row, generation));
        }
        self.cut();
    }

    /// Shortens the part to `rows_max` objects when it reaches twice as many.
    fn cut(&mut self) {
        if self.states.len() >= self.rows_max.saturating_mul(2) {
            let mut objects: Vec<u64> = self.states.keys().copied().collect();
            let (_, end, _) = objects.select_nth_unstable(self.rows_max);
            let end = *end;
            self.end_before(end);
        }
    }

    /// Ends the part before `end`, unless it ends earlier.
    fn end_before(&mut self, end: u64) {
        if end < self.objects.1 {
            self.objects.1 = end;
            self.states.retain(|object, _| *object < end);
            self.settled.truncate(self.settled.partition_point(|object| *object < end));
        }
    }
}

impl AsOf<Everywhere> {
    /// The newest fix of each object in a range, whether its record has ended or not.
    pub(crate) fn newest_in(version: Arc<Version>, range: Partition, budget: QueryBudget) -> Self {
        let time_ms = range.end_ms() - 1;
        let query = AsOfQuery { time_ms, ttl_ms: Some(range.length_ms - 1), objects: None };
        Self { has_ends: false, ..Self::new(version, query, Everywhere, budget) }
    }
}

impl<F: RowFilter> AsOf<F> {
    /// Most memory for each row of the budget, if the budget is a power of two. It covers the
    /// states (in a table that doubles), the entries sought and the answer of twice as many
    /// objects.
    pub const ROW_BYTES: usize = 2
        * (3 * (size_of::<(u64, ObjectState)>() + 1)
            + size_of::<(u64, ObjectEntry)>()
            + 2 * size_of::<u64>()
            + size_of::<FixRow>());

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
        Self { version, query, filter, budget, has_ends: true, from: Some(0), threads: 1 }
    }

    /// Reads a run with up to `threads` threads if many of its tiles are needed. The additional
    /// threads exist only during a call of [`Self::next`] and inherit its priority.
    #[must_use]
    pub fn on_threads(self, threads: usize) -> Self {
        Self { threads, ..self }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the states of the next objects that match the filter, at most twice as many as the
    /// budget holds and possibly none. Returns false at the end.
    ///
    /// # Errors
    /// As [`super::Scan::next`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        let Some(from) = self.from else { return Ok(false) };
        let mut part = Part {
            objects: (from, EVERY_OBJECT),
            states: HashMap::new(),
            settled: Vec::new(),
            rows_max: self.budget.rows_max(),
            cleared: None,
            removals: self.runs_with_removals(),
        };
        let version = self.version.clone();
        let first_ms = version.partition_of(self.oldest_ms()).start_ms;
        let mut end_ms = self.query.time_ms.saturating_add(1);
        let mut is_complete = false;
        while let Some(runs) = version.last_partition(first_ms, end_ms) {
            let state = version.state_with(runs[0].entry.partition, first_ms, end_ms);
            let runs = state.map_or(&runs[..], slice::from_ref);
            end_ms = runs[0].entry.partition.start_ms;
            // All earlier fixes are ended or settled: only returns can change the answer.
            if is_complete && runs.iter().all(|file| file.entry.returns == 0) {
                continue;
            }
            self.read_partition(runs, &mut part)?;
            self.settle(runs, &mut part)?;
            is_complete |= self.is_complete(&part, end_ms);
        }
        self.from = (part.objects.1 != EVERY_OBJECT).then_some(part.objects.1);
        self.answer(&part, out);
        Ok(true)
    }

    fn oldest_ms(&self) -> i64 {
        self.query.ttl_ms.map_or(i64::MIN, |ttl_ms| self.query.time_ms.saturating_sub(ttl_ms))
    }

    /// Runs with removals at or before the moment, by partition.
    fn runs_with_removals(&self) -> Vec<Arc<RunFile>> {
        let acted = |file: &&Arc<RunFile>| {
            self.has_ends && file.entry.removed_from_ms <= self.query.time_ms
        };
        self.version.files().filter(acted).cloned().collect()
    }

    /// True if every fix before `start_ms` is ended by a removal or belongs to a settled object, so
    /// that only returns can still count.
    fn is_complete(&self, part: &Part, start_ms: i64) -> bool {
        if part.cleared.is_some_and(|mark| start_ms <= mark.reach_ms) {
            return true;
        }
        let objects = self.query.objects.as_ref();
        objects.is_some_and(|objects| {
            let mut asked = objects.iter().filter(|object| part.contains(**object));
            asked.all(|object| !part.is_open(*object) || part.is_over(*object, start_ms))
        })
    }

    fn read_partition(
        &mut self,
        runs: &[Arc<RunFile>],
        part: &mut Part,
    ) -> Result<(), HistoryError> {
        // Removals that end fixes of a partition are in this partition or in later ones.
        let start_ms = runs[0].entry.partition.start_ms;
        let is_next = |file: &mut Arc<RunFile>| file.entry.partition.start_ms >= start_ms;
        while let Some(file) = part.removals.pop_if(is_next) {
            self.read_removals(&self.version.reader(&file)?, part)?;
        }
        let readers: Result<Vec<_>, _> =
            runs.iter().map(|file| self.version.reader(file)).collect();
        let mut readers = readers?;
        for reader in readers.iter().filter(|reader| reader.entry().returns > 0) {
            self.read_returns(reader, part)?;
        }
        // Newest run first, because older runs then seldom have newer fixes.
        for reader in readers.iter_mut().rev() {
            let zone = reader.entry().zone;
            let is_over = part.cleared.is_some_and(|mark| zone.time_ms.1 <= mark.reach_ms);
            if zone.meets_times(i64::MIN, self.query.time_ms) && !is_over {
                self.read_run(reader, part)?;
            }
        }
        Ok(())
    }

    fn read_removals(&self, reader: &RunReader, part: &mut Part) -> Result<(), HistoryError> {
        reader.removals(part.objects, &self.budget, |removal| {
            let (object, mark) = (removal.object, removal.mark);
            if removal.clock_ms > self.query.time_ms {
            } else if object == EVERY_OBJECT {
                part.cleared = part.cleared.max(Some(mark));
            } else if part.contains(object) && self.is_asked(object) {
                let state = part.state(object);
                state.removed = state.removed.max(Some(mark));
                part.cut();
            }
        })
    }

    /// Finds the newest fix of each object that returned from its last removal.
    fn read_returns(&self, reader: &RunReader, part: &mut Part) -> Result<(), HistoryError> {
        reader.returns(part.objects, &self.budget, |returned| {
            let object = returned.object;
            let last = part.last_removal(object);
            if returned.time_ms <= self.query.time_ms
                && last.is_some_and(|mark| mark.number <= returned.number)
                && part.is_open(object)
                && self.is_asked(object)
                && !self.version.is_erased(object)
            {
                let state = part.state(object);
                state.returned_ms = state.returned_ms.max(Some(returned.time_ms));
                part.cut();
            }
        })
    }

    /// Reads the returns of a partition whose fixes are still missing, and settles its objects.
    fn settle(&mut self, runs: &[Arc<RunFile>], part: &mut Part) -> Result<(), HistoryError> {
        let returned = part.settle();
        if !returned.is_empty() {
            let mut found = Vec::new();
            for file in runs.iter() {
                let mut reader = self.version.reader(file)?;
                for &(object, time_ms) in &returned {
                    reader.fixes_of(object, (time_ms, time_ms), &mut self.budget, &mut found)?;
                }
                let generation = file.entry.generation;
                found.drain(..).for_each(|row| part.offer(row, generation));
            }
            part.settle();
        }
        if runs.iter().any(|file| file.entry.returns > 0) {
            part.states.values_mut().for_each(|state| state.returned_ms = None);
        }
        Ok(())
    }

    fn is_asked(&self, object: u64) -> bool {
        let objects = self.query.objects.as_ref();
        objects.is_none_or(|objects| objects.binary_search(&object).is_ok())
    }

    /// Reads the newest fixes of objects that are not settled.
    fn read_run(&mut self, reader: &mut RunReader, part: &mut Part) -> Result<(), HistoryError> {
        let mut sought: Vec<(u64, ObjectEntry)> = Vec::new();
        let last_ms = reader.entry().zone.time_ms.1;
        if let Some(objects) = &self.query.objects {
            let is_sought = |object: &u64| part.is_open(*object) && !part.is_over(*object, last_ms);
            let open: Vec<u64> = objects.iter().copied().filter(is_sought).collect();
            if let Some(states) = self.states_on_device(reader, &open) {
                self.take_states(reader, states.into_iter().flatten(), part);
                return Ok(());
            }
            for object in open.into_iter().filter(|object| part.is_before(*object, last_ms)) {
                sought.extend(reader.find(object, &self.budget)?.map(|entry| (object, entry)));
            }
            return self.read_newest(reader, &mut sought, part);
        }
        if let Some(states) = self.newest_on_device(reader, part) {
            self.take_states(reader, (0..states.len()).map(|at| states.row(at)), part);
            return Ok(());
        }
        let first_objects: Vec<u64> = reader.first_objects().collect();
        for page in 0..first_objects.len() {
            // Skips pages without objects of the part. Reading may shorten the part.
            let next = first_objects.get(page + 1);
            if next.is_some_and(|next| *next <= part.objects.0) {
                continue;
            }
            if first_objects[page] >= part.objects.1 {
                break;
            }
            let objects = reader.page_objects(page, &self.budget)?;
            let open = part.open_among(&objects);
            if open.is_empty() {
                continue;
            }
            let (_, entries) = reader.object_page(page)?;
            let open = open.into_iter().map(|at| (objects[at], entries[at]));
            let is_sought = |(object, _): &(u64, ObjectEntry)| {
                part.is_before(*object, last_ms) && !part.is_over(*object, last_ms)
            };
            sought.extend(open.filter(is_sought));
            if sought.len() >= self.budget.rows_max() {
                self.read_newest(reader, &mut sought, part)?;
                sought.clear();
            }
        }
        self.read_newest(reader, &mut sought, part)
    }

    /// The newest fixes of `objects` from the device; `None` if it does not answer.
    fn states_on_device(&self, reader: &RunReader, objects: &[u64]) -> Option<Vec<Option<FixRow>>> {
        let device = self.version.device.as_ref()?;
        let is_worth_it = objects.len() >= device.objects_min();
        is_worth_it.then(|| device.states(&RunPages(reader), objects, self.query.time_ms))?
    }

    /// The newest fixes of the objects of a part from the device; `None` if it does not answer.
    /// Shortens the part if the device returns the most rows that it may.
    fn newest_on_device(&self, reader: &RunReader, part: &mut Part) -> Option<FixColumns> {
        let device = self.version.device.as_ref()?;
        let most = self.budget.rows_max().saturating_mul(2);
        let time_ms = self.query.time_ms;
        let states = device.newest(&RunPages(reader), time_ms, part.objects.0, most)?;
        if states.len() == most {
            // The answer is full, so it may lack objects after its last one.
            let end = states.object[most - 1].saturating_add(1);
            part.end_before(end);
        }
        Some(states)
    }

    /// Takes the newest fixes of a run for objects that are not settled.
    fn take_states(
        &self,
        reader: &RunReader,
        states: impl Iterator<Item = FixRow>,
        part: &mut Part,
    ) {
        for row in states {
            if part.is_open(row.object) && !self.version.is_erased(row.object) {
                part.offer(row, reader.entry().generation);
            }
        }
    }

    fn read_newest(
        &mut self,
        reader: &mut RunReader,
        sought: &mut Vec<(u64, ObjectEntry)>,
        part: &mut Part,
    ) -> Result<(), HistoryError> {
        sought.retain(|(object, _)| part.contains(*object) && !self.version.is_erased(*object));
        // Sorted by row, so that each tile is decoded once.
        sought.sort_unstable_by_key(|(_, entry)| entry.first_row);
        let tiles = reader.entry().tiles();
        let reading = Reading { time_ms: self.query.time_ms, is_dense: sought.len() >= tiles };
        let generation = reader.entry().generation;
        let threads = (sought.len().min(tiles) / AS_OF_TILES_MIN).min(self.threads);
        if threads > 1 {
            let found = reading.on_threads(threads, reader, sought, &self.budget)?;
            for row in found {
                // A previous row may have shortened the part.
                if part.contains(row.object) {
                    part.offer(row, generation);
                }
            }
            return Ok(());
        }
        for (object, entry) in &*sought {
            if part.contains(*object) {
                let newest = reading.newest(reader, entry, &mut self.budget)?;
                newest.into_iter().for_each(|row| part.offer(row, generation));
            }
        }
        Ok(())
    }

    /// The states of a part, by object.
    fn answer(&self, part: &Part, out: &mut FixColumns) {
        let AsOfQuery { time_ms, ttl_ms, .. } = self.query;
        let is_live = |row: &FixRow| {
            let valid_ms = if self.has_ends { row.valid_ms } else { VALIDITY_UNKNOWN };
            time_ms <= deadline_ms(row.time_ms, valid_ms, ttl_ms)
        };
        let states = part.states.values().filter_map(|state| state.newest);
        let live = states.map(|(row, _)| row).filter(is_live);
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

/// How the fixes of some objects are read from a run.
#[derive(Clone, Copy)]
struct Reading {
    /// The moment.
    time_ms: i64,
    /// True if there are at least as many objects as tiles, so that tiles are decoded in spans.
    is_dense: bool,
}

impl Reading {
    /// The newest fix of an object at the moment.
    fn newest(
        self,
        reader: &mut RunReader,
        entry: &ObjectEntry,
        budget: &mut QueryBudget,
    ) -> Result<Option<FixRow>, HistoryError> {
        reader.newest_fix(entry, self.time_ms, self.is_dense, budget)
    }

    /// The newest fixes of the objects in `sought`, which is in the order of rows. Each of up to
    /// `threads` threads, this one included, reads a contiguous part of `sought`.
    fn on_threads(
        self,
        threads: usize,
        reader: &RunReader,
        sought: &[(u64, ObjectEntry)],
        budget: &QueryBudget,
    ) -> Result<Vec<FixRow>, HistoryError> {
        let read = |share: &[(u64, ObjectEntry)]| {
            let (mut reader, mut budget) = (reader.fork(), budget.clone());
            let mut found = Vec::with_capacity(share.len());
            for (_, entry) in share {
                found.extend(self.newest(&mut reader, entry, &mut budget)?);
            }
            Ok::<Vec<FixRow>, HistoryError>(found)
        };
        let mut shares = sought.chunks(sought.len().div_ceil(threads));
        let own = shares.next().unwrap_or_default();
        thread::scope(|scope| {
            let others = shares.map(|share| {
                (
                    share,
                    thread::Builder::new()
                        .name("past-run".to_owned())
                        .spawn_scoped(scope, || read(share)),
                )
            });
            let others: Vec<_> = others.collect();
            let mut found = read(own)?;
            for (share, other) in others {
                // If the thread could not be started, this thread reads its share.
                let rows = other.map_or_else(
                    |_| read(share),
                    |other| other.join().unwrap_or_else(|panic| resume_unwind(panic)),
                );
                found.append(&mut rows?);
            }
            Ok(found)
        })
    }
}
