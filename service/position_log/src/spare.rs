//! Prepared segment files: zeroed once, then recycled.
//!
//! A spare has its own name until its segment header is written and synced, so a segment never has
//! an incomplete header. Making one takes as long as writing a segment; [`SpareJob`] does it on
//! another thread.

use std::io;
use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::WRITE_BYTES;
use crate::segment::LogFile;
use crate::storage::{Storage, StorageFile};

/// A file that is ready to become a segment.
#[derive(Debug)]
pub struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// The preparation of a spare.
#[derive(Debug)]
pub struct SpareJob {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) folder: String,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) reserve_bytes: u64,
}

impl SpareJob {
    /// Writes a file of zeros and syncs it; for [`crate::LogWriter::add_spare`].
    ///
    /// # Errors
    /// [`LogError::Space`] if the disk has no space for it and the reserve: nothing remains, and
    /// the log is unaffected. [`LogError::Storage`].
    pub fn run(self) -> Result<Spare, LogError> {
        let path = LogFile::New(self.number).path(&self.folder);
        let display = self.storage.display(&path);
        let free = self.storage.free_bytes();
        let free = free.map_err(LogError::storage("ask for the free space of", &display))?;
        if free < self.bytes.saturating_add(self.reserve_bytes) {
            return Err(self.no_space(display, free));
        }
        match self.make(&path) {
            Ok(()) => Ok(Spare { number: self.number, bytes: self.bytes }),
            Err(error) => {
                // Best effort: the next writer removes what remains.
                let _ = self.storage.remove(&path);
                if error.kind() == io::ErrorKind::StorageFull {
                    return Err(self.no_space(display, free));
                }
                Err(LogError::storage("prepare", display)(error))
            }
        }
    }

    fn make(&self, path: &str) -> io::Result<()> {
        let file = self.storage.create(path)?;
        write_zeros(&*file, self.bytes)?;
        file.sync_data()?;
        self.storage.rename(path, &LogFile::Spare(self.number).path(&self.folder))?;
        self.storage.sync_dir(&self.folder)
    }

    fn no_space(&self, file: String, free_bytes: u64) -> LogError {
        let needed_bytes = self.bytes.saturating_add(self.reserve_bytes);
        LogError::Space { file, free_bytes, needed_bytes }
    }
}

fn write_zeros(file: &dyn StorageFile, bytes: u64) -> io::Result<()> {
    let zeros =
        AlignedBuffer::zeroed(WRITE_BYTES.min(usize::try_from(bytes).unwrap_or(WRITE_BYTES)));
    let mut at = 0;
    while at < bytes {
        let count = (bytes - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..count as usize])?;
        at += count;
    }
    Ok(())
}
