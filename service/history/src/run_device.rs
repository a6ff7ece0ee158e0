//! Runs that a device with its own memory, such as a GPU, holds and searches.
//!
//! The device answers for one run. The caller applies newer runs of the partition, removals,
//! erasures and filters. If the device returns `None`, the CPU searches the run.

use std::fmt;
use std::sync::Weak;

use shoal_codec::{Block, FixColumns, FixRow};

use crate::error::HistoryError;
use crate::run::{RunReader, Zone};

/// A device. A call loads the run if it is not loaded. It returns `None` if the run does not fit or
/// is too short to be worthwhile, or if the device is busy or has failed.
pub trait RunDevice: fmt::Debug + Send + Sync {
    /// Least number of tiles to decode for which [`Self::tiles`] is worth a call; a CPU core
    /// decodes fewer in the same time.
    fn tiles_min(&self) -> usize;

    /// Least number of objects for which [`Self::states`] is worth a call.
    fn objects_min(&self) -> usize;

    /// The tiles with fixes whose time and position lie in `zone`, ascending. The objects of `zone`
    /// are ignored.
    fn tiles(&self, run: &RunPages<'_>, zone: &Zone) -> Option<Vec<u32>>;

    /// For each object with an id of at least `from`: its newest fix at or before `time_ms`.
    /// Objects ascend; at most `most` are returned.
    fn newest(
        &self,
        run: &RunPages<'_>,
        time_ms: i64,
        from: u64,
        most: usize,
    ) -> Option<FixColumns>;

    /// For each of `objects`: its newest fix at or before `time_ms`, or `None` if the run has none.
    fn states(
        &self,
        run: &RunPages<'_>,
        objects: &[u64],
        time_ms: i64,
    ) -> Option<Vec<Option<FixRow>>>;
}

/// A run that a device may load. All blocks but the last have [`crate::limits::BLOCK_ROWS`] rows.
/// The rows of an object are consecutive and ascend by time.
#[derive(Debug)]
pub struct RunPages<'a>(pub(crate) &'a RunReader);

/// Where the rows of an object lie in a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RunObject {
    /// Its id.
    pub object: u64,
    /// Its first row.
    pub first_row: u32,
    /// Number of its rows.
    pub rows: u32,
}

impl RunPages<'_> {
    /// A number that no other run of this process has.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.0.file().id()
    }

    /// A weak reference that expires when no version or reader holds the run.
    #[must_use]
    pub fn lifetime(&self) -> Weak<()> {
        self.0.file().lifetime()
    }

    /// Number of its rows.
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

    /// The zone of each tile.
    #[must_use]
    pub fn zones(&self) -> &[Zone] {
        &self.0.index().zones
    }

    /// Its blocks, read from the file and verified.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`].
    pub fn blocks(&self) -> Result<Vec<Block>, HistoryError> {
        self.0.all_blocks()
    }

    /// Its objects, ascending.
    ///
    /// # Errors
    /// [`HistoryError::File`], [`HistoryError::Page`].
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
