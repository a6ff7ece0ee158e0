//! Writes a run. Rows are appended one by one in order; each full block is encoded.
//!
//! The file has a temporary name until it is complete and durable.

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow, SpaceTag, Values};
use shoal_position_log::{NewFile, Storage, checksum};

use super::page::PageEntry;
use super::planners::SharedPlanners;
use super::run_entry::{FOOTER_BYTES, Footer, RunEntry};
use super::run_file::RunFile;
use super::run_index::RunIndex;
use super::run_reader::ObjectEntry;
use super::zone::Zone;
use crate::error::HistoryError;
use crate::limits::{BLOCK_ROWS, TABLE_PAGE_ROWS, TILE_ROWS};
use crate::partition::Partition;
use crate::removal::{Removal, Return};

/// Pages and index begin at multiples of this many bytes.
const ALIGN_BYTES: usize = 8;

/// A fix with the cell of its object in the partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CellRow {
    /// The cell, by which runs are ordered first.
    pub(crate) cell: u32,
    /// The fix.
    pub(crate) row: FixRow,
}

/// What identifies a run before it is written.
#[derive(Clone, Debug)]
pub(crate) struct NewRun {
    /// Storage of the run.
    pub(crate) storage: Arc<dyn Storage>,
    /// Folder of the run.
    pub(crate) folder: String,
    /// Bytes of the disk that must stay free.
    pub(crate) reserve_bytes: u64,
    /// The fleet.
    pub(crate) fleet_id: u128,
    /// Planners of the blocks and tables.
    pub(crate) planners: SharedPlanners,
    /// Its space.
    pub(crate) space: SpaceTag,
    /// See [`RunEntry`].
    pub(crate) number: u64,
    /// See [`RunEntry`].
    pub(crate) generation: u64,
    /// See [`RunEntry`].
    pub(crate) partition: Partition,
}

/// A run that is being written.
#[derive(Debug)]
pub(crate) struct RunWriter {
    run: NewRun,
    file: NewFile,
    columns: FixColumns,
    index: RunIndex,
    /// Objects in the order of rows; the last entry counts the rows so far.
    objects: Vec<(u64, ObjectEntry)>,
    pages: [u32; 4],
    rows: u64,
    zone: Zone,
}

impl RunWriter {
    /// Begins a run.
    pub(crate) fn create(run: NewRun) -> Result<Self, HistoryError> {
        let path = format!("{}.new", RunFile::path_of(&run.folder, run.number));
        let file = NewFile::create(run.storage.clone(), path, run.reserve_bytes)?;
        Ok(Self {
            run,
            file,
            columns: FixColumns::new(),
            index: RunIndex::default(),
            objects: Vec::new(),
            pages: [0; 4],
            rows: 0,
            zone: Zone::EMPTY,
        })
    }

    /// Appends a fix. Fixes must ascend by (cell, object, time).
    pub(crate) fn push(&mut self, CellRow { cell, row }: CellRow) -> Result<(), HistoryError> {
        match self.objects.last_mut() {
            Some((object, entry)) if *object == row.object => entry.rows += 1,
            _ => {
                let entry = ObjectEntry { first_row: self.rows as u32, rows: 1, cell };
                self.objects.push((row.object, entry));
            }
        }
        if (self.rows as usize).is_multiple_of(TILE_ROWS) {
            self.index.zones.push(Zone::EMPTY);
        }
        self.index.zones.last_mut().expect("a tile has begun").add(&row);
        self.zone.add(&row);
        self.columns.push_row(row);
        self.rows += 1;
        if self.columns.len() == BLOCK_ROWS { self.end_block() } else { Ok(()) }
    }

    /// Encodes the rows that are collected.
    fn end_block(&mut self) -> Result<(), HistoryError> {
        // Each block gets new columns, so that attributes that it lacks are not written.
        let columns = std::mem::replace(&mut self.columns, FixColumns::with_capacity(BLOCK_ROWS));
        let sequence = u64::from(self.pages[0]) + 1;
        let block = self.run.planners.get().fixes(&columns, &self.run.space, sequence)?;
        self.end_page(0, block, columns.len(), columns.object[0])
    }

