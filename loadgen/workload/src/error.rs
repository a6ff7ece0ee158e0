//! Errors of opening a workload; variants by what the caller can do.

use std::path::PathBuf;

use shoal_table::TableError;

/// Why a workload cannot be opened, or ended early.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("no workload is called `{name}`; there are {valid}")]
    UnknownName {
        /// The unknown name.
        name: String,
        /// The valid names.
        valid: String,
    },
    /// A parameter lies outside its range.
    #[error("parameter {parameter} is {value}; it must be {range}")]
    Parameter {
        /// Name of the field of [`Params`](crate::Params).
        parameter: &'static str,
        /// Its value.
        value: String,
        /// The valid range.
        range: String,
    },
    /// A file of edges has no edge that joins two nodes.
    #[error("{}: no edge joins two different nodes", file.display())]
    NoRoads {
        /// The file.
        file: PathBuf,
    },
    /// A file has no row with a position.
    #[error("{}: none of its first {rows} rows can be read as a position", file.display())]
    NoRows {
        /// The file.
        file: PathBuf,
        /// Number of rows that were tried.
        rows: usize,
    },
    /// A file cannot be read.
    #[error(transparent)]
    File(#[from] TableError),
}
