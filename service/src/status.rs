//! The gRPC status of each error.
//!
//! One table gives code, stable reason and metadata of every [`ServiceError`]. `error.proto`
//! documents the reasons, which never change. Details are messages of google.rpc: ErrorInfo always,
//! BadRequest for an invalid field, RetryInfo if a retry can succeed. `foreign_status.rs`
//! recognizes the errors of the gRPC library.

use std::collections::HashMap;
use std::time::Duration;

use prost::Message as _;
use shoal_codec::BlockError;
use shoal_engine::EngineError;
use shoal_history::HistoryError;
use shoal_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::error::ServiceError;
use crate::limits::LOG_RETRY_MS;

/// Domain of every ErrorInfo.
pub const DOMAIN: &str = "shoal";

/// Keys and values of an ErrorInfo.
type Metadata = Vec<(&'static str, String)>;

/// Builds metadata from keys and values.
macro_rules! metadata {
    ($($key:ident: $value:expr),*) => {
        vec![$((stringify!($key), $value.to_string())),*]
    };
}

/// As [`describe`], for errors of the history.
fn describe_history(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    match error {
        ServiceError::NoHistory(fleet) => {
            (Code::FailedPrecondition, ErrorReason::NoHistory, metadata! { fleet: fleet })
        }
        ServiceError::History(HistoryError::Budget { unit, limit }) => {
            (Code::ResourceExhausted, ErrorReason::Limit, metadata! { what: unit, limit: limit })
        }
        ServiceError::History(HistoryError::Erasing { limit }) => {
            let what = "objects that are being erased";
            (Code::ResourceExhausted, ErrorReason::Limit, metadata! { what: what, limit: limit })
        }
        _ => (Code::Internal, ErrorReason::Internal, vec![]),
    }
}

/// Code and reason of an error.
#[must_use]
pub fn code_and_reason(error: &ServiceError) -> (Code, ErrorReason) {
    let (code, reason, _) = describe(error);
    (code, reason)
}

/// The table: code, reason and metadata of an error.
#[allow(clippy::enum_glob_use, reason = "a table of three enums")]
fn describe(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    use {Code::*, ErrorReason as R, ServiceError as E};
    match error {
        E::EngineUnavailable { .. } => (FailedPrecondition, R::EngineUnavailable, vec![]),
        E::FleetName { name, .. } => (InvalidArgument, R::FleetName, metadata! { fleet: name }),
        E::FleetUnknown(fleet) | E::FleetRenamed(fleet) => {
            (NotFound, R::FleetUnknown, metadata! { fleet: fleet })
        }
        E::FleetExists(fleet) => (AlreadyExists, R::FleetExists, metadata! { fleet: fleet }),
        E::FleetDeleted(fleet) => (Aborted, R::FleetDeleted, metadata! { fleet: fleet }),
        E::FleetFailed(fleet) => (Unavailable, R::FleetFailed, metadata! { fleet: fleet }),
        E::Engine(error) => describe_engine(error),
        E::Field { .. } => (InvalidArgument, R::Field, vec![]),
        E::Malformed { .. }
        | E::Undecodable { .. }
        | E::MessageTooLarge { .. }
        | E::MessageStalled { .. }
        | E::MessageSlow { .. }
        | E::CallStalled { .. }
        | E::CompressionUnsupported { .. } => describe_message(error),
        E::MethodUnknown { path } => (Unimplemented, R::MethodUnknown, metadata! { path: path }),
        E::Foreign { code, reason, .. } => (*code, *reason, vec![]),
        E::Block(error) => (InvalidArgument, R::Block, block_place(error)),
        E::OutOfOrder { .. } | E::ProducerUnknown { .. } => describe_producer(error),
        E::Token(_) => (InvalidArgument, R::Token, vec![]),
        E::TokenTerm { fleet, term } => {
            (FailedPrecondition, R::TokenTerm, metadata! { fleet: fleet, term: term })
        }
        E::SessionGone | E::SessionOtherFleet { .. } | E::SessionTakenOver => {
            describe_session(error)
        }
        E::Busy { what, limit, .. } => {
            (ResourceExhausted, R::Busy, metadata! { what: what, limit: limit })
        }
        E::Limit { what, value, limit } => {
            let metadata = metadata! { what: what, value: value, limit: limit };
            (ResourceExhausted, R::Limit, metadata)
        }
        E::SpaceMismatch { fleet, found, expected } => {
            let metadata = metadata! { fleet: fleet, block_space: found, fleet_space: expected };
            (InvalidArgument, R::SpaceMismatch, metadata)
        }
        E::NotRead(_) => (Aborted, R::NotRead, vec![]),
        E::Deadline => (DeadlineExceeded, R::Deadline, vec![]),
        E::ShuttingDown => (Unavailable, R::ShuttingDown, vec![]),
        E::Recovering { .. } => (Unavailable, R::Recovering, vec![]),
        E::Follower { .. }
        | E::Fenced { .. }
        | E::ServerFenced
        | E::FollowerBehind { .. }
        | E::LeaderReachable { .. }
        | E::NotFollower
        | E::NotFenced(_)
        | E::NoLog => describe_replication(error),
        E::NotPromoted(cause) => describe(cause),
        E::FollowerReplaced | E::CopyMoved => (Aborted, R::FollowerReplaced, vec![]),
        E::NoReplication => (Unimplemented, R::NoReplication, vec![]),
        E::ReplicationSecret => (Unauthenticated, R::Unauthenticated, vec![]),
        E::TokenLost { .. }
        | E::LogSpace { .. }
        | E::LogFailed { .. }
        | E::Log(_)
        | E::DurabilityLost { .. } => describe_log(error),
        E::NoHistory(_) | E::History(_) => describe_history(error),
        E::Unauthenticated(_) | E::PermissionDenied(_) | E::Quota { .. } => describe_access(error),
        // Errors that occur only at the start of a server. If a call fails with one, it is a bug.
        E::Insecure { .. }
        | E::NoMap
        | E::AccessFile { .. }
        | E::AccessOptions(_)
        | E::LimitRange { .. }
        | E::Io { .. }
        | E::Transport(_)
        | E::HistoryFolder
        | E::FollowFolder(_) => (Internal, R::Internal, vec![]),
    }
}

/// Errors of calls that are not permitted, or not permitted now.
fn describe_access(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    match error {
        ServiceError::Unauthenticated(problem) => {
            let metadata = metadata! { problem: problem.name() };
            (Code::Unauthenticated, ErrorReason::Unauthenticated, metadata)
        }
        ServiceError::PermissionDenied(right) => {
            (Code::PermissionDenied, ErrorReason::PermissionDenied, metadata! { right: right })
        }
        ServiceError::Quota { quota, limit, .. } => {
            let metadata = metadata! { quota: quota, limit: limit };
            (Code::ResourceExhausted, ErrorReason::Quota, metadata)
        }
        _ => (Code::Internal, ErrorReason::Internal, vec![]),
    }
}

/// Errors of messages that cannot be read.
fn describe_message(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    use ErrorReason as R;
    match error {
        ServiceError::Malformed { offset, .. } => {
            (Code::InvalidArgument, R::Malformed, metadata! { offset: offset })
        }
        ServiceError::Undecodable { method, .. } => {
            (Code::InvalidArgument, R::Malformed, metadata! { method: method })
        }
        ServiceError::MessageTooLarge { bytes, limit } => {
            (Code::OutOfRange, R::MessageTooLarge, metadata! { bytes: bytes, limit: limit })
        }
        ServiceError::CompressionUnsupported { encoding } => {
            (Code::Unimplemented, R::CompressionUnsupported, metadata! { encoding: encoding })
        }
        _ => (Code::Aborted, R::MessageStalled, vec![]),
    }
}

/// Errors of numbered messages.
fn describe_producer(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    let (reason, metadata) = match error {
        ServiceError::OutOfOrder { producer, expected, .. } => {
            (ErrorReason::OutOfOrder, metadata! { producer: producer, expected: expected })
        }
        ServiceError::ProducerUnknown { producer, .. } => {
            (ErrorReason::ProducerUnknown, metadata! { producer: producer, expected: 1 })
        }
        _ => (ErrorReason::Internal, vec![]),
    };
    (Code::FailedPrecondition, reason, metadata)
}

/// Errors of sessions.
fn describe_session(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    match error {
        ServiceError::SessionOtherFleet { fleet, session_fleet } => {
            let metadata = metadata! { fleet: fleet, session_fleet: session_fleet };
            (Code::FailedPrecondition, ErrorReason::SessionOtherFleet, metadata)
        }
        ServiceError::SessionTakenOver => (Code::Aborted, ErrorReason::SessionTakenOver, vec![]),
        _ => (Code::NotFound, ErrorReason::SessionGone, vec![]),
    }
}

/// Errors of leaders and followers.
fn describe_replication(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    let (reason, metadata) = match error {
        ServiceError::Follower { leader } => (ErrorReason::Follower, metadata! { leader: leader }),
        ServiceError::Fenced { fleet, term, last_epoch } => {
            let metadata = metadata! { fleet: fleet, term: term, last_epoch: last_epoch };
            (ErrorReason::Fenced, metadata)
        }
        ServiceError::ServerFenced => (ErrorReason::Fenced, vec![]),
        ServiceError::FollowerBehind { fleet, epoch, applied_epoch, .. } => {
            let metadata = metadata! { fleet: fleet, epoch: epoch, applied_epoch: applied_epoch };
            return (Code::Unavailable, ErrorReason::FollowerBehind, metadata);
        }
        ServiceError::LeaderReachable { leader } => {
            (ErrorReason::LeaderReachable, metadata! { leader: leader })
        }
        ServiceError::NoLog => (ErrorReason::NoLog, vec![]),
        ServiceError::NotFenced(_) => (ErrorReason::NotFenced, vec![]),
        _ => (ErrorReason::NotFollower, vec![]),
    };
    (Code::FailedPrecondition, reason, metadata)
}

/// Errors of logs.
fn describe_log(error: &ServiceError) -> (Code, ErrorReason, Metadata) {
    match error {
        ServiceError::TokenLost { fleet, last_epoch, .. } => {
            let metadata = metadata! { fleet: fleet, last_epoch: last_epoch };
            (Code::FailedPrecondition, ErrorReason::Lost, metadata)
        }
        ServiceError::LogSpace { fleet, .. } => {
            (Code::ResourceExhausted, ErrorReason::LogSpace, metadata! { fleet: fleet })
        }
        ServiceError::LogFailed { fleet, .. } => {
            (Code::Unavailable, ErrorReason::LogFailed, metadata! { fleet: fleet })
        }
        ServiceError::Log(error) if error.is_full() => {
            (Code::ResourceExhausted, ErrorReason::LogSpace, vec![])
        }
        _ => (Code::Unavailable, ErrorReason::LogFailed, vec![]),
    }
}

fn describe_engine(error: &EngineError) -> (Code, ErrorReason, Metadata) {
    match error {
        EngineError::Limit { what, value, limit } => {
            let metadata = metadata! { what: what, value: value, limit: limit };
            (Code::InvalidArgument, ErrorReason::EngineLimit, metadata)
        }
        EngineError::OutOfMemory { budget, budget_bytes, needed_bytes, left_bytes } => {
            let metadata = metadata! {
                budget: budget,
                budget_bytes: budget_bytes,
                needed_bytes: needed_bytes,
                left_bytes: left_bytes
            };
            (Code::ResourceExhausted, ErrorReason::EngineMemory, metadata)
        }
        EngineError::Device(_) => (Code::Unavailable, ErrorReason::EngineDevice, vec![]),
        _ => (Code::Internal, ErrorReason::Internal, vec![]),
    }
}

/// The chunk and the offset at which a block is invalid, if the codec reports them.
fn block_place(error: &BlockError) -> Metadata {
    match error {
        BlockError::Truncated { offset, .. }
        | BlockError::Checksum { offset, .. }
        | BlockError::Header { offset, .. } => metadata! { offset: offset },
        BlockError::Chunk { chunk, offset, .. } | BlockError::RowOutside { chunk, offset, .. } => {
            metadata! { chunk: chunk, offset: offset }
        }
        _ => vec![],
    }
}

/// The name of a reason in ErrorInfo.
#[must_use]
pub fn reason_name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let (code, reason, metadata) = describe(&error);
        let message = error.to_string();
        let mut details = ErrorDetails::new();
        let metadata = metadata.into_iter().map(|(key, value)| (key.to_owned(), value));
        let metadata: HashMap<String, String> = metadata.collect();
        details.set_error_info(reason_name(reason), DOMAIN, metadata);
        match error {
            ServiceError::Field { field, problem } => {
                details.add_bad_request_violation(field, problem);
            }
            ServiceError::FleetName { field, .. } => {
                details.add_bad_request_violation(field, &message);
            }
            ServiceError::Block(_) | ServiceError::SpaceMismatch { .. } => {
                details.add_bad_request_violation("block", &message);
            }
            ServiceError::Busy { retry_ms, .. }
            | ServiceError::Quota { retry_ms, .. }
            | ServiceError::FollowerBehind { retry_ms, .. }
            | ServiceError::Recovering { retry_ms } => {
                details.set_retry_info(Some(Duration::from_millis(retry_ms)));
            }
            _ if reason == ErrorReason::LogSpace => {
                details.set_retry_info(Some(Duration::from_millis(LOG_RETRY_MS)));
            }
            _ => {}
        }
        Self::with_error_details(code, message, details)
    }
}

