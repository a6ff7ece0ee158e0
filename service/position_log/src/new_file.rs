//! A file that is being written. It has a temporary name and is removed unless it is published.
//!
//! Checkpoints and the runs of a history are written with it.

use std::io;
use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::{PAGE_BYTES, WRITE_BYTES};
use crate::storage::{Storage, StorageFile, folder_of};
use crate::wire::page_align;

/// Writes a new file sequentially, through a buffer.
#[derive(Debug)]
pub struct NewFile {
    storage: Arc<dyn Storage>,
    path: String,
    reserve_bytes: u64,
    /// `None` once the file has its name.
    file: Option<Box<dyn StorageFile>>,
    buffer: AlignedBuffer,
    /// Bytes of the buffer in use.
    filled: usize,
    /// Offset of the buffer in the file.
    offset: u64,
}

impl NewFile {
    /// Creates a file after removing an unfinished one of the same path. Writes fail if they would
    /// leave less than `reserve_bytes` free on the disk.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn create(
        storage: Arc<dyn Storage>,
        path: String,
        reserve_bytes: u64,
    ) -> Result<Self, LogError> {
        let failed = |operation| LogError::storage(operation, storage.display(&path));
        match storage.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(failed("remove"))?,
        }
        let file = Some(storage.create(&path).map_err(failed("create"))?);
        let buffer = AlignedBuffer::zeroed(WRITE_BYTES);
        Ok(Self { storage, path, reserve_bytes, file, buffer, filled: 0, offset: 0 })
    }

    /// Appends bytes.
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

    /// Writes the buffer, padded to whole pages.
    fn flush(&mut self) -> Result<(), LogError> {
        let display = self.storage.display(&self.path);
        let end = page_align(self.filled);
        self.buffer[self.filled..end].fill(0);
        let free = self.storage.free_bytes();
        let free_bytes = free.map_err(LogError::storage("ask for the free space of", &display))?;
        let needed_bytes = self.reserve_bytes.saturating_add(end as u64);
        let no_space = LogError::Space { file: display.clone(), free_bytes, needed_bytes };
        if free_bytes < needed_bytes {
            return Err(no_space);
        }
        let Some(file) = &self.file else { return Ok(()) };
        match file.write_at(self.offset, &self.buffer[..end]) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(no_space),
            written => written.map_err(LogError::storage("write", display))?,
        }
        self.offset += end as u64;
        self.filled = 0;
        Ok(())
    }

    /// Writes the rest of the buffer, padded to whole pages, and makes the file durable. Returns
    /// the length of the file.
    ///
    /// # Errors
    /// [`LogError::Space`], [`LogError::Storage`].
    pub fn sync(&mut self) -> Result<u64, LogError> {
        if self.filled > 0 {
            self.flush()?;
        }
        if let Some(file) = &self.file {
            let display = self.storage.display(&self.path);
            file.sync_data().map_err(LogError::storage("sync", display))?;
        }
        Ok(self.offset)
    }

    /// Renames the synced file to `to` in the same folder, durably.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn publish(&mut self, to: &str) -> Result<(), LogError> {
        let failed = |operation| LogError::storage(operation, self.storage.display(&self.path));
        self.storage.rename(&self.path, to).map_err(failed("rename"))?;
        self.file = None;
        self.storage.sync_dir(folder_of(to)).map_err(failed("sync the folder of"))
    }

    /// Keeps the unfinished file when the writer is dropped.
    pub(crate) fn leave(&mut self) {
        self.file = None;
    }

    /// Whether the appended bytes are whole pages.
    pub(crate) fn ends_at_page(&self) -> bool {
        self.filled.is_multiple_of(PAGE_BYTES)
    }

    /// Bytes that were appended.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.offset + self.filled as u64
    }

    /// The storage that contains the file.
    #[must_use]
    pub fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    /// Its temporary path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.path
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Errors are ignored: the next file of this name replaces it.
            let _ = self.storage.remove(&self.path);
        }
    }
}
