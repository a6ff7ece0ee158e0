//! Rewrites runs of a partition as one: merges of small runs, and erasure of objects.
//!
//! The work is done in steps of a bounded number of rows, so that the caller controls its share of
//! disk and cores. For each input, memory holds a span of tiles and the cells of its objects; a
//! join of partitions also holds all rows of its output.

use std::collections::BTreeMap;
use std::sync::Arc;

use shoal_codec::FixRow;

use crate::error::HistoryError;
use crate::history_writer::HistoryWriter;
use crate::limits::{
    COARSER_LEVELS, MERGE_RATIO_CLOSED, MERGE_RATIO_OPEN, MERGE_RUNS_CLOSED, MERGE_RUNS_OPEN,
    RUN_ROWS_MAX,
};
use crate::partition::Partition;
use crate::query::QueryBudget;
use crate::removal::{ALL_OBJECTS, drop_replaced, sort_returns};
use crate::run::{CellRow, NewRun, RunEntry, RunFile, RunReader, RunWriter};
use crate::sorted_rows::{cells_of, write_sorted};
use crate::version::Version;

/// Order of rows in a run.
type RowKey = (u32, u64, i64);

/// Reads a run in order.
#[derive(Debug)]
struct Cursor {
    reader: RunReader,
    /// First row and cell of each object, in the order of rows.
    cells: Vec<(u32, u32)>,
    /// Index in `cells` of the object of the next row.
    at: usize,
    row: u64,
    key: Option<RowKey>,
}

impl Cursor {
    fn open(version: &Version, file: &Arc<RunFile>) -> Result<Self, HistoryError> {
        let reader = version.reader(file)?;
        let mut cells = Vec::with_capacity(reader.entry().objects as usize);
        for page in 0..reader.object_pages() {
            let (_, entries) = reader.object_page(page)?;
            cells.extend(entries.iter().map(|entry| (entry.first_row, entry.cell)));
        }
        cells.sort_unstable();
        let mut cursor = Self { reader, cells, at: 0, row: 0, key: None };
        cursor.load_key()?;
        Ok(cursor)
    }

    fn load_key(&mut self) -> Result<(), HistoryError> {
        if self.row == self.reader.entry().rows {
            self.key = None;
            return Ok(());
        }
        let next = self.cells.get(self.at + 1);
        self.at += usize::from(next.is_some_and(|(first, _)| u64::from(*first) == self.row));
        let cell = self.cells.get(self.at).map_or(0, |(_, cell)| *cell);
        let (row, columns) = self.reader.row_ahead(self.row as usize)?;
        self.key = Some((cell, columns.object[row], columns.time_ms[row]));
        Ok(())
    }

    /// Returns the row of `key` and loads the next key.
    fn take(&mut self) -> Result<CellRow, HistoryError> {
        let (row, columns) = self.reader.row_ahead(self.row as usize)?;
        let row = columns.row(row);
        let cell = self.key.map_or(0, |(cell, ..)| cell);
        self.row += 1;
        self.load_key()?;
        Ok(CellRow { cell, row })
    }
}

/// Runs that are being rewritten.
#[derive(Debug)]
pub(crate) struct Merge {
    version: Arc<Version>,
    inputs: Vec<Arc<RunFile>>,
    /// One cursor for each input, generations ascending.
    cursors: Vec<Cursor>,
    partition: Partition,
    output: Output,
    is_erasure: bool,
}

/// Where merged rows go.
#[derive(Debug)]
enum Output {
    /// Inputs of one partition: rows are written in the order of the merge. The number counts the
    /// rows written so far.
    Run(Box<RunWriter>, u64),
    /// Inputs of several partitions: objects may get another cell, so rows are collected and
    /// sorted.
    Rows(NewRun, Vec<FixRow>),
}

impl Merge {
    /// Merges up to `rows` identities; true when all are merged.
    pub(crate) fn step(&mut self, rows: usize) -> Result<bool, HistoryError> {
        for _ in 0..rows {
            let keys = self.cursors.iter().map(|cursor| cursor.key);
            let Some(key) = keys.flatten().min() else { return Ok(true) };
            // Of rows with equal identity, the one of the greatest generation remains, which is in
            // the last cursor that has the identity.
            let mut newest = None;
            for cursor in self.cursors.iter_mut().filter(|cursor| cursor.key == Some(key)) {
                newest = Some(cursor.take()?);
            }
            if let Some(row) = newest.filter(|row| !self.version.is_erased(row.row.object)) {
                match &mut self.output {
                    Output::Run(writer, rows) => {
                        writer.push(row)?;
                        *rows += 1;
                    }
                    Output::Rows(_, rows) => rows.push(row.row),
                }
            }
        }
        Ok(false)
    }

    /// Completes the run; `None` if it would be empty.
    fn finish(self) -> Result<Option<RunEntry>, HistoryError> {
        let (mut removals, mut returns) = (Vec::new(), Vec::new());
        for cursor in &self.cursors {
            let budget = QueryBudget::unlimited();
            cursor.reader.removals(ALL_OBJECTS, &budget, |removal| removals.push(removal))?;
            cursor.reader.returns(ALL_OBJECTS, &budget, |returned| returns.push(returned))?;
        }
        removals.retain(|removal| !self.version.is_erased(removal.object));
        drop_replaced(&mut removals, self.version.floor_ms);
        returns.retain(|returned| !self.version.is_erased(returned.object));
        sort_returns(&mut returns);
        match self.output {
            Output::Run(_, 0) if removals.is_empty() => Ok(None),
            Output::Run(writer, _) => writer.finish(&removals, &returns).map(Some),
            Output::Rows(run, mut rows) => {
                rows.sort_unstable_by_key(|row| (row.object, row.time_ms));
                // No run has this partition yet, so each object gets the cell of its first fix.
                let version = Version { partitions: BTreeMap::new(), ..(*self.version).clone() };
                let cells = cells_of(&version, run.partition, &rows)?;
                write_sorted(run, &version, &rows, &cells, &removals, &returns)
            }
        }
    }
}

