//! Reads one run for one query: tiles, the directory of its objects, its removals and returns.
//!
//! It holds the block, the tile and the page of the directory that were read last, so that reads
//! in order decode nothing twice.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use shoal_codec::{
    Block, BlockError, Budget, Column, ColumnSet, FixColumns, FixRow, Table, TableValues,
    ValueType, Values,
};
use shoal_position_log::{LogError, checksum};

use super::page::{Page, PageCache};
use super::run_entry::FOOTER_BYTES;
use super::run_entry::{Footer, RunEntry};
use super::run_file::RunFile;
use super::run_index::{FIRST_COLUMN, RunIndex, decode_columns};
use super::shared_rows::SharedRows;
use crate::error::HistoryError;
use crate::limits::{BLOCK_TILES, TILE_ROWS};
use crate::query::QueryBudget;
use crate::removal::{EVERY_OBJECT, Mark, Removal, Return};

const OBJECTS: [ValueType; 4] = [ValueType::U64, ValueType::U32, ValueType::U32, ValueType::U32];
/// Tiles that are decoded at once: half a megabyte of columns, which stays in a core's cache.
const SPAN_TILES: usize = 16;
const REMOVALS: [ValueType; 4] = [ValueType::U64, ValueType::I64, ValueType::U64, ValueType::I64];
/// Column types of removals in version 1.
const REMOVALS_1: [ValueType; 2] = [ValueType::U64, ValueType::I64];
const RETURNS: [ValueType; 3] = [ValueType::U64, ValueType::I64, ValueType::U64];

/// Where the fixes of an object lie in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ObjectEntry {
    /// Its first row.
    pub(crate) first_row: u32,
    /// Number of its rows, which are consecutive and ascend by time.
    pub(crate) rows: u32,
    /// Its cell in the partition.
    pub(crate) cell: u32,
}

/// Directory entries of a range of objects, ascending by object.
#[derive(Debug, Default)]
struct ObjectTile {
    /// Page and tile that are held.
    place: Option<(usize, usize)>,
    objects: Vec<u64>,
    entries: Vec<ObjectEntry>,
}

/// A reader of a run.
#[derive(Debug)]
pub(crate) struct RunReader {
    file: Arc<RunFile>,
    cache: Arc<PageCache>,
    index: Arc<RunIndex>,
    block: Option<(usize, Arc<Block>)>,
    /// The tiles in `columns`. Only the columns in `decoded` have rows.
    tiles: Range<usize>,
    decoded: ColumnSet,
    columns: FixColumns,
    directory: ObjectTile,
}

impl RunReader {
    /// Opens a run. Fails if its footer differs from the entry in the manifest.
    pub(crate) fn open(
        file: &Arc<RunFile>,
        cache: &Arc<PageCache>,
        fleet_id: u128,
    ) -> Result<Self, HistoryError> {
        let page = cache.get((file.entry.number, None), || {
            load_index(file, fleet_id).map(|index| Page::Index(Arc::new(index)))
        })?;
        let Page::Index(index) = page else { unreachable!("keys tell pages from indexes") };
        Ok(Self::of(file.clone(), cache.clone(), index))
    }

    fn of(file: Arc<RunFile>, cache: Arc<PageCache>, index: Arc<RunIndex>) -> Self {
        Self {
            file,
            cache,
            index,
            block: None,
            tiles: 0..0,
            decoded: ColumnSet::NONE,
            columns: FixColumns::new(),
            directory: ObjectTile::default(),
        }
    }

    /// Another reader of the same run, without decoded data.
    pub(crate) fn fork(&self) -> Self {
        Self::of(self.file.clone(), self.cache.clone(), self.index.clone())
    }

    /// The entry of the run in the manifest.
    pub(crate) fn entry(&self) -> &RunEntry {
        &self.file.entry
    }

    /// Its file.
    pub(crate) fn file(&self) -> &RunFile {
        &self.file
    }