/// Converts an error to a status inside a message, with the same code, text and details as the
/// status of a call.
#[must_use]
pub fn rpc_status(error: ServiceError) -> tonic_types::Status {
    let status = Status::from(error);
    let (code, message) = (status.code() as i32, status.message().to_owned());
    // `details` of a tonic status is an encoded google.rpc.Status.
    tonic_types::Status::decode(status.details()).unwrap_or_else(|_| tonic_types::Status {
        code,
        message,
        details: Vec::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_reach_the_client() {
        let busy = ServiceError::Busy { what: "the queue of rows", limit: 7, retry_ms: 250 };
        let status = Status::from(busy);
        assert_eq!(status.code(), Code::ResourceExhausted);
        let details = status.get_error_details();
        let info = details.error_info().unwrap();
        assert_eq!((info.reason.as_str(), info.domain.as_str()), ("BUSY", DOMAIN));
        assert_eq!(info.metadata["limit"], "7");
        let retry = details.retry_info().unwrap();
        assert_eq!(retry.retry_delay, Some(Duration::from_millis(250)));

        let status = Status::from(ServiceError::field("region.circle.radius_m", "is -1"));
        let violations = status.get_error_details().bad_request().unwrap().field_violations.clone();
        assert_eq!(violations[0].field, "region.circle.radius_m");
    }
}
