//! What can go wrong in the service, by what the caller can do about it?
//!
//! One enum for the package: starting up, and requests at the door. `status.rs` holds the one table
//! that maps it to gRPC. Refused rows are not errors: they are counted in their acknowledgement.

use std::io;
use std::net::SocketAddr;

use shoal_codec::{BlockError, SpaceTag};
use shoal_engine::{EngineError, GeometryError};
use shoal_proto::v1::ErrorReason;
use thiserror::Error;
use tonic::Code;

use crate::foreign_status::bounded;

/// A start, a run or a request that could not be carried out.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A listener outside loopback without consent: add `--insecure`.
    #[error(
        "{address} can be reached from other machines and nothing here is encrypted or \
         authenticated: listen on a loopback address, or pass --insecure"
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
    #[error("limit {name} is {value}; allowed: {min} to {max}")]
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
    #[error("fleet name {name:?} is invalid: use 1 to 64 characters of a-z, 0-9, '_' and '-'")]
    FleetName {
        /// Path of the field that holds the name, as named in the protos.
        field: String,
        /// The name, cut where it is too long.
        name: String,
    },
    /// No fleet of that name.
    #[error("fleet {0:?} not found")]
    FleetUnknown(String),
    /// A fleet of that name is there already.
    #[error("fleet {0:?} already exists")]
    FleetExists(String),
    /// The fleet was deleted while the request was in progress.
    #[error("fleet {0:?} was deleted")]
    FleetDeleted(String),
    /// The fleet's engine failed; it takes no more requests.
    #[error("the engine of fleet {0:?} failed")]
    FleetFailed(String),
    /// The fleet's engine could not carry the cycle out, but still runs.
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
    #[error("cannot decode {what}: {problem} at byte {offset}")]
    Malformed {
        /// Name of the message type.
        what: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// Where.
        offset: usize,
    },
    /// The bytes of a message are not what its method takes; found by the generated decoder.
    #[error("cannot decode the request of {method}: {problem}")]
    Undecodable {
        /// Path of the method.
        method: String,
        /// Message type, field and what is wrong.
        problem: String,
    },
    /// A message above the limit of its method.
    #[error("message of {bytes} bytes exceeds the limit of {limit} bytes")]
    MessageTooLarge {
        /// Its length.
        bytes: u64,
        /// The most that the method takes.
        limit: u64,
    },
    /// No method has this path.
    #[error("unknown method: {path}")]
    MethodUnknown {
        /// The path, cut where it is too long.
        path: String,
    },
    /// A compressed message.
    #[error("compression {encoding:?} is not supported: send uncompressed messages")]
    CompressionUnsupported {
        /// Name of the compression.
        encoding: String,
    },
    /// A status that the gRPC library or one of its own services made.
    #[error("{message}")]
    Foreign {
        /// Its code.
        code: Code,
        /// The reason that it is given here.
        reason: ErrorReason,
        /// Its message.
        message: String,
    },
    /// A block that cannot be read; nothing of it was applied.
    #[error("block: {0}")]
    Block(#[from] BlockError),
    /// A number of a producer that skips one.
    #[error("batch_seq {found} of producer {producer:?} is out of order: expected {expected}")]
    OutOfOrder {
        /// The producer.
        producer: String,
        /// The number sent.
        found: u64,
        /// The number that must be sent first.
        expected: u64,
    },
    /// A number other than 1 of a producer that the server does not know.
    #[error(
        "producer {producer:?} is unknown, or was forgotten: expected batch_seq 1, found {found}"
    )]
    ProducerUnknown {
        /// The producer.
        producer: String,
        /// The number sent.
        found: u64,
    },
    /// A token that this service never issued.
    #[error("invalid token: {0}")]
    Token(&'static str),
    /// A token of another run of the engine, or of another fleet.
    #[error(
        "token belongs to another fleet or to an earlier term; the term of fleet {fleet:?} is \
         {term}"
    )]
    TokenTerm {
        /// Name of the fleet asked.
        fleet: String,
        /// Its term.
        term: u64,
    },
    /// A session of a subscriber that ended, or never was.
    #[error(
        "session not found: it was closed, or was without a stream for longer, or for more \
         messages, than the server keeps"
    )]
    SessionGone,
    /// A session of another fleet than the request names.
    #[error("the session belongs to fleet {session_fleet:?}; the request names fleet {fleet:?}")]
    SessionOtherFleet {
        /// The fleet of the request.
        fleet: String,
        /// The fleet of the session.
        session_fleet: String,
    },
    /// Another stream resumed the session.
    #[error("another stream resumed this session")]
    SessionTakenOver,
    /// A queue is full: try again after the time given.
    #[error("{what} has reached its limit of {limit}; retry in {retry_ms} ms")]
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
    #[error("the space of the block is {found}; the space of fleet {fleet:?} is {expected}")]
    SpaceMismatch {
        /// Name of the fleet.
        fleet: String,
        /// The block's space.
        found: SpaceTag,
        /// The fleet's.
        expected: SpaceTag,
    },
    /// A client that did not read its answer lost it.
    #[error("the client read nothing for {0} ms; the rest of the answer is discarded")]
    NotRead(u64),
    /// A message that began and did not end.
    #[error("message of {bytes} bytes is incomplete after {limit_ms} ms")]
    MessageStalled {
        /// Its length.
        bytes: u64,
        /// How long it may take.
        limit_ms: u64,
    },
    /// The client's deadline passed.
    #[error("deadline exceeded before the request completed")]
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

    /// A path that no method has.
    pub(crate) fn method_unknown(path: &str) -> Self {
        Self::MethodUnknown { path: bounded(path) }
    }

    /// The same error, said of a field inside another.
    #[must_use]
    pub fn under(self, outer: &str) -> Self {
        match self {
            Self::Field { field, problem } => Self::Field { field: join(outer, &field), problem },
            Self::FleetName { field, name } => Self::FleetName { field: join(outer, &field), name },
            other => other,
        }
    }

    /// A geometry error of a message at a path of the request.
    pub fn geometry(path: &str, error: &GeometryError) -> Self {
        Self::field(error.field(), error.to_string()).under(path)
    }
}

/// A field inside another; either may be the message itself, whose path is empty.
fn join(outer: &str, field: &str) -> String {
    match (outer, field) {
        ("", _) => field.to_owned(),
        (_, "") => outer.to_owned(),
        _ => format!("{outer}.{field}"),
    }
}
