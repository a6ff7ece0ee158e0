//! What can go wrong when a workload is opened?
//!
//! Variants by what the caller can do: choose another name, another parameter, or look at a file.

use std::path::PathBuf;

/// Why a workload could not be opened or ended early.
#[derive(Debug, thiserror::Error)]
pub enum WorkloadError {
    /// No workload has this name.
    #[error("no workload is called `{name}`; there are {known}")]
    UnknownName {
        /// The name asked for.
        name: String,
        /// The names there are.
        known: String,
    },
    /// A parameter lies outside its range.
    #[error("parameter {parameter} is {value}; it must be {range}")]
    Parameter {
        /// Name of the field of [`Params`](crate::Params).
        parameter: &'static str,
        /// What it was.
        value: String,
        /// What it may be.
        range: String,
    },
    /// A unit of speed that is none of the three.
    #[error("`{text}` is no unit of speed; use m/s, km/h or knots")]
    SpeedUnit {
        /// The text given.
        text: String,
    },
    /// A file could not be opened or read.
    #[error("{}: {source}", file.display())]
    Io {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A file of edges without one that joins two nodes.
    #[error("{}: no edge joins two different nodes", file.display())]
    NoRoads {
        /// The file.
        file: PathBuf,
    },
    /// A file that holds no position.
    #[error("{}: none of its first {rows} rows can be read as a position", file.display())]
    NoRows {
        /// The file.
        file: PathBuf,
        /// How many rows were tried.
        rows: usize,
    },
    /// A file whose contents cannot be read.
    #[error(transparent)]
    Csv(#[from] crate::CsvError),
}
