//! The retirement of segments that nothing needs any more: their files are recycled or removed.
//!
//! Each segment needs a sync of the folder. A [`Retirement`] runs on another thread, so that no
//! acknowledgement waits for it; concurrent writes, rotations and preparations of spares change
//! other entries of the folder.

use std::collections::VecDeque;
use std::sync::Arc;

use crate::error::LogError;
use crate::limits::PAGE_BYTES;
use crate::log_bounds::LogBounds;
use crate::segment::LogFile;
use crate::spare::Spare;
use crate::storage::Storage;

/// A segment to be retired.
#[derive(Debug)]
pub(crate) struct Retiring {
    pub(crate) number: u64,
    /// The spare that its file becomes; `None` removes it.
    pub(crate) spare: Option<Spare>,
}

/// A segment that was retired, for [`crate::LogWriter::retired`].
#[derive(Debug)]
pub struct Retired(pub(crate) Retiring);

/// Retires segments, oldest first, one for each call of `next`. Stops after an error.
#[derive(Debug)]
pub struct Retirement {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) folder: String,
    /// The bounds of the remaining log, until they are stored. They are stored before the first
    /// segment is retired, so that a crash never leaves bounds that name a missing segment.
    pub(crate) bounds: Option<LogBounds>,
    pub(crate) segments: VecDeque<Retiring>,
}

impl Retirement {
    /// Whether no segment is left to retire.
    #[must_use]
    pub fn is_done(&self) -> bool {
        self.segments.is_empty()
    }

    fn retire(&mut self, retiring: &mut Retiring) -> Result<(), LogError> {
        if let Some(bounds) = self.bounds.take() {
            bounds.store(&*self.storage, &self.folder).map_err(|error| self.no_space(error))?;
        }
        let from = LogFile::Segment(retiring.number).path(&self.folder);
        let failed = |operation| LogError::storage(operation, self.storage.display(&from));
        // A truncated file cannot become a spare.
        let is_whole = |spare: &&Spare| {
            let length = self.storage.open(&from).and_then(|file| file.length());
            length.is_ok_and(|length| length == spare.bytes)
        };
        match retiring.spare.as_ref().filter(is_whole) {
            Some(spare) => {
                let to = LogFile::Spare(spare.number).path(&self.folder);
                self.storage.rename(&from, &to).map_err(failed("rename"))?;
            }
            None => {
                retiring.spare = None;
                self.storage.remove(&from).map_err(failed("remove"))?;
            }
        }
        // Sync before the next segment is retired: entries may become durable in any order, and the
        // log must have no hole.
        let failed = LogError::storage("sync", self.storage.display(&self.folder));
        self.storage.sync_dir(&self.folder).map_err(failed)
    }
}

impl Retirement {
    /// Maps an error of a full disk to [`LogError::Space`], because nothing was changed and the
    /// retirement can be repeated.
    fn no_space(&self, error: LogError) -> LogError {
        if !error.is_full() {
            return error;
        }
        let free_bytes = self.storage.free_bytes().unwrap_or(0);
        let file = self.storage.display(&self.folder);
        LogError::Space { file, free_bytes, needed_bytes: PAGE_BYTES as u64 }
    }
}

impl Iterator for Retirement {
    type Item = Result<Retired, LogError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut retiring = self.segments.pop_front()?;
        let retired = self.retire(&mut retiring).map(|()| Retired(retiring));
        if retired.is_err() {
            self.segments.clear();
        }
        Some(retired)
    }
}