impl HistoryWriter {
    /// Begins the next worthwhile merge; `None` if there is none.
    pub(crate) fn next_merge(
        &mut self,
        version: &Arc<Version>,
        open_ms: i64,
    ) -> Result<Option<Merge>, HistoryError> {
        for runs in version.partitions.values() {
            let is_closed = runs[0].entry.partition.end_ms() <= open_ms;
            let (runs_min, ratio) = if is_closed {
                (MERGE_RUNS_CLOSED, MERGE_RATIO_CLOSED)
            } else {
                (MERGE_RUNS_OPEN, MERGE_RATIO_OPEN)
            };
            let taken = newest_of_like_size(runs, ratio);
            if taken.len() >= runs_min {
                return self.merge(version, taken.to_vec(), false).map(Some);
            }
        }
        match coarser(version, open_ms) {
            None => Ok(None),
            Some((partition, inputs)) => {
                self.merge_into(version, partition, inputs, false).map(Some)
            }
        }
    }

    pub(crate) fn merge(
        &mut self,
        version: &Arc<Version>,
        inputs: Vec<Arc<RunFile>>,
        is_erasure: bool,
    ) -> Result<Merge, HistoryError> {
        let partition = inputs[0].entry.partition;
        self.merge_into(version, partition, inputs, is_erasure)
    }

    fn merge_into(
        &mut self,
        version: &Arc<Version>,
        partition: Partition,
        inputs: Vec<Arc<RunFile>>,
        is_erasure: bool,
    ) -> Result<Merge, HistoryError> {
        let generation = inputs.iter().map(|file| file.entry.generation).max().unwrap_or(0);
        let run = self.new_background_run(partition, generation);
        let cursors: Result<_, _> = inputs.iter().map(|file| Cursor::open(version, file)).collect();
        let cursors = cursors?;
        let output = if inputs.iter().all(|file| file.entry.partition == partition) {
            Output::Run(Box::new(RunWriter::create(run)?), 0)
        } else {
            Output::Rows(run, Vec::new())
        };
        Ok(Merge { version: version.clone(), inputs, cursors, partition, output, is_erasure })
    }

    /// Completes a merge whose steps are done: its run replaces its inputs. Returns false and drops
    /// the run if an input is no longer part of the history, the list of erased objects has
    /// changed, a new run shares times with the output's partition, or retention has dropped part
    /// of it.
    pub(crate) fn finish_merge(&mut self, merge: Merge) -> Result<bool, HistoryError> {
        self.check_running()?;
        let numbers: Vec<u64> = merge.inputs.iter().map(|file| file.entry.number).collect();
        let (inputs, others): (Vec<_>, Vec<_>) =
            self.manifest.runs.iter().partition(|run| numbers.contains(&run.number));
        // A run sealed meanwhile may lie in a part of the longer partition.
        let partition = merge.partition;
        let is_apart =
            |run: &&RunEntry| run.partition == partition || !run.partition.shares_times(&partition);
        // The floor may have moved into a part of the longer partition that has no run.
        let is_usable = partition.start_ms >= self.manifest.floor_ms
            && inputs.len() == numbers.len()
            && others.iter().all(is_apart)
            && *merge.version.erasing == *self.manifest.erasing;
        if !is_usable {
            return Ok(false);
        }
        let is_erasure = merge.is_erasure;
        let added: Vec<RunEntry> = merge.finish()?.into_iter().collect();
        if is_erasure {
            self.erased.extend(added.iter().map(|run| run.number));
        }
        let mut next = self.manifest.clone();
        // No query reads the states of ranges within one partition.
        let is_within = |range: &Partition| {
            range.length_ms <= partition.length_ms && partition.contains(range.start_ms)
        };
        next.states.retain(|state| !is_within(&state.partition));
        self.commit(next, &numbers, added)?;
        Ok(true)
    }
}

/// The newest runs of a partition, oldest first, as long as each has at most `ratio` times the rows
/// and removals of the runs after it in total.
fn newest_of_like_size(runs: &[Arc<RunFile>], ratio: u64) -> &[Arc<RunFile>] {
    let (mut taken, mut size) = (0, 0);
    for file in runs.iter().rev() {
        let own = file.entry.rows + file.entry.removals;
        if taken > 0 && (own > ratio * size || size + own > RUN_ROWS_MAX) {
            break;
        }
        size += own;
        taken += 1;
    }
    &runs[runs.len() - taken..]
}

/// Returns the first partition to be joined, with the runs of the shorter partitions in it. It ends
/// at or before `open_ms` and contains several shorter partitions with at most `coarser_rows_max`
/// rows in total.
fn coarser(version: &Version, open_ms: i64) -> Option<(Partition, Vec<Arc<RunFile>>)> {
    let mut ranges =
        (1..=COARSER_LEVELS).rev().flat_map(|level| version.closed_ranges(level, open_ms));
    ranges.find_map(|(whole, parts)| {
        let files = || parts.iter().flat_map(|runs| runs.iter());
        let rows: u64 = files().map(|file| file.entry.rows + file.entry.removals).sum();
        (rows <= version.coarser_rows_max).then(|| (whole, files().cloned().collect()))
    })
}