    /// Appends an encoded page.
    fn end_page(
        &mut self,
        kind: usize,
        mut page: Vec<u8>,
        rows: usize,
        first_object: u64,
    ) -> Result<(), HistoryError> {
        let offset = self.file.length();
        let (bytes, crc) = (page.len() as u32, checksum(&page));
        self.index.pages.push(PageEntry { offset, bytes, rows: rows as u32, crc, first_object });
        self.pages[kind] += 1;
        let padded = page.len().next_multiple_of(ALIGN_BYTES);
        page.resize(padded, 0);
        Ok(self.file.append(&page)?)
    }

    /// Completes the run with removals and returns, ascending, makes it durable and gives it its
    /// name.
    pub(crate) fn finish(
        mut self,
        removals: &[Removal],
        returns: &[Return],
    ) -> Result<RunEntry, HistoryError> {
        if !self.columns.is_empty() {
            self.end_block()?;
        }
        let mut objects = std::mem::take(&mut self.objects);
        objects.sort_unstable_by_key(|(object, _)| *object);
        for page in objects.chunks(TABLE_PAGE_ROWS) {
            let columns = [
                Values::U64(page.iter().map(|(object, _)| *object).collect()),
                Values::U32(page.iter().map(|(_, entry)| entry.first_row).collect()),
                Values::U32(page.iter().map(|(_, entry)| entry.rows).collect()),
                Values::U32(page.iter().map(|(_, entry)| entry.cell).collect()),
            ];
            let encoded = self.run.planners.get().objects(columns)?;
            self.end_page(1, encoded, page.len(), page[0].0)?;
        }
        for page in removals.chunks(TABLE_PAGE_ROWS) {
            let columns = [
                Values::U64(page.iter().map(|it| it.object).collect()),
                Values::I64(page.iter().map(|it| it.clock_ms).collect()),
                Values::U64(page.iter().map(|it| it.mark.number).collect()),
                Values::I64(page.iter().map(|it| it.mark.reach_ms).collect()),
            ];
            let encoded = self.run.planners.get().removals(columns)?;
            self.end_page(2, encoded, page.len(), page[0].object)?;
        }
        for page in returns.chunks(TABLE_PAGE_ROWS) {
            let columns = [
                Values::U64(page.iter().map(|it| it.object).collect()),
                Values::I64(page.iter().map(|it| it.time_ms).collect()),
                Values::U64(page.iter().map(|it| it.number).collect()),
            ];
            let encoded = self.run.planners.get().returns(columns)?;
            self.end_page(3, encoded, page.len(), page[0].object)?;
        }
        let index = self.index.encode(self.run.partition.start_ms, &mut self.run.planners.get())?;
        let index_offset = self.file.length();
        self.file.append(&index)?;
        let used = self.file.length() as usize;
        self.file.append(&vec![0; used.next_multiple_of(FOOTER_BYTES) - used])?;
        let entry = RunEntry {
            number: self.run.number,
            generation: self.run.generation,
            partition: self.run.partition,
            rows: self.rows,
            objects: objects.len() as u64,
            removals: removals.len() as u64,
            returns: returns.len() as u64,
            reach_ms: removals.iter().map(|it| it.mark.reach_ms).max().unwrap_or(i64::MIN),
            removed_from_ms: removals.iter().map(|it| it.clock_ms).min().unwrap_or(i64::MAX),
            bytes: self.file.length() + FOOTER_BYTES as u64,
            zone: self.zone,
            pages: self.pages,
            index_bytes: index.len() as u32,
            index_offset,
            index_crc: checksum(&index),
        };
        let footer = Footer { fleet_id: self.run.fleet_id, entry };
        self.file.append(&footer.encode())?;
        self.file.sync()?;
        self.file.publish(&RunFile::path_of(&self.run.folder, self.run.number))?;
        Ok(footer.entry)
    }
}
