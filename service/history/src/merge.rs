//! Rewrites runs of a partition as one: merges of small runs, and erasure of objects.
//!
//! The work is done in steps of a bounded number of rows, so that the caller decides on its share
//! of disk and cores. Memory is a tile and the cells of the objects for each input.

use std::sync::Arc;

use crate::error::HistoryError;
use crate::history_writer::HistoryWriter;
use crate::limits::{MERGE_RATIO, MERGE_RUNS_CLOSED, MERGE_RUNS_OPEN, RUN_ROWS_MAX, TILE_ROWS};
use crate::run::{CellRow, RunEntry, RunFile, RunReader, RunWriter};
use crate::version::Version;

/// Order of rows in a run.
type RowKey = (u32, u64, i64);

/// Reads a run in order.
#[derive(Debug)]
struct Cursor {
    reader: RunReader,
    /// First row and cell of each object, in the order of rows.
    cells: Vec<(u32, u32)>,
    /// The object of the next row in `cells`.
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
        let (tile, row) = (self.row as usize / TILE_ROWS, self.row as usize % TILE_ROWS);
        let columns = self.reader.tile(tile)?;
        self.key = Some((cell, columns.object[row], columns.time_ms[row]));
        Ok(())
    }

    /// The row of the key, and the next key.
    fn take(&mut self) -> Result<CellRow, HistoryError> {
        let (tile, row) = (self.row as usize / TILE_ROWS, self.row as usize % TILE_ROWS);
        let row = self.reader.tile(tile)?.row(row);
        let cell = self.key.map_or(0, |(cell, ..)| cell);
        self.row += 1;
        self.load_key()?;
        Ok(CellRow { cell, row })
    }
}

/// Runs that are being rewritten.
#[derive(Debug)]
pub struct Merge {
    version: Arc<Version>,
    inputs: Vec<Arc<RunFile>>,
    /// Generations ascending, as the inputs.
    cursors: Vec<Cursor>,
    writer: RunWriter,
    rows: u64,
    is_erasure: bool,
}

impl Merge {
    /// Writes up to about so many rows; true when all are written.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`]: the inputs remain as they are.
    pub fn step(&mut self, rows: usize) -> Result<bool, HistoryError> {
        for _ in 0..rows {
            let keys = self.cursors.iter().map(|cursor| cursor.key);
            let Some(key) = keys.flatten().min() else { return Ok(true) };
            // Of equal identity the greatest generation wins: the last cursor that has it.
            let mut newest = None;
            for cursor in self.cursors.iter_mut().filter(|cursor| cursor.key == Some(key)) {
                newest = Some(cursor.take()?);
            }
            if let Some(row) = newest.filter(|row| !self.version.is_erased(row.row.object)) {
                self.writer.push(row)?;
                self.rows += 1;
            }
        }
        Ok(false)
    }

    /// Bytes that were written so far.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.writer.bytes()
    }

    /// Rows of all inputs.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.inputs.iter().map(|file| file.entry.rows).sum()
    }

    /// Completes the run; nothing if it would be empty.
    fn finish(self) -> Result<Option<RunEntry>, HistoryError> {
        let mut removals = Vec::new();
        for cursor in &self.cursors {
            cursor.reader.removals(|object, clock_ms| removals.push((object, clock_ms)))?;
        }
        removals.retain(|(object, _)| !self.version.is_erased(*object));
        removals.sort_unstable();
        removals.dedup();
        if self.rows == 0 && removals.is_empty() {
            return Ok(None);
        }
        self.writer.finish(&removals).map(Some)
    }
}

