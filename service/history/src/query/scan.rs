//! The fixes of a window of time that match a filter, in the order of the runs.
//!
//! Zones select tiles. Columns that are tested are decoded first, the others only if rows are
//! selected. Tests that a zone decides for the whole tile are skipped. A row that a newer run of
//! its partition replaces is not returned, even if its replacement does not match.

use std::ops::Range;
use std::sync::Arc;

use shoal_codec::{Column, ColumnSet, FixColumns};

use super::budget::QueryBudget;
use super::row_filter::RowFilter;
use super::scan_piece::{ScanPiece, cut};
use crate::error::HistoryError;
use crate::limits::{TABLE_PAGE_ROWS, TILE_ROWS};
use crate::run::{RunReader, SharedRows, Zone};
use crate::run_device::RunPages;
use crate::version::Version;

const OBJECTS: ColumnSet = ColumnSet::NONE.with(Column::Object);
const TIMES: ColumnSet = ColumnSet::NONE.with(Column::Time);

/// Fixes between two times, both included. Each step returns the fixes of some tiles, in the order
/// of partition, run, cell, object and time.
#[derive(Debug)]
pub struct Scan<F> {
    version: Arc<Version>,
    window_ms: (i64, i64),
    filter: F,
    budget: QueryBudget,
    /// Pieces after the current one, the next one last.
    pieces: Vec<ScanPiece>,
    /// The run of the current piece, and the newer runs of its partition, generations ascending.
    readers: Vec<RunReader>,
    /// For each newer run, the rows of the current run that it may replace; `None` until needed.
    shared: Vec<Option<Arc<SharedRows>>>,
    /// The tiles of the current piece that are still to be read.
    tiles: Range<usize>,
    /// Tiles of the run with rows in the window and the bounds of the filter, if a device has
    /// answered.
    found: Option<Vec<u32>>,
    /// Whether each row of the last span is selected.
    flags: Vec<bool>,
}

/// What a visitor of a scan gets.
#[derive(Debug)]
pub(super) enum Found<'a, G> {
    /// A match: decoded rows, and its place among them.
    Row(&'a FixColumns, usize),
    /// A group, and the number of its matches.
    Group(G, u64),
}

/// Output of a visit: the columns of each match, or, where `group_of` returns a group for the zone
/// of a tile, only the number of matches.
struct Wanted<G, O: Fn(&Zone) -> Option<G>> {
    columns: ColumnSet,
    group_of: O,
}

/// Tests and columns that a tile needs, given its zone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tests<G> {
    times: bool,
    filter: bool,
    /// The columns that are decoded for matches; none if matches are only counted.
    columns: ColumnSet,
    group: Option<G>,
}

/// Tiles of a block that are read together.
struct Span<G> {
    tiles: Range<usize>,
    zone: Zone,
    tests: Tests<G>,
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
        let runs = version.partitions_in(from_ms, to_ms).flat_map(ScanPiece::of_partition);
        let in_window = |piece: &ScanPiece| piece.file().entry.zone.meets_times(from_ms, to_ms);
        let mut pieces: Vec<_> = runs.filter(in_window).collect();
        pieces.reverse();
        Self {
            version,
            window_ms: (from_ms, to_ms),
            filter,
            budget,
            pieces,
            readers: Vec::new(),
            shared: Vec::new(),
            tiles: 0..0,
            found: None,
            flags: Vec::new(),
        }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Number of blocks in runs that it has not begun to read.
    #[must_use]
    pub fn blocks(&self) -> usize {
        self.pieces.iter().map(ScanPiece::blocks).sum()
    }

    /// Splits a scan that has not begun into 1 to `parts` scans of whole blocks, one for each
    /// thread. Their concatenated answers equal the scan's answer. They share its budget of tiles.
    ///
    /// # Panics
    /// If the scan has begun, or `parts` is 0.
    #[must_use]
    pub fn split(self, parts: usize) -> Vec<Self>
    where
        F: Clone,
    {
        assert!(self.readers.is_empty(), "the scan has not begun");
        let part = |pieces| Self {
            version: self.version.clone(),
            window_ms: self.window_ms,
            filter: self.filter.clone(),
            budget: self.budget.clone(),
            pieces,
            readers: Vec::new(),
            shared: Vec::new(),
            tiles: 0..0,
            found: None,
            flags: Vec::new(),
        };
        let parts = parts.min(self.blocks()).max(usize::from(parts > 0));
        cut(&self.pieces, parts).into_iter().map(part).collect()
    }

