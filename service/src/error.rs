//! Errors of the service, by what the caller can do about them.
//!
//! One enum covers failed starts and failed requests; the table in `status.rs` maps it to gRPC
//! statuses. Refused rows are not errors: the acknowledgement of their message counts them.

mod token_problem;

use std::fmt::Display;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use shoal_codec::{BlockError, SpaceTag};
use shoal_engine::{EngineError, GeometryError};
use shoal_proto::v1::ErrorReason;
use thiserror::Error;
use tonic::Code;

use crate::right::Right;
pub use token_problem::TokenProblem;

/// Maximum number of characters of a client's text in a status.
pub(crate) const TEXT_CHARS_MAX: usize = 256;

/// A start, a run or a request that failed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum ServiceError {
    /// A listener whose address is not loopback has neither protection nor `--insecure`.
    #[error(
        "{address} can be reached from other machines: listen on a loopback address, give \
         {missing}, or pass --insecure"
    )]
    Insecure {
        /// The address of the listener.
        address: SocketAddr,
        /// What would protect it.
        missing: &'static str,
    },
    /// A file of tokens, keys or certificates cannot be used.
    #[error("{}: {reason}", file.display())]
    AccessFile {
        /// The file.
        file: PathBuf,
        /// What is wrong with it, and where.
        reason: String,
    },
    /// Settings of access or TLS that do not fit each other.
    #[error("{0}")]
    AccessOptions(&'static str),
    /// A call without a valid token.
    #[error("{0}")]
    Unauthenticated(TokenProblem),
    /// A call whose token lacks a right.
    #[error("the token has no right `{0}` here")]
    PermissionDenied(Right),
    /// A quota of the token is used up.
    #[error("quota {quota} of the token is {limit}: retry in {retry_ms} ms")]
    Quota {
        /// Name of the quota.
        quota: &'static str,
        /// Its value.
        limit: u64,
        /// Delay before the next attempt, milliseconds.
        retry_ms: u64,
    },
    /// The engine is not in this build or not on this machine.
    #[error("engine {engine} is not available: {cause}")]
    EngineUnavailable {
        /// Name of the engine.
        engine: &'static str,
        /// Why.
        cause: String,
    },
    /// `--map-tiles` in a build without the map.
    #[error("this build has no map: build it with --features map, or leave out --map-tiles")]
    NoMap,
    /// A limit of the configuration outside its range.
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
        /// The operation.
        what: String,
        /// The error of the system.
        source: io::Error,
    },
    /// The gRPC server failed.
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
    /// A stream has reported to a fleet under a name that it no longer has.
    #[error("fleet {0:?} was renamed")]
    FleetRenamed(String),
    /// A fleet of that name exists.
    #[error("fleet {0:?} already exists")]
    FleetExists(String),
    /// The fleet was deleted while the request was in progress.
    #[error("fleet {0:?} was deleted")]
    FleetDeleted(String),
    /// The fleet's engine failed; it accepts no more requests.
    #[error("the engine of fleet {0:?} failed")]
    FleetFailed(String),
    /// The fleet's engine refused the cycle, and still runs.
    #[error(transparent)]
    Engine(#[from] EngineError),
    /// A field of a request breaks a rule.
    #[error("{field}: {problem}")]
    Field {
        /// Path of the field, as named in the protos.
        field: String,
        /// The value, and the rule that it breaks.
        problem: String,
    },
    /// The bytes of a message do not fit its type.
    #[error("cannot decode {what}: {problem} at byte {offset}")]
    Malformed {
        /// Name of the message type.
        what: &'static str,
        /// What is wrong.
        problem: &'static str,
        /// Where.
        offset: usize,
    },
    /// The bytes of a message do not fit its type; found by the generated decoder.
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
        /// The limit of the method.
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
    /// A status of the gRPC library or of one of its own services.
    #[error("{message}")]
    Foreign {
        /// Its code.
        code: Code,
        /// Its reason.
        reason: ErrorReason,
        /// Its message.
        message: String,
    },
    /// A block is invalid. None of its rows was applied.
    #[error("block: {0}")]
    Block(#[from] BlockError),
    /// A producer skipped a number.
    #[error("batch_seq {found} of producer {producer:?} is out of order: expected {expected}")]
    OutOfOrder {
        /// The producer.
        producer: String,
        /// The number sent.
        found: u64,
        /// The number that must be sent first.
        expected: u64,
    },
    /// The first number of an unknown producer is not 1.
    #[error(
        "producer {producer:?} is unknown, or was forgotten: expected batch_seq 1, found {found}"
    )]
    ProducerUnknown {
        /// The producer.
        producer: String,
        /// The number sent.
        found: u64,
    },
    /// A token that this service did not issue.
    #[error("invalid token: {0}")]
    Token(&'static str),
    /// A token of another run of the engine, or of another fleet.
    #[error(
        "token belongs to another fleet or to an earlier term; the term of fleet {fleet:?} is \
         {term}"
    )]
    TokenTerm {
        /// Name of the fleet of the request.
        fleet: String,
        /// Its term.
        term: u64,
    },
    /// A crash lost the epoch of a token.
    #[error(
        "epoch {epoch} of fleet {fleet:?} was lost when the server crashed; epoch {last_epoch} is \
         the last of that term that survived"
    )]
    TokenLost {
        /// Name of the fleet of the request.
        fleet: String,
        /// The epoch of the token.
        epoch: u64,
        /// The last epoch of its term that survived.
        last_epoch: u64,
    },
    /// The disk of the log is full; reports are accepted again when there is space.
    #[error("fleet {fleet:?} takes no reports until its log has space: {why}")]
    LogSpace {
        /// The fleet.
        fleet: String,
        /// Free and needed bytes.
        why: String,
    },
    /// The log of the fleet failed; it answers queries and takes no more changes.
    #[error("fleet {fleet:?} takes no changes: its log failed: {why}")]
    LogFailed {
        /// The fleet.
        fleet: String,
        /// The error of the disk, and what to do.
        why: String,
    },
    /// The server has stopped, and logs had failed.
    #[error("the server has stopped; {losses}")]
    DurabilityLost {
        /// For each fleet whose log failed: its name, its last durable epoch, and the reason.
        losses: String,
    },
    /// A data folder, a log or a checkpoint cannot be used.
    #[error(transparent)]
    Log(shoal_position_log::LogError),
    /// The fleets are not recovered yet.
    #[error("the server is recovering its fleets; retry in {retry_ms} ms")]
    Recovering {
        /// Delay before the next attempt, milliseconds.
        retry_ms: u64,
    },
    /// A change on a follower.
    #[error("this server is a follower and takes no changes; send them to its leader, {leader}")]
    Follower {
        /// Address of the leader.
        leader: String,
    },
    /// A change on a server that a promoted server has replaced.
    #[error(
        "another server was promoted in place of this one: fleet {fleet:?} has term {term} there, \
         and epochs after {last_epoch} of this server are not part of it. Send changes to the new \
         leader; restart this server with --follow and its address"
    )]
    Fenced {
        /// The fleet.
        fleet: String,
        /// The term that began there.
        term: u64,
        /// The last epoch of this server that survived.
        last_epoch: u64,
    },
    /// A change of the list of fleets on a server that a promoted server has replaced.
    #[error(
        "another server was promoted in place of this one. Send changes to the new leader; restart \
         this server with --follow and its address"
    )]
    ServerFenced,
    /// A follower has not applied the epoch of a token in time.
    #[error(
        "the follower has applied epoch {applied_epoch} of fleet {fleet:?}, the token needs a \
         later state; retry in {retry_ms} ms, or ask the leader"
    )]
    FollowerBehind {
        /// The fleet.
        fleet: String,
        /// The epoch of the token, 0 if its term has not arrived.
        epoch: u64,
        /// The last epoch applied.
        applied_epoch: u64,
        /// Delay before the next attempt, milliseconds.
        retry_ms: u64,
    },
    /// A promotion while the leader answers.
    #[error(
        "the leader at {leader} answers: stop it first, or promote with --force, which loses what \
         it has acknowledged and this server has not received"
    )]
    LeaderReachable {
        /// Its address.
        leader: String,
    },
    /// A promotion of a server that follows none.
    #[error("this server is no follower: it was promoted already, or started without --follow")]
    NotFollower,
    /// The list of fleets changed while a copy was made, so that it cannot be installed.
    #[error("the fleets of this server were renamed or replaced meanwhile")]
    CopyMoved,
    /// A call of replication to a server without it.
    #[error("this server takes no part in replication: start it with --replication-secret FILE")]
    NoReplication,
    /// A call of replication without the secret, or with another one.
    #[error(
        "the call has not the replication secret of this server: use --replication-secret FILE"
    )]
    ReplicationSecret,
    /// The stream of a follower ended, because another stream with the same follower name began.
    #[error("another stream of this follower took its place")]
    FollowerReplaced,
    /// A fence that is not for this server, or that does not exist.
    #[error("{0}")]
    NotFenced(&'static str),
    /// A promotion that an error ended; the server follows again.
    #[error("not promoted, this server follows its leader again: {0}")]
    NotPromoted(#[source] Box<ServiceError>),
    /// A call about logs to a server without one.
    #[error("this server keeps no log: start it with --data DIR")]
    NoLog,
    /// `--follow` without a data folder, or with the wrong one.
    #[error("{0}")]
    FollowFolder(String),
    /// The fleet has no history.
    #[error("fleet {0} has no history; start the server with --data DIR and --history")]
    NoHistory(String),
    /// `--history` without a data folder.
    #[error("--history needs a data folder: --data DIR")]
    HistoryFolder,
    /// The history of a fleet cannot be opened or read.
    #[error(transparent)]
    History(#[from] shoal_history::HistoryError),
    /// The session ended or never existed.
    #[error(
        "session not found: it was closed, or was without a stream for longer, or for more \
         messages, than the server keeps"
    )]
    SessionGone,
    /// The session belongs to another fleet than the request names.
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
    /// A queue is full: try again after the delay.
    #[error("{what} has reached its limit of {limit}; retry in {retry_ms} ms")]
    Busy {
        /// Which queue.
        what: &'static str,
        /// Its capacity.
        limit: u64,
        /// Delay before the next attempt, milliseconds.
        retry_ms: u64,
    },
    /// A limit of the server; waiting does not help.
    #[error("{what} is {value}, the limit is {limit}")]
    Limit {
        /// What was counted.
        what: &'static str,
        /// The count that the request would reach.
        value: u64,
        /// The limit.
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
    /// The client did not read its answer in time and lost it.
    #[error("the client read nothing for {0} ms; the rest of the answer is discarded")]
    NotRead(u64),
    /// A message was not complete in time.
    #[error("message of {bytes} bytes is incomplete after {limit_ms} ms")]
    MessageStalled {
        /// Its length.
        bytes: u64,
        /// Time limit, milliseconds.
        limit_ms: u64,
    },
    /// A message arrives too slowly.
    #[error(
        "{received} of {bytes} bytes of a message have arrived, fewer than {rate_min} in a second"
    )]
    MessageSlow {
        /// Bytes that have arrived.
        received: u64,
        /// Its length.
        bytes: u64,
        /// Least bytes in a second.
        rate_min: u64,
    },
    /// A call whose client sends nothing.
    #[error("the client sent no {what} for {limit_ms} ms")]
    CallStalled {
        /// What is missing.
        what: &'static str,
        /// Time limit, milliseconds.
        limit_ms: u64,
    },
    /// The client's deadline passed.
    #[error("deadline exceeded before the request completed")]
    Deadline,
    /// The server is shutting down.
    #[error("the server is shutting down")]
    ShuttingDown,
}