    /// All blocks of fixes, verified. They do not enter the cache.
    pub(crate) fn all_blocks(&self) -> Result<Vec<Block>, HistoryError> {
        let blocks = 0..self.entry().pages[0] as usize;
        blocks
            .map(|page| {
                let bytes = self.page_bytes(page)?;
                let parsed = Block::parse(bytes, &Budget::default());
                parsed.map_err(|source| self.refused(page, source))
            })
            .collect()
    }

    /// The index: pages and zones.
    pub(crate) fn index(&self) -> &Arc<RunIndex> {
        &self.index
    }

    /// The tiles from `tile` on that one call of [`Self::load`] may decode: at most [`SPAN_TILES`],
    /// all in one block.
    pub(crate) fn span(&self, tile: usize) -> Range<usize> {
        let block_end = (tile / BLOCK_TILES + 1) * BLOCK_TILES;
        tile..block_end.min(tile + SPAN_TILES).min(self.entry().tiles())
    }

    /// Rows of some tiles.
    pub(crate) fn rows_of(&self, tiles: &Range<usize>) -> usize {
        let last = tiles.end - 1;
        (last - tiles.start) * TILE_ROWS + self.entry().tile_rows(last)
    }

    /// Decodes columns of tiles of one block, unless they are decoded, and returns their rows.
    /// Each call builds the tables of codes, which takes as long as decoding a tile; sequential
    /// readers should load spans.
    pub(crate) fn load(
        &mut self,
        tiles: Range<usize>,
        columns: ColumnSet,
    ) -> Result<&FixColumns, HistoryError> {
        if self.tiles != tiles {
            self.columns.clear();
            (self.tiles, self.decoded) = (tiles, ColumnSet::NONE);
        }
        let missing = columns.without(self.decoded);
        if !missing.is_empty() {
            // If a column fails to decode, none counts as decoded.
            let before = std::mem::replace(&mut self.decoded, ColumnSet::NONE);
            let page = self.tiles.start / BLOCK_TILES;
            let first = self.tiles.start % BLOCK_TILES * TILE_ROWS;
            let rows = first..first + self.rows_of(&self.tiles);
            let block = self.block(page)?;
            let decoded = block.decode_columns(rows, missing, &mut self.columns);
            decoded.map_err(|source| self.refused(page, source))?;
            self.decoded = before.union(missing);
        }
        Ok(&self.columns)
    }

    /// The columns that are decoded.
    pub(crate) fn columns(&self) -> &FixColumns {
        &self.columns
    }

    /// Decodes columns of a tile, or with `is_ahead` of the whole span from it on, unless they are
    /// decoded. Returns the index of the tile's first row in the columns.
    fn tile(
        &mut self,
        tile: usize,
        columns: ColumnSet,
        is_ahead: bool,
        budget: &mut QueryBudget,
    ) -> Result<usize, HistoryError> {
        if !self.is_loaded(tile, columns) {
            let tiles = if is_ahead { self.span(tile) } else { tile..tile + 1 };
            budget.take_tiles(tiles.len())?;
            self.load(tiles, columns)?;
        }
        Ok((tile - self.tiles.start) * TILE_ROWS)
    }

    fn is_loaded(&self, tile: usize, columns: ColumnSet) -> bool {
        self.tiles.contains(&tile) && columns.without(self.decoded).is_empty()
    }

    /// Decodes the span of a row; returns the row's index and the columns. For sequential readers.
    pub(crate) fn row_ahead(&mut self, row: usize) -> Result<(usize, &FixColumns), HistoryError> {
        let tile = row / TILE_ROWS;
        if !self.is_loaded(tile, ColumnSet::ALL) {
            self.load(self.span(tile), ColumnSet::ALL)?;
        }
        Ok((row - self.tiles.start * TILE_ROWS, &self.columns))
    }

    fn refused(&self, page: usize, source: BlockError) -> HistoryError {
        HistoryError::Page { file: self.file.display(), page, source }
    }

