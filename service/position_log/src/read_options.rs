//! What a reader of a log is for, and where it begins.
//!
//! The purpose decides what is synced, and how an invalid frame is judged.

use crate::fleet_identity::FleetIdentity;

/// What a reader is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadMode {
    /// To continue the log afterwards: syncs what it reads before it returns it.
    Recover,
    /// To show or check the log: changes nothing.
    Inspect,
    /// Beside a writer, up to this sequence, which the writer has synced; see
    /// [`crate::LogReader::read_through`]. The writer must not retire what is still to be read.
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
    /// The fleet that the log must belong to; any if absent.
    pub fleet: Option<FleetIdentity>,
    /// The cycles after this epoch are needed.
    pub after_epoch: u64,
    /// The purpose.
    pub mode: ReadMode,
}