impl From<shoal_position_log::LogError> for ServiceError {
    fn from(error: shoal_position_log::LogError) -> Self {
        Self::Log(error)
    }
}

impl ServiceError {
    /// The error of a fleet that ended, under the name by which its caller knows it: it may have been
    /// renamed.
    pub(crate) fn of_fleet(self, name: &impl Display) -> Self {
        match self {
            Self::FleetDeleted(_) => Self::FleetDeleted(name.to_string()),
            Self::FleetFailed(_) => Self::FleetFailed(name.to_string()),
            error => error,
        }
    }

    /// A field of a request that breaks a rule.
    pub fn field(field: impl Into<String>, problem: impl Into<String>) -> Self {
        Self::Field { field: field.into(), problem: problem.into() }
    }

    /// A field that asks for a log on a server without one.
    pub(crate) fn no_data(field: &str) -> Self {
        Self::field(
            field,
            "DURABILITY_LOGGED needs a server with a data folder (shoal serve --data)",
        )
    }

    /// A path that no method has.
    pub(crate) fn method_unknown(path: &str) -> Self {
        Self::MethodUnknown { path: bounded(path) }
    }

    /// Prefixes the path of the error's field with `outer`.
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

/// Joins two field paths; an empty path means the message itself.
fn join(outer: &str, field: &str) -> String {
    match (outer, field) {
        ("", _) => field.to_owned(),
        (_, "") => outer.to_owned(),
        _ => format!("{outer}.{field}"),
    }
}

/// A text of a client, cut to fit the headers of a response.
pub(crate) fn bounded(text: &str) -> String {
    text.chars().take(TEXT_CHARS_MAX).collect()
}