    fn block(&mut self, page: usize) -> Result<Arc<Block>, HistoryError> {
        match &self.block {
            Some((held, block)) if *held == page => Ok(block.clone()),
            _ => {
                let parse = |bytes| {
                    let block = Block::parse(bytes, &Budget::default())?;
                    Ok(Page::Fixes(Arc::new(block)))
                };
                let Page::Fixes(block) = self.page(page, parse)? else {
                    return Err(self.mixed(page));
                };
                if block.rows() != self.index.pages[page].rows as usize {
                    return Err(self.mixed(page));
                }
                self.block = Some((page, block.clone()));
                Ok(block)
            }
        }
    }

    fn table(&self, page: usize) -> Result<Arc<Table>, HistoryError> {
        let parse = |bytes| Ok(Page::Table(Arc::new(Table::parse(bytes, &Budget::default())?)));
        let Page::Table(table) = self.page(page, parse)? else { return Err(self.mixed(page)) };
        let is_stated = table.rows() == self.index.pages[page].rows as usize;
        if is_stated { Ok(table) } else { Err(self.mixed(page)) }
    }

    fn mixed(&self, page: usize) -> HistoryError {
        let reason = format!("page {page} is not what the index states");
        LogError::damaged(self.file.display(), self.index.pages[page].offset, reason).into()
    }

    /// A page from the cache or the file, verified.
    fn page(
        &self,
        page: usize,
        parse: impl FnOnce(Bytes) -> Result<Page, BlockError>,
    ) -> Result<Page, HistoryError> {
        self.cache.get((self.entry().number, Some(page as u32)), || {
            let bytes = self.page_bytes(page)?;
            parse(bytes).map_err(|source| self.refused(page, source))
        })
    }

    /// The bytes of a page from the file, verified.
    fn page_bytes(&self, page: usize) -> Result<Bytes, HistoryError> {
        let entry = &self.index.pages[page];
        let bytes = self.file.read(entry.offset, entry.bytes as usize)?;
        if checksum(&bytes) != entry.crc {
            let reason = format!("the checksum of page {page} differs");
            return Err(LogError::damaged(self.file.display(), entry.offset, reason).into());
        }
        Ok(bytes)
    }

    /// Where the fixes of `object` lie; `None` if the run has none. Fast for neighbouring objects,
    /// because the last tile of the directory is kept.
    pub(crate) fn find(
        &mut self,
        object: u64,
        budget: &QueryBudget,
    ) -> Result<Option<ObjectEntry>, HistoryError> {
        let (least, greatest) = self.entry().zone.object;
        if object < least || object > greatest {
            return Ok(None);
        }
        let held = &self.directory.objects;
        let is_held = held.first().is_some_and(|first| *first <= object)
            && held.last().is_some_and(|last| object <= *last);
        if !is_held {
            let (first, pages) = self.index.pages_of(self.entry(), 1);
            let Some(page) = preceding(pages, |page| page.first_object <= object) else {
                return Ok(None);
            };
            budget.take_tiles(1)?;
            self.load_directory(first + page, object)?;
        }
        let found = self.directory.objects.binary_search(&object);
        Ok(found.ok().map(|at| self.directory.entries[at]))
    }

    /// Loads the tile of a directory page that has `object`, if the page has it.
    fn load_directory(&mut self, page: usize, object: u64) -> Result<(), HistoryError> {
        let table = self.table(page)?;
        let fault = |reason| self.unsorted(page, reason);
        // Binary search by the first object of each tile. A page has few tiles.
        let (mut low, mut high) = (0, table.rows().div_ceil(TILE_ROWS));
        while high - low > 1 {
            let middle = (low + high) / 2;
            let row = middle * TILE_ROWS;
            let objects = self.decode_page_objects(page, &table, row..row + 1)?;
            if objects[0] <= object { low = middle } else { high = middle }
        }
        if self.directory.place == Some((page, low)) {
            return Ok(());
        }
        let rows = low * TILE_ROWS..table.rows().min((low + 1) * TILE_ROWS);
        let (objects, entries) = self.decode_objects(&table, rows).map_err(fault)?;
        self.directory = ObjectTile { place: Some((page, low)), objects, entries };
        Ok(())
    }

