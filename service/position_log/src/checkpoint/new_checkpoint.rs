//! The file of a checkpoint that is not complete: it has another name, and is removed unless it
//! gets its own.

use std::io;
use std::sync::Arc;

use super::checkpoint_files::CheckpointFile;
use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::{PAGE_BYTES, WRITE_BYTES};
use crate::storage::{Storage, StorageFile};
use crate::wire::page_align;

/// Writes it in order, a buffer at a time.
#[derive(Debug)]
pub(super) struct NewCheckpoint {
    storage: Arc<dyn Storage>,
    folder: String,
    reserve_bytes: u64,
    /// `None` once the checkpoint has its name.
    file: Option<Box<dyn StorageFile>>,
    buffer: AlignedBuffer,
    /// Bytes of the buffer in use.
    filled: usize,
    /// Offset of the buffer in the file.
    offset: u64,
}

impl NewCheckpoint {
    /// Begins a file in `folder`, in place of one that was not completed.
    pub(super) fn create(
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
        let file = Some(storage.create(&path).map_err(failed("create"))?);
        let (folder, buffer) = (folder.to_owned(), AlignedBuffer::zeroed(WRITE_BYTES));
        Ok(Self { storage, folder, reserve_bytes, file, buffer, filled: 0, offset: 0 })
    }

    /// Appends bytes.
    pub(super) fn append(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
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
        let display = self.storage.display(&self.path());
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

    /// Writes what is left and makes all of it durable; returns its length.
    pub(super) fn sync(&mut self) -> Result<u64, LogError> {
        if self.filled > 0 {
            self.flush()?;
        }
        if let Some(file) = &self.file {
            let display = self.storage.display(&self.path());
            file.sync_data().map_err(LogError::storage("sync", display))?;
        }
        Ok(self.offset)
    }

    /// Gives the file, which is durable, the name of its epoch.
    pub(super) fn publish(&mut self, epoch: u64) -> Result<(), LogError> {
        let (from, to) = (self.path(), CheckpointFile(epoch).path(&self.folder));
        let failed = |operation| LogError::storage(operation, self.storage.display(&from));
        self.storage.rename(&from, &to).map_err(failed("rename"))?;
        self.file = None;
        self.storage.sync_dir(&self.folder).map_err(failed("sync the folder of"))
    }

    /// Whether all bytes so far are whole pages.
    pub(super) fn ends_at_page(&self) -> bool {
        self.filled.is_multiple_of(PAGE_BYTES)
    }

    /// Bytes that were written.
    pub(super) fn written(&self) -> u64 {
        self.offset
    }

    pub(super) fn storage(&self) -> &Arc<dyn Storage> {
        &self.storage
    }

    pub(super) fn folder(&self) -> &str {
        &self.folder
    }

    pub(super) fn path(&self) -> String {
        format!("{}/{}", self.folder, CheckpointFile::NEW)
    }
}

impl Drop for NewCheckpoint {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Best effort: the next checkpoint removes what remains.
            let _ = self.storage.remove(&self.path());
        }
    }
}
