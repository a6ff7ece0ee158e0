//! The fixes of a window of time that match a filter, in the order of the runs.
//!
//! Zones select tiles, tiles are decoded and filtered. A row that a newer run of its partition
//! replaces is not returned, whatever its replacement is.

use std::collections::BTreeSet;
use std::ops::Range;
use std::sync::Arc;

use shoal_codec::FixColumns;

use super::budget::QueryBudget;
use super::row_filter::RowFilter;
use crate::error::HistoryError;
use crate::run::{RunReader, Zone};
use crate::version::{Runs, Version};

/// Fixes between two times, both included. They come some tiles at a time: by partition, run, cell,
/// object and time.
#[derive(Debug)]
pub struct Scan<F> {
    version: Arc<Version>,
    window_ms: (i64, i64),
    filter: F,
    budget: QueryBudget,
    /// Partitions that remain, the next one last.
    partitions: Vec<Runs>,
    /// The runs of the partition that is read, generations ascending.
    readers: Vec<RunReader>,
    /// Next run and tile.
    run: usize,
    tile: usize,
    selected: Vec<usize>,
}

/// The tiles from `tile` on that are wanted and that one call may load; none if that is not wanted.
pub(super) fn wanted(
    reader: &RunReader,
    tile: usize,
    is_wanted: impl Fn(&Zone) -> bool,
) -> Range<usize> {
    let span = reader.span(tile);
    let zones = &reader.index().zones[span];
    tile..tile + zones.iter().take_while(|zone| is_wanted(zone)).count()
}

impl<F: RowFilter> Scan<F> {
    /// Begins a scan of the fixes from `from_ms` to `to_ms`.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        (from_ms, to_ms): (i64, i64),
        filter: F,
        budget: QueryBudget,
    ) -> Self {
        let partitions = version.partitions_in(from_ms, to_ms).rev();
        let partitions = partitions.cloned().collect();
        Self {
            version,
            window_ms: (from_ms, to_ms),
            filter,
            budget,
            partitions,
            readers: Vec::new(),
            run: 0,
            tile: 0,
            selected: Vec::new(),
        }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the matches of some tiles, possibly none; false at the end.
    ///
    /// # Errors
    /// [`HistoryError::Cancelled`], [`HistoryError::Budget`], [`HistoryError::File`],
    /// [`HistoryError::Page`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        let Some((run, tiles)) = self.next_tiles()? else { return Ok(false) };
        self.budget.take_tiles(tiles.len())?;
        let (from_ms, to_ms) = self.window_ms;
        let (older, newer) = self.readers.split_at_mut(run + 1);
        let reader = older.last_mut().expect("the run is one of them");
        let mut zone = Zone::EMPTY;
        reader.index().zones[tiles.clone()].iter().for_each(|tile| zone.join(tile));
        let rows = reader.load(tiles)?;
        self.selected.clear();
        let Self { filter, selected, .. } = self;
        if zone.lies_in_times(from_ms, to_ms) {
            selected.extend((0..rows.len()).filter(|row| filter.matches(rows, *row)));
        } else {
            let times = rows.time_ms.iter().enumerate();
            let within = times.filter(|(_, time)| from_ms <= **time && **time <= to_ms);
            selected.extend(within.map(|(row, _)| row).filter(|row| filter.matches(rows, *row)));
        }
        for newer in newer.iter_mut().filter(|newer| {
            let other = &newer.entry().zone;
            other.meets_times(zone.time_ms.0, zone.time_ms.1)
                && other.object.0 <= zone.object.1
                && zone.object.0 <= other.object.1
        }) {
            let mut kept = Vec::with_capacity(self.selected.len());
            for &row in &self.selected {
                if !newer.has_fix(rows.object[row], rows.time_ms[row], &mut self.budget)? {
                    kept.push(row);
                }
            }
            self.selected = kept;
        }
        for &row in &self.selected {
            if !self.version.is_erased(rows.object[row]) {
                out.push_row(rows.row(row));
            }
        }
        Ok(true)
    }

    /// The next tiles whose zones may have matches.
    fn next_tiles(&mut self) -> Result<Option<(usize, Range<usize>)>, HistoryError> {
        let (from_ms, to_ms) = self.window_ms;
        loop {
            while let Some(reader) = self.readers.get(self.run) {
                let may_match =
                    |zone: &Zone| zone.meets_times(from_ms, to_ms) && self.filter.may_match(zone);
                let zones = &reader.index().zones[self.tile..];
                if let Some(skipped) = zones.iter().position(may_match) {
                    let tiles = wanted(reader, self.tile + skipped, may_match);
                    self.tile = tiles.end;
                    return Ok(Some((self.run, tiles)));
                }
                (self.run, self.tile) = (self.run + 1, 0);
            }
            let Some(runs) = self.partitions.pop() else { return Ok(None) };
            let version = &self.version;
            let meets = runs.iter().filter(|file| {
                let zone = &file.entry.zone;
                zone.meets_times(from_ms, to_ms)
            });
            self.readers = meets.map(|file| version.reader(file)).collect::<Result<_, _>>()?;
            (self.run, self.tile) = (0, 0);
        }
    }

    /// The objects with a match, ascending.
    ///
    /// # Errors
    /// As [`Self::next`]; [`HistoryError::Budget`] if they are more than the rows of the budget.
    pub fn objects(mut self) -> Result<Vec<u64>, HistoryError> {
        let mut objects = BTreeSet::new();
        let mut rows = FixColumns::new();
        while self.next(&mut rows)? {
            objects.extend(&rows.object);
            self.budget.hold("objects", objects.len())?;
            rows.clear();
        }
        Ok(objects.into_iter().collect())
    }

    /// First and last time.
    pub(super) fn window_ms(&self) -> (i64, i64) {
        self.window_ms
    }

    /// Checks what the answer needs at once.
    pub(super) fn hold(&self, unit: &'static str, count: usize) -> Result<(), HistoryError> {
        self.budget.hold(unit, count)
    }
}