    fn unsorted(&self, page: usize, reason: String) -> HistoryError {
        LogError::damaged(self.file.display(), self.index.pages[page].offset, reason).into()
    }

    /// The rows that a newer run of its partition may replace. The first call reads the directories
    /// of both and takes their tiles from the budget; parts of a scan that begin together may all
    /// do so.
    pub(crate) fn shared_with(
        &self,
        newer: &Self,
        budget: &QueryBudget,
    ) -> Result<Arc<SharedRows>, HistoryError> {
        let number = newer.entry().number;
        if let Some(known) = self.file.shared_with(number) {
            return Ok(known);
        }
        let found = Arc::new(SharedRows::find(self, newer, budget)?);
        self.file.remember_shared(number, found.clone());
        Ok(found)
    }

    /// Number of pages of the directory.
    pub(crate) fn object_pages(&self) -> usize {
        self.index.pages_of(self.entry(), 1).1.len()
    }

    /// The first object of each page of the directory.
    pub(crate) fn first_objects(&self) -> impl Iterator<Item = u64> {
        self.index.pages_of(self.entry(), 1).1.iter().map(|page| page.first_object)
    }

    /// The objects of one page of the directory, ascending.
    pub(crate) fn page_objects(
        &self,
        page: usize,
        budget: &QueryBudget,
    ) -> Result<Vec<u64>, HistoryError> {
        budget.take_tiles(1)?;
        let page = self.index.pages_of(self.entry(), 1).0 + page;
        let table = self.table(page)?;
        self.decode_page_objects(page, &table, 0..table.rows())
    }

    fn decode_page_objects(
        &self,
        page: usize,
        table: &Table,
        rows: Range<usize>,
    ) -> Result<Vec<u64>, HistoryError> {
        let decoded = table.decode(FIRST_COLUMN, rows);
        match decoded.map_err(|error| self.unsorted(page, error.to_string()))? {
            Some(TableValues::Numbers(Values::U64(objects))) => Ok(objects),
            _ => Err(self.mixed(page)),
        }
    }

    /// One page of the directory: objects, ascending, and their entries.
    pub(crate) fn object_page(
        &self,
        page: usize,
    ) -> Result<(Vec<u64>, Vec<ObjectEntry>), HistoryError> {
        let page = self.index.pages_of(self.entry(), 1).0 + page;
        let table = self.table(page)?;
        let decoded = self.decode_objects(&table, 0..table.rows());
        decoded.map_err(|reason| self.unsorted(page, reason))
    }

    /// Iterates over the tiles of an entry; yields each tile and the rows of the entry in it.
    fn tiles_of(entry: &ObjectEntry) -> impl DoubleEndedIterator<Item = (usize, Range<usize>)> {
        let (first, end) = (entry.first_row as usize, (entry.first_row + entry.rows) as usize);
        (first / TILE_ROWS..end.div_ceil(TILE_ROWS)).map(move |tile| {
            let start = tile * TILE_ROWS;
            (tile, first.max(start) - start..end.min(start + TILE_ROWS) - start)
        })
    }

    /// Appends the fixes of an object between two times, by time.
    pub(crate) fn fixes_of(
        &mut self,
        object: u64,
        (from_ms, to_ms): (i64, i64),
        budget: &mut QueryBudget,
        out: &mut Vec<FixRow>,
    ) -> Result<(), HistoryError> {
        let Some(entry) = self.find(object, budget)? else { return Ok(()) };
        let before = out.len();
        for (tile, rows) in Self::tiles_of(&entry) {
            if self.index.zones[tile].meets_times(from_ms, to_ms) {
                let start = self.tile(tile, ColumnSet::ALL, false, budget)?;
                let rows = start + rows.start..start + rows.end;
                let times = &self.columns.time_ms[rows.clone()];
                let first = rows.start + times.partition_point(|time| *time < from_ms);
                let end = rows.start + times.partition_point(|time| *time <= to_ms);
                out.extend((first..end).map(|row| self.columns.row(row)));
                budget.hold("fixes of one object in one partition", out.len() - before)?;
            }
        }
        Ok(())
    }

