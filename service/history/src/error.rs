//! Errors of the history, by what the caller can do.
//!
//! A message names the file or the limit and what to do.

use shoal_codec::BlockError;
use shoal_position_log::LogError;
use thiserror::Error;

/// Why the history cannot do what was asked.
#[derive(Debug, Error)]
pub enum HistoryError {
    /// A file cannot be read, written or trusted.
    #[error(transparent)]
    File(#[from] LogError),
    /// A page of a run passes its checksum, but the codec refuses it.
    #[error("{file}, page {page}: {source}. Restore the file from a copy, or delete the history")]
    Page {
        /// The run.
        file: String,
        /// Number of the page.
        page: usize,
        /// What the codec refuses.
        source: BlockError,
    },
    /// The codec refuses what is to be written.
    #[error("cannot encode a run: {0}")]
    Encode(#[from] BlockError),
    /// The caller broke a rule or a limit; nothing was changed.
    #[error("{0}")]
    Input(String),
    /// Too many objects would be erased at a time; nothing was changed.
    #[error(
        "more than {limit} objects would be erased at a time. Wait until the erasures before have \
         ended, or name fewer objects"
    )]
    Erasing {
        /// The limit.
        limit: u64,
    },
    /// The query was cancelled.
    #[error("the query was cancelled")]
    Cancelled,
    /// The query exceeds a limit of its budget.
    #[error(
        "the query needs more than the {limit} {unit} that one query may take. Ask for a shorter \
         time, a smaller region or fewer objects"
    )]
    Budget {
        /// What is counted.
        unit: &'static str,
        /// The limit.
        limit: u64,
    },
    /// An earlier error stopped the writer for good.
    #[error("the history has stopped after an error: {reason}. Check the disk, then restart")]
    Stopped {
        /// The message of that error.
        reason: String,
    },
}
