//! Creates, recycles and removes the files of a log's segments.
//!
//! Every change is durable when its call returns, and atomic with respect to crashes.

use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::{PAGE_BYTES, SPARES_MAX};
use crate::log_bounds::LogBounds;
use crate::retirement::{Retirement, Retiring};
use crate::segment::{LogFile, SegmentHeader};
use crate::spare::{Spare, SpareJob, with_space, write_zeros};
use crate::storage::{Storage, StorageFile};

/// The folder of a log and its spares.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    storage: Arc<dyn Storage>,
    folder: String,
    /// Bytes of an ordinary segment.
    segment_bytes: u64,
    spares: Vec<Spare>,
    /// Number of the next spare.
    spare_number: u64,
    /// Whether retired segments become spares.
    recycles: bool,
}

impl SegmentPool {
    /// Opens the folder. Keeps the spares of an earlier run that have the size of the next segment,
    /// at most [`SPARES_MAX`], and removes all other prepared files.
    pub(crate) fn open(
        storage: Arc<dyn Storage>,
        folder: &str,
        segment_bytes: u64,
        next_bytes: u64,
    ) -> Result<Self, LogError> {
        let display = storage.display(folder);
        let failed = |operation| LogError::storage(operation, display.clone());
        let names = storage.list(folder).map_err(failed("list"))?;
        let mut pool = Self {
            storage,
            folder: folder.to_owned(),
            segment_bytes,
            spares: Vec::new(),
            spare_number: 1,
            recycles: true,
        };
        for file in names.iter().filter_map(|name| LogFile::parse(name)) {
            let (LogFile::Spare(number) | LogFile::New(number)) = file else { continue };
            pool.spare_number = pool.spare_number.max(number.saturating_add(1));
            let path = file.path(folder);
            let is_spare = matches!(file, LogFile::Spare(_)) && pool.spares.len() < SPARES_MAX;
            let length = || pool.storage.open(&path).and_then(|file| file.length());
            if is_spare && length().map_err(failed("open a spare in"))? == next_bytes {
                pool.spares.push(Spare { number, bytes: next_bytes });
            } else {
                pool.storage.remove(&path).map_err(failed("remove a spare from"))?;
            }
        }
        pool.sync_folder()?;
        Ok(pool)
    }

    /// Whether a prepared file of this size is ready.
    pub(crate) fn has_spare(&self, bytes: u64) -> bool {
        self.spares.iter().any(|spare| spare.bytes == bytes)
    }

    /// Removes the spares that are smaller than the segments to come. Errors are ignored: the next
    /// writer removes the files.
    pub(crate) fn discard_below(&mut self, bytes: u64) {
        let (storage, folder) = (&self.storage, &self.folder);
        self.spares.retain(|spare| {
            let is_kept = spare.bytes >= bytes;
            if !is_kept {
                let _ = storage.remove(&LogFile::Spare(spare.number).path(folder));
            }
            is_kept
        });
    }

    pub(crate) fn add(&mut self, spare: Spare) {
        self.spares.push(spare);
    }

    pub(crate) fn job(&mut self, bytes: u64, reserve_bytes: u64) -> SpareJob {
        let number = self.next_spare_number();
        let (storage, folder) = (self.storage.clone(), self.folder.clone());
        SpareJob { storage, folder, number, bytes, reserve_bytes }
    }

    fn next_spare_number(&mut self) -> u64 {
        let number = self.spare_number;
        self.spare_number = number.wrapping_add(1);
        number
    }

    /// Ensures that a prepared file of this size exists. An error leaves the log unchanged.
    pub(crate) fn ensure(&mut self, bytes: u64, reserve_bytes: u64) -> Result<(), LogError> {
        if !self.has_spare(bytes) {
            let spare = self.job(bytes, reserve_bytes).run()?;
            self.spares.push(spare);
        }
        Ok(())
    }

    /// Turns a spare into the segment of this header.
    pub(crate) fn create(
        &mut self,
        segment: &SegmentHeader,
    ) -> Result<Box<dyn StorageFile>, LogError> {
        self.ensure(segment.bytes, 0)?;
        let ready = self.spares.iter().position(|spare| spare.bytes == segment.bytes);
        let spare = self.spares.swap_remove(ready.expect("a file is ready"));
        let from = LogFile::Spare(spare.number).path(&self.folder);
        let display = self.storage.display(&from);
        let failed = |operation| LogError::storage(operation, display.clone());
        let file = self.storage.open(&from).map_err(failed("open"))?;
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        segment.encode(&mut page);
        file.write_at(0, &page).map_err(failed("write"))?;
        file.sync_data().map_err(failed("sync"))?;
        let to = LogFile::Segment(segment.number).path(&self.folder);
        self.storage.rename(&from, &to).map_err(failed("rename"))?;
        self.sync_folder()?;
        Ok(file)
    }