    /// The newest fix of an entry at or before a time. Set `is_dense` if most tiles will be
    /// requested in order, so that they are decoded in spans.
    pub(crate) fn newest_fix(
        &mut self,
        entry: &ObjectEntry,
        time_ms: i64,
        is_dense: bool,
        budget: &mut QueryBudget,
    ) -> Result<Option<FixRow>, HistoryError> {
        let row = self.newest_row(entry, time_ms, ColumnSet::ALL, is_dense, budget)?;
        Ok(row.map(|row| self.columns.row(row)))
    }

    /// As [`Self::newest_fix`], but decodes only `columns` and returns the index of the row in
    /// them.
    fn newest_row(
        &mut self,
        entry: &ObjectEntry,
        time_ms: i64,
        columns: ColumnSet,
        is_dense: bool,
        budget: &mut QueryBudget,
    ) -> Result<Option<usize>, HistoryError> {
        for (tile, rows) in Self::tiles_of(entry).rev() {
            if self.index.zones[tile].meets_times(i64::MIN, time_ms) {
                let start = self.tile(tile, columns, is_dense, budget)? + rows.start;
                let times = &self.columns.time_ms[start..start + rows.len()];
                let end = times.partition_point(|time| *time <= time_ms);
                if end > 0 {
                    return Ok(Some(start + end - 1));
                }
            }
        }
        Ok(None)
    }

    /// Whether the run has a fix of this identity.
    pub(crate) fn has_fix(
        &mut self,
        object: u64,
        time_ms: i64,
        budget: &mut QueryBudget,
    ) -> Result<bool, HistoryError> {
        let zone = &self.entry().zone;
        if !zone.meets_times(time_ms, time_ms) {
            return Ok(false);
        }
        let Some(entry) = self.find(object, budget)? else { return Ok(false) };
        let times = ColumnSet::NONE.with(Column::Time);
        let newest = self.newest_row(&entry, time_ms, times, false, budget)?;
        Ok(newest.is_some_and(|row| self.columns.time_ms[row] == time_ms))
    }

    fn decode_objects(
        &self,
        table: &Table,
        rows: Range<usize>,
    ) -> Result<(Vec<u64>, Vec<ObjectEntry>), String> {
        let columns = decode_columns(table, rows, OBJECTS)?;
        let [Values::U64(objects), Values::U32(first), Values::U32(rows), Values::U32(cells)] =
            columns
        else {
            unreachable!("types were compared")
        };
        let ends =
            first.iter().zip(&rows).map(|(first, rows)| u64::from(*first) + u64::from(*rows));
        if ends.max().is_some_and(|end| end > self.entry().rows) {
            return Err("the directory of objects exceeds the rows".to_owned());
        }
        let entry =
            |at: usize| ObjectEntry { first_row: first[at], rows: rows[at], cell: cells[at] };
        let entries = (0..objects.len()).map(entry).collect();
        Ok((objects, entries))
    }

    /// Pages of one kind for whose least and greatest object `is_wanted` returns true.
    fn pages_where(
        &self,
        kind: usize,
        is_wanted: impl Fn(u64, u64) -> bool,
    ) -> impl Iterator<Item = usize> {
        let (first, pages) = self.index.pages_of(self.entry(), kind);
        let greatest = pages.iter().skip(1).map(|page| page.first_object).chain([EVERY_OBJECT]);
        let ranges = pages.iter().map(|page| page.first_object).zip(greatest);
        let wanted = (first..).zip(ranges);
        let wanted = wanted.filter(move |(_, (least, greatest))| is_wanted(*least, *greatest));
        wanted.map(|(page, _)| page)
    }

    /// Calls `visit` with the removals of objects in `from..end` and the clears, ascending. May
    /// visit removals of other objects too.
    pub(crate) fn removals(
        &self,
        (from, end): (u64, u64),
        budget: &QueryBudget,
        mut visit: impl FnMut(Removal),
    ) -> Result<(), HistoryError> {
        let is_wanted =
            |least, greatest| (least < end && from <= greatest) || greatest == EVERY_OBJECT;
        for page in self.pages_where(2, is_wanted) {
            budget.take_tiles(1)?;
            self.removal_page(page, &mut visit)?;
        }
        Ok(())
    }

