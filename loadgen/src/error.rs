//! What can end a run early, by what its caller can do about it?
//!
//! A mismatch or a refused row is a result, not an error: it stands in the summary. Everything here
//! leaves the program with exit code 1, except [`LoadError::Usage`] with 2.

use std::path::PathBuf;
use tonic_types::RpcStatusExt as _;

/// A run that could not be made or not be finished.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Flags that make no sense together or lie outside their range: change them.
    #[error("{0}")]
    Usage(String),
    /// The workload could not be opened or broke off.
    #[error(transparent)]
    Workload(#[from] shoal_workload::WorkloadError),
    /// The space of a fleet cannot be.
    #[error("the fleet's space: {0}")]
    Space(#[from] shoal_engine::GeometryError),
    /// A batch could not be made into a block.
    #[error("a block could not be made: {0}")]
    Block(#[from] shoal_codec::BlockError),
    /// Nobody answers at the target: start a server, or name another address.
    #[error("no server answers at {target}: {source}; start one with `shoal serve`")]
    Connect {
        /// The address tried.
        target: String,
        /// What went wrong.
        source: tonic::transport::Error,
    },
    /// A call failed.
    #[error("{what} failed: {} ({:?})", status.message(), status.code())]
    Call {
        /// Which call.
        what: &'static str,
        /// What the server said.
        status: Box<tonic::Status>,
    },
    /// The server broke its own contract in a way that leaves nothing to measure.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// Nothing came back for too long.
    #[error(
        "no ack and no answer for {waited_s} s with {reports} reports and {questions} messages of \
         queries under way"
    )]
    Stalled {
        /// Seconds waited.
        waited_s: u64,
        /// Reports without an ack.
        reports: u64,
        /// Messages of queries without an answer.
        questions: u64,
    },
    /// The results could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A task of the generator itself ended without a result.
    #[error("a task of the load generator broke off: {0}")]
    Task(String),
}

/// What failed inside a message: the text, and the stable reason.
pub(crate) fn status_text(status: Option<&tonic_types::Status>) -> String {
    let Some(status) = status else { return "no status".to_owned() };
    let details = status.get_error_details();
    let reason = details.error_info().map_or("no reason", |info| info.reason.as_str());
    format!("{} ({reason})", status.message)
}

impl LoadError {
    /// For `map_err` of a failed call.
    pub(crate) fn call(what: &'static str) -> impl FnOnce(tonic::Status) -> Self {
        move |status| Self::Call { what, status: Box::new(status) }
    }
}