impl HistoryWriter {
    /// The next run to rewrite, if any: those with objects that are being erased first, then merges
    /// of partitions with many runs. [`Self::finish`] completes it. An erasure ends here when
    /// nothing remains to rewrite and no reader holds a file that was replaced.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`].
    pub fn next_work(&mut self) -> Result<Option<Merge>, HistoryError> {
        self.check_running()?;
        let version = self.history().version();
        if self.is_erasing() {
            for file in version.files() {
                if self.erased.contains(&file.entry.number) {
                    continue;
                }
                if contains_any(&version, file)? {
                    return self.merge(&version, vec![file.clone()], true).map(Some);
                }
                self.erased.insert(file.entry.number);
            }
            self.replaced.retain(|file| file.strong_count() > 0);
            if self.replaced.is_empty() {
                let next =
                    crate::manifest::Manifest { erasing: Vec::new(), ..self.manifest.clone() };
                self.erased.clear();
                self.commit(next, &[], Vec::new())?;
            }
        }
        // The partition of the clock still fills, and so do those after it.
        let open_ms = version.partition_of(version.watermark.clock_ms);
        for (at, runs) in &version.partitions {
            let runs_min = if *at < open_ms { MERGE_RUNS_CLOSED } else { MERGE_RUNS_OPEN };
            let taken = newest_of_like_size(runs);
            if taken.len() >= runs_min {
                return self.merge(&version, taken.to_vec(), false).map(Some);
            }
        }
        Ok(None)
    }

    fn merge(
        &mut self,
        version: &Arc<Version>,
        inputs: Vec<Arc<RunFile>>,
        is_erasure: bool,
    ) -> Result<Merge, HistoryError> {
        let newest = inputs.last().expect("runs to merge").entry.clone();
        let mut next = self.manifest.clone();
        let run = self.new_run(&mut next, newest.partition_ms, newest.generation);
        // A number is used once, also if this merge is given up.
        self.manifest.next_number = next.next_number;
        let cursors: Result<_, _> = inputs.iter().map(|file| Cursor::open(version, file)).collect();
        let (cursors, writer) = (cursors?, RunWriter::create(run)?);
        Ok(Merge { version: version.clone(), inputs, cursors, writer, rows: 0, is_erasure })
    }

    /// Replaces the inputs of a merge, whose steps are done, by its run. False if an input is no
    /// longer part of the history, or an erasure has begun since: then the run is dropped.
    ///
    /// # Errors
    /// [`HistoryError::File`].
    pub fn finish(&mut self, merge: Merge) -> Result<bool, HistoryError> {
        self.check_running()?;
        let is_current = |file: &Arc<RunFile>| {
            self.manifest.runs.iter().any(|run| run.number == file.entry.number)
        };
        let is_usable =
            merge.inputs.iter().all(is_current) && *merge.version.erasing == *self.manifest.erasing;
        if !is_usable {
            return Ok(false);
        }
        let inputs = merge.inputs.clone();
        let is_erasure = merge.is_erasure;
        let added: Vec<RunEntry> = merge.finish()?.into_iter().collect();
        if is_erasure {
            self.replaced.extend(inputs.iter().map(Arc::downgrade));
            self.erased.extend(added.iter().map(|run| run.number));
        }
        let numbers: Vec<u64> = inputs.iter().map(|file| file.entry.number).collect();
        self.commit(self.manifest.clone(), &numbers, added)?;
        Ok(true)
    }
}

/// The newest runs of a partition, oldest first: each has at most [`MERGE_RATIO`] times the rows of
/// those after it.
fn newest_of_like_size(runs: &[Arc<RunFile>]) -> &[Arc<RunFile>] {
    let (mut taken, mut size) = (0, 0);
    for file in runs.iter().rev() {
        let own = file.entry.rows + file.entry.removals;
        if taken > 0 && (own > MERGE_RATIO * size || size + own > RUN_ROWS_MAX) {
            break;
        }
        size += own;
        taken += 1;
    }
    &runs[runs.len() - taken..]
}

/// Whether a run has fixes or removals of objects that are being erased.
fn contains_any(version: &Version, file: &Arc<RunFile>) -> Result<bool, HistoryError> {
    let mut reader = version.reader(file)?;
    for object in version.erasing.iter() {
        if reader.find(*object)?.is_some() {
            return Ok(true);
        }
    }
    let mut is_found = false;
    reader.removals(|object, _| is_found |= version.is_erased(object))?;
    Ok(is_found)
}
