//! What can go wrong in the service, by what the caller can do about it?
//!
//! One enum for the package: starting up, and requests at the door. `status.rs` holds the one table
//! that maps it to gRPC. Refused rows are not errors: they are counted in their acknowledgement.

use std::io;
use std::net::SocketAddr;

use shoal_codec::{BlockError, SpaceTag};
use shoal_engine::{EngineError, GeometryError};
use thiserror::Error;

/// A start, a run or a request that could not be carried out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A listener outside loopback without consent: add `--insecure`.
    #[error(
        "{address} can be reached from other machines and nothing here is encrypted or \
         authenticated: listen on a loopback address, or say --insecure"
    )]
    Insecure {
        /// Where the server was to listen.
        address: SocketAddr,
    },
    /// The engine that was asked for is not in this build or not on this machine.
    #[error("engine {engine} is not available: {cause}")]
    EngineUnavailable {
        /// Name of the engine.
        engine: &'static str,
        /// Why.
        cause: String,
    },
    /// A limit of the configuration that contradicts another.
    #[error("limit {name} is {value}, it must lie in {min} to {max}")]
    LimitRange {
        /// Name of the limit.
        name: &'static str,
        /// Value given.
        value: u64,
        /// Least allowed.
        min: u64,
        /// Most allowed.
        max: u64,
    },
    /// The operating system refused a socket or a thread.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What the system said.
        source: io::Error,
    },
    /// The gRPC server ended by itself.
    #[error("the gRPC server failed: {0}")]
    Transport(#[from] tonic::transport::Error),
    /// A fleet's name breaks the rule.
    #[error("fleet name {0:?} is not [a-z0-9_-]{{1,64}}")]
    FleetName(String),
    /// No fleet of that name.
    #[error("there is no fleet {0:?}")]
    FleetUnknown(String),
    /// A fleet of that name is there already.
    #[error("fleet {0:?} exists already")]
    FleetExists(String),
    /// The fleet was dropped while the request was under way.
    #[error("fleet {0:?} was dropped")]
    FleetDropped(String),
    /// The fleet's engine failed; it takes no more requests.
    #[error("the engine of fleet {0:?} failed")]
    FleetFailed(String),
    /// The fleet's engine could not carry the cycle out, but goes on.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A field of a request breaks a rule.
    #[error("{field}: {problem}")]
    Field {
        /// Path of the field, as named in the protos.
        field: String,
        /// Value found and rule broken.
        problem: String,
    },
    /// The bytes of a message are not what its type says.
    #[error("message is not a {what} of shoal.v1: {problem} at byte {offset}")]
    Malformed {
        /// Name of the message type.
        what: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// Where.
        offset: usize,
    },
    /// A block that cannot be read; nothing of it was applied.
    #[error("block: {0}")]
    Block(#[from] BlockError),
    /// A token that this service never issued.
    #[error("token is not one of this service: {0}")]
    Token(&'static str),
    /// A token of another run of the engine, or of another fleet.
    #[error(
        "token belongs to another run of the engine or to another fleet; fleet {fleet:?} has \
         term {term:016x}"
    )]
    TokenTerm {
        /// Name of the fleet asked.
        fleet: String,
        /// Its term.
        term: u64,
    },
    /// A session of a subscriber that ended, or never was.
    #[error("the session is no more: its client closed it, or nobody read it for too long")]
    SessionGone,
    /// Another stream goes on with the session.
    #[error("another stream goes on with this session")]
    SessionTakenOver,
    /// A queue is full: try again after the time given.
    #[error("{what} is full, its limit is {limit}; try again in {retry_ms} ms")]
    Busy {
        /// Which queue.
        what: &'static str,
        /// How much it holds.
        limit: u64,
        /// When to try again, milliseconds.
        retry_ms: u64,
    },
    /// More of something than the server allows; waiting does not help.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// How many there are or would be.
        value: u64,
        /// The most that is allowed.
        limit: u64,
    },
    /// A block of another space than its fleet's.
    #[error("the block holds positions of {found}, fleet {fleet} has {expected}")]
    SpaceMismatch {
        /// Name of the fleet.
        fleet: String,
        /// The block's space.
        found: SpaceTag,
        /// The fleet's.
        expected: SpaceTag,
    },
    /// A client that did not read its answer lost it.
    #[error("the answer was not read for {0} ms and was given up")]
    NotRead(u64),
    /// A message that began and did not end.
    #[error("a message of {bytes} bytes was not complete after {limit_ms} ms")]
    MessageStalled {
        /// Its length.
        bytes: u64,
        /// How long it may take.
        limit_ms: u64,
    },
    /// The client's deadline passed.
    #[error("the deadline passed before the request was carried out")]
    Deadline,
    /// The server is going down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl ServiceError {
    /// A field of a request that breaks a rule.
    pub fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }

    /// The same error, said of a field inside another.
    #[must_use]
    pub fn under(self, outer: &str) -> Self {
        match self {
            Self::Field { field, problem } => {
                Self::Field { field: format!("{outer}.{field}"), problem }
            }
            other => other,
        }
    }

    /// A geometry error, said of a field of the request.
    pub fn geometry(field: impl Into<String>, error: &GeometryError) -> Self {
        Self::field(field, error.to_string())
    }
}
