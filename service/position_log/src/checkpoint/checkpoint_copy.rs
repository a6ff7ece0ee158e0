//! Copies a checkpoint from a leader to a follower as the bytes of its file.
//!
//! The copy gets its name when all of it was verified, as a checkpoint that is written here does.

use std::io;
use std::sync::Arc;

use super::checkpoint_files::{CheckpointFile, open_newest};
use super::checkpoint_reader::CheckpointReader;
use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::fleet_identity::FleetIdentity;
use crate::limits::{PAGE_BYTES, WRITE_BYTES};
use crate::storage::{Storage, StorageFile};

/// Reads the file of the newest checkpoint that is whole.
#[derive(Debug)]
pub struct CheckpointExport {
    display: String,
    file: Box<dyn StorageFile>,
    buffer: AlignedBuffer,
    offset: u64,
    bytes: u64,
}

impl CheckpointExport {
    /// Opens it; nothing without one.
    ///
    /// # Errors
    /// As [`open_newest`].
    pub fn open(
        storage: &Arc<dyn Storage>,
        folder: &str,
        fleet: &FleetIdentity,
    ) -> Result<Option<Self>, LogError> {
        let Some(newest) = open_newest(storage, folder, Some(fleet))?.newest else {
            return Ok(None);
        };
        let path = CheckpointFile(newest.header().epoch).path(folder);
        let display = storage.display(&path);
        let failed = |operation| LogError::storage(operation, display.clone());
        let file = storage.open(&path).map_err(failed("open"))?;
        let bytes = file.length().map_err(failed("read the length of"))?;
        let buffer = AlignedBuffer::zeroed(WRITE_BYTES);
        Ok(Some(Self { display, file, buffer, offset: 0, bytes }))
    }

    /// The next bytes; nothing at the end.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn next_part(&mut self) -> Result<Option<&[u8]>, LogError> {
        let count = (self.bytes - self.offset).min(self.buffer.len() as u64) as usize;
        if count == 0 {
            return Ok(None);
        }
        let failed = LogError::storage("read", self.display.clone());
        let part = &mut self.buffer[..count];
        if self.file.read_at(self.offset, part).map_err(failed)? < count {
            let reason = "the file became shorter";
            return Err(LogError::damaged(self.display.clone(), self.offset, reason));
        }
        self.offset += count as u64;
        Ok(Some(part))
    }
}

/// Writes a checkpoint that arrives in parts.
#[derive(Debug)]
pub struct CheckpointImport {
    storage: Arc<dyn Storage>,
    folder: String,
    reserve_bytes: u64,
    file: Box<dyn StorageFile>,
    buffer: AlignedBuffer,
    filled: usize,
    offset: u64,
}

impl CheckpointImport {
    /// Begins a copy in `folder`.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn create(
        storage: Arc<dyn Storage>,
        folder: &str,
        reserve_bytes: u64,
    ) -> Result<Self, LogError> {
        let path = format!("{folder}/{}", CheckpointFile::NEW);
        let failed = |operation| LogError::storage(operation, storage.display(&path));
        match storage.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed("remove"))?,
        }
        let file = storage.create(&path).map_err(failed("create"))?;
        let buffer = AlignedBuffer::zeroed(WRITE_BYTES);
        let folder = folder.to_owned();
        Ok(Self { storage, folder, reserve_bytes, file, buffer, filled: 0, offset: 0 })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// [`LogError::Space`], [`LogError::Storage`].
    pub fn append(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
        while !bytes.is_empty() {
            let count = bytes.len().min(self.buffer.len() - self.filled);
            let (now, later) = bytes.split_at(count);
            self.buffer[self.filled..self.filled + count].copy_from_slice(now);
            self.filled += count;
            bytes = later;
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<(), LogError> {
        let display = self.storage.display(&self.path());
        let free = self.storage.free_bytes();
        let free_bytes = free.map_err(LogError::storage("ask for the free space of", &display))?;
        let needed_bytes = self.reserve_bytes.saturating_add(self.filled as u64);
        if free_bytes < needed_bytes {
            return Err(LogError::Space { file: display, free_bytes, needed_bytes });
        }
        let written = self.file.write_at(self.offset, &self.buffer[..self.filled]);
        written.map_err(LogError::storage("write", display))?;
        self.offset += self.filled as u64;
        self.filled = 0;
        Ok(())
    }

    /// Verifies the copy, makes it durable and gives it its name. Returns its epoch.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Version`], [`LogError::Fleet`]; as [`Self::append`].
    pub fn finish(mut self, fleet: &FleetIdentity) -> Result<u64, LogError> {
        let path = self.path();
        if !self.filled.is_multiple_of(PAGE_BYTES) {
            let reason = "the copy ends within a page";
            return Err(LogError::damaged(self.storage.display(&path), self.offset, reason));
        }
        self.flush()?;
        let failed = |operation| LogError::storage(operation, self.storage.display(&path));
        self.file.sync_data().map_err(failed("sync"))?;
        let mut reader = CheckpointReader::open(&self.storage, &path, Some(fleet))?;
        let epoch = reader.header().epoch;
        while reader.next_section()?.is_some() {}
        let named = CheckpointFile(epoch).path(&self.folder);
        self.storage.rename(&path, &named).map_err(failed("rename"))?;
        self.storage.sync_dir(&self.folder).map_err(failed("sync the folder of"))?;
        Ok(epoch)
    }

    fn path(&self) -> String {
        format!("{}/{}", self.folder, CheckpointFile::NEW)
    }
}