    /// Calls `visit` with the removals of some ascending objects. May visit other removals too.
    pub(crate) fn removals_of(
        &self,
        objects: &[u64],
        mut visit: impl FnMut(Removal),
    ) -> Result<(), HistoryError> {
        let is_wanted = |least, greatest| {
            let from = objects.partition_point(|object| *object < least);
            objects.get(from).is_some_and(|object| *object <= greatest)
        };
        self.pages_where(2, is_wanted).try_for_each(|page| self.removal_page(page, &mut visit))
    }

    fn removal_page(
        &self,
        page: usize,
        visit: &mut impl FnMut(Removal),
    ) -> Result<(), HistoryError> {
        let table = self.table(page)?;
        let unsorted = |reason| self.unsorted(page, reason);
        if table.chunks().len() == REMOVALS_1.len() {
            // In version 1, a removal ends all fixes up to its clock, whenever they arrived.
            let decoded = decode_columns(&table, 0..table.rows(), REMOVALS_1);
            let [Values::U64(objects), Values::I64(clocks)] = decoded.map_err(unsorted)? else {
                unreachable!("types were compared")
            };
            for (object, clock_ms) in objects.into_iter().zip(clocks) {
                let mark = Mark { number: 0, reach_ms: clock_ms };
                visit(Removal { object, clock_ms, mark });
            }
            return Ok(());
        }
        let decoded = decode_columns(&table, 0..table.rows(), REMOVALS);
        let [Values::U64(objects), Values::I64(clocks), Values::U64(numbers), Values::I64(reaches)] =
            decoded.map_err(unsorted)?
        else {
            unreachable!("types were compared")
        };
        for (row, object) in objects.into_iter().enumerate() {
            let mark = Mark { number: numbers[row], reach_ms: reaches[row] };
            visit(Removal { object, clock_ms: clocks[row], mark });
        }
        Ok(())
    }

    /// Calls `visit` with the returns of objects in `from..end`, ascending. May visit other returns
    /// too.
    pub(crate) fn returns(
        &self,
        (from, end): (u64, u64),
        budget: &QueryBudget,
        mut visit: impl FnMut(Return),
    ) -> Result<(), HistoryError> {
        for page in self.pages_where(3, |least, greatest| least < end && from <= greatest) {
            budget.take_tiles(1)?;
            let table = self.table(page)?;
            let decoded = decode_columns(&table, 0..table.rows(), RETURNS);
            let [Values::U64(objects), Values::I64(times), Values::U64(numbers)] =
                decoded.map_err(|reason| self.unsorted(page, reason))?
            else {
                unreachable!("types were compared")
            };
            for (row, object) in objects.into_iter().enumerate() {
                visit(Return { object, time_ms: times[row], number: numbers[row] });
            }
        }
        Ok(())
    }
}

/// Index of the last element of a sorted list for which `precedes` is true; `None` if there is
/// none.
fn preceding<T>(list: &[T], precedes: impl FnMut(&T) -> bool) -> Option<usize> {
    list.partition_point(precedes).checked_sub(1)
}

fn load_index(file: &RunFile, fleet_id: u128) -> Result<RunIndex, HistoryError> {
    let (entry, name) = (&file.entry, file.display());
    let offset = entry.bytes.saturating_sub(FOOTER_BYTES as u64);
    let footer = Footer::parse(&file.read(offset, FOOTER_BYTES)?, &name, offset)?;
    if (footer.fleet_id, &footer.entry) != (fleet_id, entry) {
        let reason = "the file is another run than the manifest names";
        return Err(LogError::damaged(name, offset, reason).into());
    }
    let bytes = file.read(entry.index_offset, entry.index_bytes as usize)?;
    Ok(RunIndex::parse(&bytes, entry, &name)?)
}
