//! Errors of the benchmark.

use thiserror::Error;

/// A benchmark that could not run or could not be recorded.
#[derive(Debug, Error)]
pub(crate) enum BenchmarkError {
    /// The workload could not be opened.
    #[error(transparent)]
    Workload(#[from] shoal_workload::WorkloadError),
    /// A region or space of the workload is not valid.
    #[error(transparent)]
    Geometry(#[from] shoal_engine::GeometryError),
    /// The engine refused a cycle.
    #[error(transparent)]
    Engine(#[from] shoal_engine::EngineError),
    /// A requested backend cannot run here.
    #[error("the backend cannot run: {0}")]
    Backend(String),
    /// A cycle's queries were not answered, or not all of them.
    #[error("the {queries} queries of cycle {epoch} were not answered: {why}")]
    Unanswered {
        /// The cycle.
        epoch: u64,
        /// The number of its queries.
        queries: usize,
        /// The cause, or the number of answers.
        why: String,
    },
    /// Rows could not be encoded or decoded.
    #[error(transparent)]
    Block(#[from] shoal_codec::BlockError),
    /// Backends that must agree answered the same queries differently.
    #[error("{backend} answers {answers} where {other} answers {others}, {case}")]
    Disagreement {
        /// What was measured.
        case: String,
        /// One backend.
        backend: String,
        /// The hash of its answers.
        answers: String,
        /// A backend that ran before it.
        other: String,
        /// The hash of the other backend's answers.
        others: String,
    },
    /// The position log failed.
    #[error(transparent)]
    Log(#[from] shoal_position_log::LogError),
    /// The history failed.
    #[error(transparent)]
    History(#[from] shoal_history::HistoryError),
    /// Events and queries contradict each other.
    #[error("{0}")]
    Membership(String),
    /// A codec failed, or decoded wrong values.
    #[error("{0}")]
    Codec(String),
    /// Data could not be read.
    #[error("cannot read {path}: {source}")]
    Read {
        /// The file or folder.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// The results could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: String,
        /// The cause.
        source: std::io::Error,
    },
    /// A workload ended early, or the engine refused its rows.
    #[error("{0}")]
    WorkloadRows(String),
}
