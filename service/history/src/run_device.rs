//! Runs that a device with memory of its own holds and searches, such as a GPU.
//!
//! The device answers for one run. What else bounds an answer is decided here: newer runs of the
//! partition, removals, erasures, filters. A device that cannot answer says so, and this machine's
//! cores do.

use std::fmt;
use std::sync::Weak;

use shoal_codec::{Block, FixColumns, FixRow};

use crate::error::HistoryError;
use crate::run::{RunReader, Zone};

/// A device. Each call may find the run there, load it, or return `None`: it does not fit, is too
/// short to be worth it, or the device is at work for another query or has failed.
pub trait RunDevice: fmt::Debug + Send + Sync {
    /// Tiles of a run that a scan would decode from which on [`Self::tiles`] is worth a call: a
    /// core decodes fewer in the same time.
    fn tiles_min(&self) -> usize;

    /// Objects from which on [`Self::states`] is worth a call.
    fn objects_min(&self) -> usize;

    /// The tiles with fixes whose time and position lie in a zone, ascending; its objects do not
    /// count.
    fn tiles(&self, run: &RunPages<'_>, zone: &Zone) -> Option<Vec<u32>>;

    /// The newest fix of each object from `from` on at or before a time, by object, at most `most`.
    fn newest(
        &self,
        run: &RunPages<'_>,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Option<FixColumns>;

    /// The newest fix of each of some objects at or before a time, where there is one.
    fn states(
        &self,
        run: &RunPages<'_>,
        objects: &[u64],
        time_ms: i64,
    ) -> Option<Vec<Option<FixRow>>>;
}

/// A run that a device may load: blocks of [`crate::limits::BLOCK_ROWS`] rows but the last, in
/// which the rows of an object follow each other by time.
#[derive(Debug)]
pub struct RunPages<'a>(pub(crate) &'a RunReader);

/// Where the rows of an object lie in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunObject {
    /// Its id.
    pub object: u64,
    /// Its first row.
    pub first_row: u32,
    /// Its rows.
    pub rows: u32,
}

impl RunPages<'_> {
    /// A number that no other run of this process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.file().id()
    }

    /// Dangles when no version has the run any more.
    #[must_use]
    pub fn lifetime(&self) -> Weak<()> {
        self.0.file().lifetime()
    }

    /// Its rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.0.entry().rows
    }

    /// Bytes of its file.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.0.entry().bytes
    }

    /// First time of its partition.
    #[must_use]
    pub fn start_ms(&self) -> i64 {
        self.0.entry().partition.start_ms
    }

    /// What the rows of each tile have.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        &self.0.index().zones
    }

    /// Its blocks, read from the file and verified.
    ///
    /// # Errors
    /// As a query's.
    pub fn blocks(&self) -> Result<Vec<Block>, HistoryError> {
        self.0.all_blocks()
    }

    /// Its objects, ascending.
    ///
    /// # Errors
    /// As a query's.
    pub fn objects(&self) -> Result<Vec<RunObject>, HistoryError> {
        let mut all = Vec::with_capacity(self.0.entry().objects as usize);
        for page in 0..self.0.object_pages() {
            let (objects, entries) = self.0.object_page(page)?;
            all.extend(objects.into_iter().zip(entries).map(|(object, entry)| RunObject {
                object,
                first_row: entry.first_row,
                rows: entry.rows,
            }));
        }
        Ok(all)
    }
}
