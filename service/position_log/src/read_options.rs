//! The purpose of a reader of a log, and the cycles that it needs.
//!
//! The purpose decides whether the reader syncs what it reads and how it treats an invalid frame.

use crate::fleet_identity::FleetIdentity;

/// The purpose of a reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// The log is continued afterwards. The reader syncs data before it returns them.
    Recover,
    /// The log is shown or checked. The reader changes nothing.
    Inspect,
    /// The log is read while a writer uses it, up to this sequence, which the writer has synced;
    /// see [`crate::LogReader::read_through`]. The writer must not retire segments that are still
    /// to be read.
    Through(u64),
    /// As `Recover`, but damage ends the log instead of being an error; see [`crate::repair()`].
    Repair,
}

impl ReadMode {
    /// True if the reader syncs what it reads, so that a writer can continue from its end.
    pub(crate) fn is_synced(self) -> bool {
        matches!(self, Self::Recover | Self::Repair)
    }
}

/// What to read.
#[derive(Clone, Debug)]
pub struct ReadOptions {
    /// The fleet that the log must belong to; `None` accepts any fleet.
    pub fleet: Option<FleetIdentity>,
    /// The cycles after this epoch are needed.
    pub after_epoch: u64,
    /// The purpose.
    pub mode: ReadMode,
}
