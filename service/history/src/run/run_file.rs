//! The file of a run. It is removed when no version refers to it any more.
//!
//! Files are opened for each read, so that the number of open files does not grow with the
//! history; pages in use are in the cache.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use shoal_position_log::limits::PAGE_BYTES;
use shoal_position_log::{AlignedBuffer, LogError, Storage};

use super::run_entry::RunEntry;
use super::shared_rows::SharedRows;

const SUFFIX: &str = ".run";
const DIGITS: usize = 16;
/// Most newer runs for which a run caches the shared rows. There are more only while merges lag.
const SHARED_MAX: usize = 8;

/// A run on the disk.
#[derive(Debug)]
pub(crate) struct RunFile {
    /// The entry of the run in the manifest.
    pub(crate) entry: RunEntry,
    storage: Arc<dyn Storage>,
    path: String,
    is_obsolete: AtomicBool,
    /// The number of each newer run, and the rows that both may share, in the order in which they
    /// were compared.
    shared: Mutex<VecDeque<(u64, Arc<SharedRows>)>>,
    /// See [`Self::id`].
    id: u64,
    lifetime: Arc<()>,
}

impl RunFile {
    pub(crate) fn new(storage: Arc<dyn Storage>, folder: &str, entry: RunEntry) -> Self {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        Self {
            path: Self::path_of(folder, entry.number),
            entry,
            storage,
            is_obsolete: AtomicBool::new(false),
            shared: Mutex::default(),
            id: NEXT.fetch_add(1, Ordering::Relaxed),
            lifetime: Arc::default(),
        }
    }

    /// The rows that it may share with a newer run of its partition; `None` if they are not cached.
    pub(super) fn shared_with(&self, newer: u64) -> Option<Arc<SharedRows>> {
        let shared = self.shared();
        let known = shared.iter().find(|(number, _)| *number == newer);
        known.map(|(_, rows)| rows.clone())
    }

    /// Caches the rows that it may share with a newer run. Beyond [`SHARED_MAX`] the oldest entry
    /// is dropped.
    pub(super) fn remember_shared(&self, newer: u64, rows: Arc<SharedRows>) {
        let mut shared = self.shared();
        shared.push_back((newer, rows));
        if shared.len() > SHARED_MAX {
            shared.pop_front();
        }
    }

    fn shared(&self) -> MutexGuard<'_, VecDeque<(u64, Arc<SharedRows>)>> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that no other run of any fleet in this process has.
    pub(crate) fn id(&self) -> u64 {
        self.id
    }

    /// A weak reference that expires when no version or reader holds the file.
    pub(crate) fn lifetime(&self) -> Weak<()> {
        Arc::downgrade(&self.lifetime)
    }

    /// The path of the run of a number.
    pub(crate) fn path_of(folder: &str, number: u64) -> String {
        format!("{folder}/{number:0DIGITS$}{SUFFIX}")
    }

    /// Whether a file of this name belongs to a run, whole or not.
    pub(crate) fn is_name(name: &str) -> bool {
        name.ends_with(SUFFIX) || name.ends_with(".run.new")
    }

    /// Its path as a user knows it.
    pub(crate) fn display(&self) -> String {
        self.storage.display(&self.path)
    }

    /// Removes the file as soon as nobody uses it.
    pub(crate) fn set_obsolete(&self) {
        self.is_obsolete.store(true, Ordering::Release);
    }

    /// Reads some bytes.
    pub(crate) fn read(&self, offset: u64, bytes: usize) -> Result<Bytes, LogError> {
        let failed = |operation| LogError::storage(operation, self.display());
        let start = offset / PAGE_BYTES as u64 * PAGE_BYTES as u64;
        let skip = (offset - start) as usize;
        let mut buffer = AlignedBuffer::zeroed(skip + bytes);
        let file = self.storage.open(&self.path).map_err(failed("open"))?;
        let read = file.read_at(start, &mut buffer).map_err(failed("read"))?;
        match buffer.get(skip..skip + bytes).filter(|_| skip + bytes <= read) {
            Some(bytes) => Ok(Bytes::copy_from_slice(bytes)),
            None => Err(LogError::damaged(self.display(), offset, "the file is too short")),
        }
    }
}

impl Drop for RunFile {
    fn drop(&mut self) {
        if *self.is_obsolete.get_mut() {
            // Errors are ignored: the next start removes files that the manifest does not name.
            let _ = self.storage.remove(&self.path);
        }
    }
}
