//! Errors of the log, by what the caller can do.
//!
//! A message names the file, the place, what is wrong and what the operator can do.

use std::io;

use thiserror::Error;

/// Why the log cannot do what was asked.
#[derive(Debug, Error)]
pub enum LogError {
    /// The disk or the file system failed. A writer accepts nothing after this error.
    #[error("cannot {operation} {file}: {source}. {}", advice(source))]
    Storage {
        /// What failed, as a verb.
        operation: &'static str,
        /// The file or folder.
        file: String,
        /// The error of the operating system.
        source: io::Error,
    },
    /// An earlier error of the disk stopped this writer for good.
    #[error("the log has stopped after an error: {reason}")]
    Stopped {
        /// The message of that error.
        reason: String,
    },
    /// Not enough free space for another segment or checkpoint. Nothing was written; the call may
    /// be repeated when there is space.
    #[error(
        "{file}: {free_bytes} bytes are free, {needed_bytes} are needed with the reserve. Free \
         space on this disk, or use smaller segments or a smaller reserve"
    )]
    Space {
        /// The file to be created.
        file: String,
        /// Free bytes.
        free_bytes: u64,
        /// Bytes of the file and the reserve.
        needed_bytes: u64,
    },
    /// Bytes that were synced are damaged or absent.
    #[error(
        "{file} is damaged at byte {offset}: {reason}. The log is whole up to epoch {epoch}; \
         {lost}. Restore the file from a copy, or truncate the log here with `shoal log repair`"
    )]
    Corrupt {
        /// The segment.
        file: String,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong.
        reason: String,
        /// Last epoch before the damage.
        epoch: u64,
        /// What a repair would lose.
        lost: String,
    },
    /// Checksums match, but this version never writes such content.
    #[error("{file}, byte {offset}: {reason}. Use the version of Shoal that wrote this log")]
    Content {
        /// The file.
        file: String,
        /// Where the content begins.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// The file has another format version.
    #[error(
        "{file} has format version {found}, this program reads version {supported}. Use the \
         version of Shoal that wrote it"
    )]
    Version {
        /// The file.
        file: String,
        /// Its major version.
        found: u16,
        /// The major version that is read.
        supported: u16,
    },
    /// The file belongs to another fleet.
    #[error(
        "{file} belongs to fleet {found}, not to {expected}: its header is that of {name}. Move it \
         back to the folder of its fleet under this name, and restore the file of this fleet"
    )]
    Fleet {
        /// The file.
        file: String,
        /// Name and id in the file.
        found: String,
        /// Name and id of this fleet.
        expected: String,
        /// The name that the file must have in the folder of its own fleet.
        name: String,
    },
    /// Cycles that are needed are in no segment.
    #[error(
        "{folder}: cycles after epoch {needed} are needed, the log has none before epoch {first}. \
         Restore the missing segments, or use a newer checkpoint"
    )]
    Gap {
        /// The folder of the log.
        folder: String,
        /// The cycles after this epoch are needed.
        needed: u64,
        /// First epoch of the log, or of the log after the gap.
        first: u64,
    },
    /// The log has begun, but its first segment is missing.
    #[error(
        "{file} is missing: the log lacks its first segment{}. Restore the missing files from a \
         copy; `shoal log repair` shows what is lost without them",
        epoch.map_or_else(String::new, |epoch| format!(", and is known to reach epoch {epoch}"))
    )]
    Missing {
        /// The segment, or the folder of a log without any file.
        file: String,
        /// The log was durable up to this epoch at least, if that is known.
        epoch: Option<u64>,
    },
    /// The log ends before a position that was synced.
    #[error(
        "{folder}: the log ends at epoch {end}, although epoch {needed} was synced. Restore the \
         missing segments, or accept the loss with `shoal log repair`"
    )]
    Behind {
        /// The folder of the log.
        folder: String,
        /// Last epoch of the log.
        end: u64,
        /// The epoch that a checkpoint or the bounds of the log name.
        needed: u64,
    },
    /// The caller's input breaks a rule or a limit; nothing was changed.
    #[error("{0}")]
    Input(String),
    /// A checkpoint or the manifest is damaged or incomplete.
    #[error("{file} is damaged at byte {offset}: {reason}. Restore it from a copy")]
    Damaged {
        /// The file.
        file: String,
        /// Where the damage was found.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// Another process uses the folder.
    #[error("{file} is held by {holder}. Stop that server, or use another folder")]
    Locked {
        /// The folder.
        file: String,
        /// The process that holds it, if it is known.
        holder: String,
    },
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// What to do about an error of the operating system.
fn advice(error: &io::Error) -> &'static str {
    if is_full(error) {
        "Free space on this disk; if a log has stopped because of this, restart"
    } else {
        "Check the disk, the mount and the permissions, then restart"
    }
}

impl LogError {
    /// Returns a function for `map_err` that wraps an error of the operating system.
    pub fn storage(
        operation: &'static str,
        file: impl Into<String>,
    ) -> impl FnOnce(io::Error) -> Self {
        let file = file.into();
        move |source| Self::Storage { operation, file, source }
    }

    pub(crate) fn content(file: impl Into<String>, offset: u64, reason: impl Into<String>) -> Self {
        Self::Content { file: file.into(), offset, reason: reason.into() }
    }

    /// Returns the error for a file that is damaged or incomplete.
    #[must_use]
    pub fn damaged(file: impl Into<String>, offset: u64, reason: impl Into<String>) -> Self {
        Self::Damaged { file: file.into(), offset, reason: reason.into() }
    }

    /// Whether a file or folder does not exist.
    #[must_use]
    pub fn is_missing_file(&self) -> bool {
        matches!(self, Self::Storage { source, .. } if source.kind() == io::ErrorKind::NotFound)
    }

    /// Whether the disk, or a quota, has no space.
    #[must_use]
    pub fn is_full(&self) -> bool {
        match self {
            Self::Space { .. } => true,
            Self::Storage { source, .. } => is_full(source),
            _ => false,
        }
    }

    /// Whether the same call can succeed later without a restart.
    #[must_use]
    pub fn is_recoverable(&self) -> bool {
        matches!(self, Self::Space { .. } | Self::Input(_))
    }
}

/// Why a header cannot be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HeaderFault {
    /// Another major version.
    Version(u16),
    /// Not a header, or a damaged one.
    Damaged(&'static str),
}

impl HeaderFault {
    /// Converts the fault to the error of a checkpoint or the manifest.
    pub(crate) fn of_file(self, file: impl Into<String>, supported: u16) -> LogError {
        match self {
            Self::Version(found) => LogError::Version { file: file.into(), found, supported },
            Self::Damaged(reason) => LogError::damaged(file, 0, reason),
        }
    }
}
