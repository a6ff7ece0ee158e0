//! Errors of tables, fixes and their files, grouped by how the caller can react.

use std::io;
use std::path::{Path, PathBuf};

use shoal_codec::BlockError;

use crate::CsvError;

/// Why a table or a file of fixes cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum TableError {
    /// A file cannot be opened or read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
    /// The content of a file is not valid.
    #[error("{file}: {reason}")]
    Input {
        /// The file.
        file: String,
        /// The fault and its place.
        reason: String,
    },
    /// A file of fixes has no valid header.
    #[error(transparent)]
    Csv(#[from] CsvError),
    /// A text is not the name of a unit.
    #[error("`{text}` is no unit of {kind}; use {known}")]
    Unit {
        /// The text.
        text: String,
        /// What the unit measures.
        kind: &'static str,
        /// The units.
        known: String,
    },
    /// The input can be read only once (for instance, a pipe), but inferring the types reads it
    /// twice.
    #[error("{}: it can be read only once, and inferring its types reads twice", file.display())]
    ReadOnce {
        /// The file.
        file: PathBuf,
    },
    /// The output exists and may not be replaced.
    #[error("{} exists", file.display())]
    Exists {
        /// The file.
        file: PathBuf,
    },
    /// The output exists and is a folder, a device or a pipe.
    #[error("{} is no file that can be replaced", file.display())]
    NotReplaceable {
        /// The file.
        file: PathBuf,
    },
    /// Rows do not fit into a block; the caller can retry with fewer rows.
    #[error("{reason}")]
    Block {
        /// The error of the codec.
        reason: String,
    },
    /// The device that encodes or decodes failed.
    #[error("the device failed: {reason}")]
    Device {
        /// The error of the device.
        reason: String,
    },
    /// The output would be larger than permitted.
    #[error("{} would have more than {bytes_max} bytes", file.display())]
    OutputBytes {
        /// The file or folder.
        file: PathBuf,
        /// The permitted size.
        bytes_max: u64,
    },
    /// The output cannot be written.
    #[error("writing {}: {source}", file.display())]
    Write {
        /// The file or folder.
        file: PathBuf,
        /// The error of the system.
        source: io::Error,
    },
}

impl TableError {
    /// The error of invalid content.
    pub(crate) fn input(file: impl Into<String>, reason: impl Into<String>) -> Self {
        Self::Input { file: file.into(), reason: reason.into() }
    }

    /// Converts an error of the codec.
    pub(crate) fn block(error: &BlockError) -> Self {
        Self::Block { reason: error.to_string() }
    }

    /// Converts an error of reading `file`.
    pub(crate) fn reading(file: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Io { file: file.to_owned(), source }
    }

    /// Converts an error of writing `file`.
    pub(crate) fn writing(file: &Path) -> impl Fn(io::Error) -> Self {
        |source| Self::Write { file: file.to_owned(), source }
    }
}