    pub(crate) fn open_segment(&self, number: u64) -> Result<Box<dyn StorageFile>, LogError> {
        let failed = LogError::storage("open", self.display(number));
        self.storage.open(&LogFile::Segment(number).path(&self.folder)).map_err(failed)
    }

    /// Extends a truncated segment file to the length in its header, so that later writes within
    /// the segment need no new space on the disk.
    pub(crate) fn complete(
        &self,
        file: &dyn StorageFile,
        segment: &SegmentHeader,
        reserve_bytes: u64,
    ) -> Result<(), LogError> {
        let display = self.display(segment.number);
        let length = file.length().map_err(LogError::storage("read the length of", &display))?;
        if length >= segment.bytes {
            return Ok(());
        }
        let from = length.next_multiple_of(PAGE_BYTES as u64);
        with_space(&*self.storage, display, segment.bytes - length, reserve_bytes, || {
            if from > length {
                let (at, mut page) = (from - PAGE_BYTES as u64, AlignedBuffer::zeroed(PAGE_BYTES));
                file.read_at(at, &mut page)?;
                file.write_at(at, &page)?;
            }
            write_zeros(file, from, segment.bytes)?;
            file.sync_data()
        })
    }

    /// Returns the work that retires `segments` (number, bytes). `bounds` describes the
    /// remaining log. Files become spares up to the limit of spares; the others are removed.
    pub(crate) fn retirement(&mut self, segments: &[(u64, u64)], bounds: LogBounds) -> Retirement {
        let places = if self.recycles { SPARES_MAX } else { 0 };
        let mut room = places.saturating_sub(self.spares.len());
        let mut retiring = |&(number, bytes): &(u64, u64)| {
            let is_recycled = bytes == self.segment_bytes && room > 0;
            room -= usize::from(is_recycled);
            let spare = is_recycled.then(|| Spare { number: self.next_spare_number(), bytes });
            Retiring { number, spare }
        };
        let segments = segments.iter().map(&mut retiring).collect();
        let (storage, folder) = (self.storage.clone(), self.folder.clone());
        Retirement { storage, folder, bounds: Some(bounds), segments }
    }

    pub(crate) fn load_bounds(&self) -> Result<Option<LogBounds>, LogError> {
        LogBounds::load(&*self.storage, &self.folder)
    }

    pub(crate) fn store_bounds(&self, bounds: LogBounds) -> Result<(), LogError> {
        bounds.store(&*self.storage, &self.folder)
    }

    /// Sets whether retired segments become spares. False also removes the present spares, because
    /// they may contain data of former segments.
    pub(crate) fn recycle(&mut self, recycles: bool) -> Result<(), LogError> {
        self.recycles = recycles;
        if !recycles {
            for spare in self.spares.drain(..) {
                let path = LogFile::Spare(spare.number).path(&self.folder);
                let failed = LogError::storage("remove", self.storage.display(&path));
                self.storage.remove(&path).map_err(failed)?;
            }
            self.sync_folder()?;
        }
        Ok(())
    }

    /// Removes a segment.
    pub(crate) fn remove(&self, number: u64) -> Result<(), LogError> {
        let failed = LogError::storage("remove", self.display(number));
        self.storage.remove(&LogFile::Segment(number).path(&self.folder)).map_err(failed)?;
        self.sync_folder()
    }

    /// Renames a segment to `*.damaged`, which takes it out of the log, and returns the new name.
    pub(crate) fn set_aside(&self, number: u64) -> Result<String, LogError> {
        let from = LogFile::Segment(number).path(&self.folder);
        let to = format!("{from}.damaged");
        let failed = LogError::storage("rename", self.display(number));
        self.storage.rename(&from, &to).map_err(failed)?;
        self.sync_folder()?;
        Ok(self.storage.display(&to))
    }

    pub(crate) fn sync_folder(&self) -> Result<(), LogError> {
        let failed = LogError::storage("sync", self.storage.display(&self.folder));
        self.storage.sync_dir(&self.folder).map_err(failed)
    }

    pub(crate) fn display(&self, number: u64) -> String {
        self.storage.display(&LogFile::Segment(number).path(&self.folder))
    }
}