    /// Appends the matches of some tiles, possibly none. Returns false at the end.
    ///
    /// # Errors
    /// [`HistoryError::Cancelled`], [`HistoryError::Budget`], [`HistoryError::File`],
    /// [`HistoryError::Page`].
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        self.visit(ColumnSet::ALL, |rows, row| out.push_row(rows.row(row)))
    }

    /// Calls `each` with the matches of some tiles. The columns of `needs` are decoded. Returns
    /// false at the end.
    pub(super) fn visit(
        &mut self,
        needs: ColumnSet,
        mut each: impl FnMut(&FixColumns, usize),
    ) -> Result<bool, HistoryError> {
        self.visit_groups(
            needs,
            |_| None::<()>,
            |found| match found {
                Found::Row(rows, row) => each(rows, row),
                Found::Group((), _) => unreachable!("no zone has a group"),
            },
        )
    }

    /// As [`Self::visit`]. If the zone of a tile has a group, its matches are counted and only the
    /// columns of tests are decoded.
    pub(super) fn visit_groups<G: Copy + PartialEq>(
        &mut self,
        columns: ColumnSet,
        group_of: impl Fn(&Zone) -> Option<G>,
        mut each: impl FnMut(Found<'_, G>),
    ) -> Result<bool, HistoryError> {
        let wanted = Wanted { columns, group_of };
        let Some(Span { tests, .. }) = self.step(&wanted)? else { return Ok(false) };
        if let Some(group) = tests.group {
            each(Found::Group(group, self.selected()));
            return Ok(true);
        }
        let rows = self.readers[0].columns();
        const GROUP: usize = 8;
        for (group, flags) in self.flags.chunks(GROUP).enumerate() {
            // In most groups no row is selected; one comparison finds that.
            if flags != [false; GROUP] {
                let selected = flags.iter().enumerate().filter(|(_, flag)| **flag);
                selected.for_each(|(row, _)| each(Found::Row(rows, group * GROUP + row)));
            }
        }
        Ok(true)
    }

    /// Number of rows of the last span that are selected.
    fn selected(&self) -> u64 {
        // The sum of a group fits in a byte, so that many flags are added with one instruction.
        let groups = self.flags.chunks(u8::MAX as usize);
        groups.map(|group| u64::from(group.iter().map(|flag| u8::from(*flag)).sum::<u8>())).sum()
    }

    /// Selects rows of the next tiles, and decodes the wanted columns if any row is selected.
    /// Returns `None` at the end.
    fn step<G: Copy + PartialEq>(
        &mut self,
        wanted: &Wanted<G, impl Fn(&Zone) -> Option<G>>,
    ) -> Result<Option<Span<G>>, HistoryError> {
        let Some(span) = self.next_span(wanted)? else { return Ok(None) };
        let Span { ref tiles, ref zone, ref tests } = span;
        let mut needs = tests.columns;
        self.budget.take_tiles(tiles.len())?;
        let (reader, newer) = self.readers.split_first_mut().expect("a piece has a run");
        let Self { filter, flags, window_ms: (from_ms, to_ms), .. } = self;
        flags.clear();
        flags.resize(reader.rows_of(tiles), true);
        if tests.times {
            let times = &reader.load(tiles.clone(), TIMES)?.time_ms;
            for (flag, time) in flags.iter_mut().zip(times) {
                *flag = (*from_ms <= *time) & (*time <= *to_ms);
            }
        }
        if tests.filter && flags.contains(&true) {
            filter.select(reader.load(tiles.clone(), filter.columns())?, flags);
        }
        if !flags.contains(&true) {
            return Ok(Some(span));
        }
        let first_row = (tiles.start * TILE_ROWS) as u32;
        let span_rows = first_row..first_row + flags.len() as u32;
        let mut met = Vec::new();
        for (at, other) in newer.iter().enumerate() {
            if other.entry().zone.may_share_fixes(zone) {
                let shared = match &mut self.shared[at] {
                    Some(known) => known,
                    unknown => unknown.insert(shared(reader, other, &self.budget)?),
                };
                if shared.meet(&span_rows) {
                    met.push(at);
                }
            }
        }
        let is_erasing = self.version.erasing() > 0;
        if is_erasing || !met.is_empty() {
            needs = needs.union(OBJECTS).union(TIMES);
        }
        if needs.is_empty() {
            return Ok(Some(span));
        }
        let rows = reader.load(tiles.clone(), needs)?;
        for at in met {
            let newer = &mut newer[at];
            for (row, flag) in flags.iter_mut().enumerate().filter(|(_, flag)| **flag) {
                *flag = !newer.has_fix(rows.object[row], rows.time_ms[row], &mut self.budget)?;
            }
        }
        if is_erasing {
            for (flag, object) in flags.iter_mut().zip(&rows.object) {
                *flag = *flag && !self.version.is_erased(*object);
            }
        }
        Ok(Some(span))
    }

    /// The next consecutive tiles that may have matches and need the same tests and columns.
    fn next_span<G: Copy + PartialEq>(
        &mut self,
        wanted: &Wanted<G, impl Fn(&Zone) -> Option<G>>,
    ) -> Result<Option<Span<G>>, HistoryError> {
        loop {
            if let Some(reader) = self.readers.first() {
                let zones = &reader.index().zones;
                let mut rest = self.tiles.clone();
                let found = rest.find_map(|tile| Some((tile, self.tests_of(zones, tile, wanted)?)));
                if let Some((first, tests)) = found {
                    let limit = reader.span(first).end.min(self.tiles.end);
                    let (mut end, mut zone) = (first, Zone::EMPTY);
                    while end < limit && self.tests_of(zones, end, wanted) == Some(tests) {
                        zone.join(&zones[end]);
                        end += 1;
                    }
                    self.tiles.start = end;
                    return Ok(Some(Span { tiles: first..end, zone, tests }));
                }
            }
            let Some(piece) = self.pieces.pop() else { return Ok(None) };
            let (from_ms, to_ms) = self.window_ms;
            let newer = piece.newer().filter(|file| file.entry.zone.meets_times(from_ms, to_ms));
            let files = std::iter::once(piece.file()).chain(newer);
            let readers = files.map(|file| self.version.reader(file));
            self.readers = readers.collect::<Result<_, _>>()?;
            self.shared = vec![None; self.readers.len() - 1];
            self.tiles = piece.tiles;
            self.found = self.ask_device(wanted);
        }
    }

    /// Asks the device for the tiles of the current run with rows in the window and the bounds of
    /// the filter. `None` if too few tiles would be decoded otherwise, or if it does not answer.
    fn ask_device<G>(&self, wanted: &Wanted<G, impl Fn(&Zone) -> Option<G>>) -> Option<Vec<u32>> {
        let (device, reader) = (self.version.device.as_ref()?, self.readers.first()?);
        let zones = &reader.index().zones[self.tiles.clone()];
        let is_tested = |zone: &&Zone| {
            let tests = self.tests(zone, wanted);
            tests.is_some_and(|tests| tests.times || tests.filter)
        };
        zones.iter().filter(is_tested).nth(device.tiles_min().saturating_sub(1))?;
        let bounds = Zone { time_ms: self.window_ms, ..self.filter.bounds() };
        device.tiles(&RunPages(reader), &bounds)
    }

    /// Same as [`Self::tests`] with the zone of a tile of the current run.
    fn tests_of<G>(
        &self,
        zones: &[Zone],
        tile: usize,
        wanted: &Wanted<G, impl Fn(&Zone) -> Option<G>>,
    ) -> Option<Tests<G>> {
        let is_found = |found: &Vec<u32>| found.binary_search(&(tile as u32)).is_ok();
        let may_match = self.found.as_ref().is_none_or(is_found);
        may_match.then(|| self.tests(&zones[tile], wanted))?
    }

    /// Tests and columns of a tile with this zone; `None` if none of its rows can match.
    fn tests<G>(
        &self,
        zone: &Zone,
        wanted: &Wanted<G, impl Fn(&Zone) -> Option<G>>,
    ) -> Option<Tests<G>> {
        let (from_ms, to_ms) = self.window_ms;
        let filter = &self.filter;
        if !zone.meets_times(from_ms, to_ms) || !filter.may_match(zone) {
            return None;
        }
        let group = (wanted.group_of)(zone);
        let columns = if group.is_some() { ColumnSet::NONE } else { wanted.columns };
        let of_filter = filter.columns();
        Some(Tests {
            // Columns that are decoded anyway are always tested, as equal tests make longer spans.
            times: columns.contains(Column::Time) || !zone.lies_in_times(from_ms, to_ms),
            filter: !of_filter.is_empty() && of_filter.without(columns).is_empty()
                || !filter.covers(zone),
            columns,
            group,
        })
    }

    /// The number of matches. Tiles whose zones prove that all their rows match are not decoded.
    ///
    /// # Errors
    /// As [`Self::next`].
    pub fn count(mut self) -> Result<u64, HistoryError> {
        let mut count = 0;
        let wanted = Wanted { columns: ColumnSet::NONE, group_of: |_: &Zone| Some(()) };
        while self.step(&wanted)?.is_some() {
            count += self.selected();
        }
        Ok(count)
    }

    /// First and last time.
    pub(super) fn window_ms(&self) -> (i64, i64) {
        self.window_ms
    }

    /// See [`QueryBudget::hold`].
    pub(super) fn hold(&self, unit: &'static str, count: usize) -> Result<(), HistoryError> {
        self.budget.hold(unit, count)
    }
}

/// The rows of a run that a newer run may replace. If the directories are large compared with the
/// run (objects with few rows), they are not compared, and every row is assumed to be shared.
fn shared(
    reader: &RunReader,
    newer: &RunReader,
    budget: &QueryBudget,
) -> Result<Arc<SharedRows>, HistoryError> {
    const SHARE_MAX: usize = 4;
    let pages = reader.object_pages() + newer.object_pages();
    // The first page of each run is not counted, so that short runs are always compared.
    let tiles = pages.saturating_sub(2) * TABLE_PAGE_ROWS / TILE_ROWS;
    if tiles * SHARE_MAX > reader.entry().tiles() {
        return Ok(Arc::new(SharedRows::Many));
    }
    reader.shared_with(newer, budget)
}
