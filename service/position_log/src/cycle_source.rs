//! The one source of cycles for recovery, followers and replays.

use crate::error::LogError;
use crate::record::LoggedCycle;

/// Yields cycles in ascending order of epochs: files of a log, or a leader's stream.
pub trait CycleSource {
    /// Returns the next cycle; `None` at the end.
    ///
    /// # Errors
    /// Every error is final: a source that has failed yields no further cycle.
    fn next_cycle(&mut self) -> Result<Option<LoggedCycle<'_>>, LogError>;
}
