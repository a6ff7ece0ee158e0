//! Copies a checkpoint from a leader to a follower as the bytes of its file.
//!
//! The copy gets its final name after the whole file was verified and synced.

use std::sync::Arc;

use super::checkpoint_files::{CheckpointFile, open_newest};
use super::checkpoint_reader::CheckpointReader;
use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::fleet_identity::FleetIdentity;
use crate::limits::WRITE_BYTES;
use crate::new_file::NewFile;
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
    /// Opens the newest checkpoint that is whole; `None` if there is none.
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

    /// Returns the next bytes; `None` at the end.
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

/// Writes a checkpoint that arrives in parts. If it is dropped before [`Self::finish`], its file
/// remains until the next copy replaces it, because a drop must not wait for the disk.
#[derive(Debug)]
pub struct CheckpointImport {
    out: NewFile,
    folder: String,
}

impl Drop for CheckpointImport {
    fn drop(&mut self) {
        self.out.leave();
    }
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
        let out = NewFile::create(storage, CheckpointFile::new_path(folder), reserve_bytes)?;
        Ok(Self { out, folder: folder.to_owned() })
    }

    /// Appends the next bytes.
    ///
    /// # Errors
    /// [`LogError::Space`], [`LogError::Storage`].
    pub fn append(&mut self, bytes: &[u8]) -> Result<(), LogError> {
        self.out.append(bytes)
    }

    /// Verifies the copy, makes it durable and gives it its name. Returns its epoch.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Version`], [`LogError::Fleet`];
    /// otherwise as [`Self::append`].
    pub fn finish(mut self, fleet: &FleetIdentity) -> Result<u64, LogError> {
        let (storage, path) = (self.out.storage().clone(), self.out.path().to_owned());
        if !self.out.ends_at_page() {
            let reason = "the copy ends within a page";
            return Err(LogError::damaged(storage.display(&path), self.out.length(), reason));
        }
        self.out.sync()?;
        let mut reader = CheckpointReader::open(&storage, &path, Some(fleet))?;
        let epoch = reader.header().epoch;
        while reader.next_section()?.is_some() {}
        self.out.publish(&CheckpointFile(epoch).path(&self.folder))?;
        Ok(epoch)
    }
}
