//! Spares: prepared segment files. They are written with zeros once and recycled afterwards.
//!
//! A spare has its own name until its segment header is written and synced, so a segment never has
//! an incomplete header. Creating a spare takes as long as writing a segment, so [`SpareJob`] can
//! run on another thread.

use std::io;
use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::WRITE_BYTES;
use crate::segment::LogFile;
use crate::storage::{Storage, StorageFile};

/// Bytes that are written before a job asks whether its spare is still wanted.
const STEP_BYTES: u64 = 8 * WRITE_BYTES as u64;

/// A file that is ready to become a segment.
#[derive(Debug)]
pub struct Spare {
    pub(crate) number: u64,
    pub(crate) bytes: u64,
}

/// The work that prepares a spare.
#[derive(Debug)]
pub struct SpareJob {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) folder: String,
    pub(crate) number: u64,
    pub(crate) bytes: u64,
    pub(crate) reserve_bytes: u64,
}

impl SpareJob {
    /// Writes a file of zeros and syncs it. Pass the result to [`crate::LogWriter::add_spare`].
    ///
    /// # Errors
    /// [`LogError::Space`] if the disk has no space for it and the reserve; the incomplete file
    /// is removed and the log is unaffected. [`LogError::Storage`].
    pub fn run(self) -> Result<Spare, LogError> {
        self.run_while(|| true)
    }

    /// Like [`SpareJob::run`], until the spare is no longer wanted.
    ///
    /// # Errors
    /// Those of [`SpareJob::run`]; [`LogError::Storage`] if the spare is not wanted before its
    /// content is synced: then its file is removed.
    pub fn run_while(self, is_wanted: impl Fn() -> bool) -> Result<Spare, LogError> {
        let path = LogFile::New(self.number).path(&self.folder);
        let display = self.storage.display(&path);
        let made = with_space(&*self.storage, display, self.bytes, self.reserve_bytes, || {
            self.make(&path, is_wanted)
        });
        if made.is_err() {
            // Errors are ignored: the next writer removes the file.
            let _ = self.storage.remove(&path);
        }
        made.map(|()| Spare { number: self.number, bytes: self.bytes })
    }

    fn make(&self, path: &str, is_wanted: impl Fn() -> bool) -> io::Result<()> {
        let file = self.storage.create(path)?;
        let unless_stopped = || {
            if is_wanted() { Ok(()) } else { Err(io::Error::from(io::ErrorKind::Interrupted)) }
        };
        let mut at = 0;
        while at < self.bytes {
            unless_stopped()?;
            let end = self.bytes.min(at + STEP_BYTES);
            write_zeros(&*file, at, end)?;
            at = end;
        }
        unless_stopped()?;
        file.sync_data()?;
        self.storage.rename(path, &LogFile::Spare(self.number).path(&self.folder))?;
        self.storage.sync_dir(&self.folder)
    }
}

/// Runs work that writes `bytes`. Fails with [`LogError::Space`] if the disk does not have `bytes`
/// and the reserve free.
pub(crate) fn with_space(
    storage: &dyn Storage,
    file: String,
    bytes: u64,
    reserve_bytes: u64,
    work: impl FnOnce() -> io::Result<()>,
) -> Result<(), LogError> {
    let free = storage.free_bytes();
    let free_bytes = free.map_err(LogError::storage("ask for the free space of", &file))?;
    let needed_bytes = bytes.saturating_add(reserve_bytes);
    if free_bytes < needed_bytes {
        return Err(LogError::Space { file, free_bytes, needed_bytes });
    }
    work().map_err(|error| match error.kind() {
        io::ErrorKind::StorageFull => LogError::Space { file, free_bytes, needed_bytes },
        _ => LogError::storage("prepare", file)(error),
    })
}

/// Writes zeros from offset `at` to `bytes`, both multiples of the page size.
pub(crate) fn write_zeros(file: &dyn StorageFile, mut at: u64, bytes: u64) -> io::Result<()> {
    let rest = usize::try_from(bytes.saturating_sub(at)).unwrap_or(WRITE_BYTES);
    let zeros = AlignedBuffer::zeroed(WRITE_BYTES.min(rest));
    while at < bytes {
        let count = (bytes - at).min(zeros.len() as u64);
        file.write_at(at, &zeros[..count as usize])?;
        at += count;
    }
    Ok(())
}
