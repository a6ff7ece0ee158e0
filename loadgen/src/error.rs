//! Errors that end a run early.
//!
//! Mismatches and refused rows are results in the summary, not errors. The exit code is 2 for
//! [`LoadError::Usage`] and 1 for all others.

use std::path::PathBuf;

use shoal_client::{Error, ServerError};
use tokio::time::{Duration, sleep};

/// Delay between two calls while the server's queue is full; short to keep up the load.
const BUSY_INTERVAL: Duration = Duration::from_millis(2);

/// Why a run could not start or finish.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LoadError {
    /// Flags that contradict each other or are outside their range.
    #[error("{0}")]
    Usage(String),
    /// The workload could not be opened or ended early.
    #[error(transparent)]
    Workload(#[from] shoal_workload::WorkloadError),
    /// The space of a fleet is invalid.
    #[error("the fleet's space: {0}")]
    Space(#[from] shoal_engine::GeometryError),
    /// A batch cannot be encoded as a block.
    #[error("cannot encode a block: {0}")]
    Block(#[from] shoal_codec::BlockError),
    /// No server answers at the target.
    #[error("{0}; start one with `shoal serve`")]
    Connect(Error),
    /// A call failed.
    #[error("{what} failed: {source}")]
    Call {
        /// The call.
        what: &'static str,
        /// The cause.
        source: Error,
    },
    /// The server violated its contract; the run cannot be measured.
    #[error("the server broke the protocol: {0}")]
    Protocol(String),
    /// The server sent nothing for too long.
    #[error(
        "no ack and no answer for {waited_s} s with {reports} reports and {queries} messages of \
         queries in flight"
    )]
    Stalled {
        /// Seconds waited.
        waited_s: u64,
        /// Reports without an ack.
        reports: u64,
        /// Messages of queries without an answer.
        queries: u64,
    },
    /// A follower does not copy the fleet.
    #[error("{follower} has no copy of fleet {fleet} after {waited_s} s; see the follower's log")]
    NoCopy {
        /// The fleet.
        fleet: String,
        /// The server.
        follower: String,
        /// Seconds waited.
        waited_s: u64,
    },
    /// The results could not be written.
    #[error("cannot write {}: {source}", file.display())]
    Output {
        /// The file.
        file: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A task of the generator ended without a result.
    #[error("a task of the load generator ended early: {0}")]
    Task(String),
}

/// The text and the stable reason of a status inside a message.
pub(crate) fn status_text(status: Option<&tonic_types::Status>) -> String {
    status.map_or_else(|| "no status".to_owned(), |status| ServerError::from(status).to_string())
}

impl LoadError {
    /// For `map_err` of a failed call.
    pub(crate) fn call<E: Into<Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |error| Self::Call { what, source: error.into() }
    }
}

impl From<Error> for LoadError {
    fn from(error: Error) -> Self {
        match error {
            Error::Target { .. } => Self::Usage(error.to_string()),
            Error::Connect { .. } => Self::Connect(error),
            Error::Protocol(problem) => Self::Protocol(problem),
            Error::Block(error) => Self::Block(error),
            source => Self::Call { what: "a call", source },
        }
    }
}

/// Repeats a call while the server's queue is full.
pub(crate) async fn retry_while_busy<T, F: Future<Output = Result<T, Error>>>(
    call: impl Fn() -> F,
) -> Result<T, Error> {
    loop {
        match call().await {
            Err(Error::Server(error)) if error.retry_after.is_some() => sleep(BUSY_INTERVAL).await,
            result => return result,
        }
    }
}
