//! Which gRPC status is each error?
//!
//! The one table: code and stable reason of every [`ServiceError`]. Reasons are part of the wire
//! and never change. Details are google.rpc: ErrorInfo always, BadRequest for a field, RetryInfo
//! where a retry helps. `foreign_status.rs` says which errors are those of the gRPC library.

use std::collections::HashMap;
use std::time::Duration;

use shoal_codec::BlockError;
use shoal_engine::EngineError;
use shoal_proto::v1::{FailedMessage, FailedQuery, RegionError};
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::error::ServiceError;

/// Domain of every ErrorInfo.
pub const DOMAIN: &str = "shoal";

/// Code and reason of an error.
#[must_use]
pub fn code_and_reason(error: &ServiceError) -> (Code, &'static str) {
    match error {
        ServiceError::Insecure { .. } => (Code::FailedPrecondition, "INSECURE"),
        ServiceError::EngineUnavailable { .. } => (Code::FailedPrecondition, "ENGINE_UNAVAILABLE"),
        ServiceError::FleetName { .. } => (Code::InvalidArgument, "FLEET_NAME"),
        ServiceError::FleetUnknown(_) => (Code::NotFound, "FLEET_UNKNOWN"),
        ServiceError::FleetExists(_) => (Code::AlreadyExists, "FLEET_EXISTS"),
        ServiceError::FleetDropped(_) => (Code::Aborted, "FLEET_DROPPED"),
        ServiceError::FleetFailed(_) => (Code::Unavailable, "FLEET_FAILED"),
        ServiceError::Engine(error) => engine_code_and_reason(error),
        ServiceError::Field { .. } => (Code::InvalidArgument, "FIELD"),
        ServiceError::Malformed { .. } | ServiceError::Undecodable { .. } => {
            (Code::InvalidArgument, "MALFORMED")
        }
        ServiceError::MessageTooLarge { .. } => (Code::OutOfRange, "MESSAGE_TOO_LARGE"),
        ServiceError::MethodUnknown { .. } => (Code::Unimplemented, "METHOD_UNKNOWN"),
        ServiceError::CompressionUnsupported { .. } => {
            (Code::Unimplemented, "COMPRESSION_UNSUPPORTED")
        }
        ServiceError::Foreign { code, reason, .. } => (*code, reason),
        ServiceError::Block(_) => (Code::InvalidArgument, "BLOCK"),
        ServiceError::Token(_) => (Code::InvalidArgument, "TOKEN"),
        ServiceError::TokenTerm { .. } => (Code::FailedPrecondition, "TOKEN_TERM"),
        ServiceError::SessionGone => (Code::NotFound, "SESSION_GONE"),
        ServiceError::SessionOtherFleet { .. } => (Code::FailedPrecondition, "SESSION_OTHER_FLEET"),
        ServiceError::SessionTakenOver => (Code::Aborted, "SESSION_TAKEN_OVER"),
        ServiceError::Busy { .. } => (Code::ResourceExhausted, "BUSY"),
        ServiceError::Limit { .. } => (Code::ResourceExhausted, "LIMIT"),
        ServiceError::SpaceMismatch { .. } => (Code::InvalidArgument, "SPACE_MISMATCH"),
        ServiceError::NotRead(_) => (Code::Aborted, "NOT_READ"),
        ServiceError::MessageStalled { .. } => (Code::Aborted, "MESSAGE_STALLED"),
        ServiceError::Deadline => (Code::DeadlineExceeded, "DEADLINE"),
        ServiceError::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN"),
        // Not errors of a request: one that a client sees is a fault of this server.
        _ => (Code::Internal, "INTERNAL"),
    }
}

fn engine_code_and_reason(error: &EngineError) -> (Code, &'static str) {
    match error {
        EngineError::Limit { .. } => (Code::InvalidArgument, "ENGINE_LIMIT"),
        EngineError::OutOfMemory { .. } => (Code::ResourceExhausted, "ENGINE_MEMORY"),
        EngineError::Device(_) => (Code::Unavailable, "ENGINE_DEVICE"),
        _ => (Code::Internal, "INTERNAL"),
    }
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let (code, reason) = code_and_reason(&error);
        let message = error.to_string();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason, DOMAIN, metadata(&error));
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
            ServiceError::Busy { retry_ms, .. } => {
                details.set_retry_info(Some(Duration::from_millis(retry_ms)));
            }
            _ => {}
        }
        Self::with_error_details(code, message, details)
    }
}

/// What a program needs of an error, beside its reason.
fn metadata(error: &ServiceError) -> HashMap<String, String> {
    let pairs = match error {
        ServiceError::Block(error) => block_place(error),
        ServiceError::Engine(error) => engine_numbers(error),
        error => request_values(error),
    };
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Keys and values of an ErrorInfo.
type Pairs = Vec<(&'static str, String)>;

fn request_values(error: &ServiceError) -> Pairs {
    match error {
        ServiceError::FleetName { name: fleet, .. }
        | ServiceError::FleetUnknown(fleet)
        | ServiceError::FleetExists(fleet)
        | ServiceError::FleetDropped(fleet)
        | ServiceError::FleetFailed(fleet) => vec![("fleet", fleet.clone())],
        ServiceError::TokenTerm { fleet, term } => {
            vec![("fleet", fleet.clone()), ("term", term.to_string())]
        }
        ServiceError::SessionOtherFleet { fleet, session_fleet } => {
            vec![("fleet", fleet.clone()), ("session_fleet", session_fleet.clone())]
        }
        ServiceError::SpaceMismatch { fleet, found, expected } => vec![
            ("fleet", fleet.clone()),
            ("block_space", found.to_string()),
            ("fleet_space", expected.to_string()),
        ],
        ServiceError::Busy { what, limit, .. } => {
            vec![("what", (*what).into()), ("limit", limit.to_string())]
        }
        ServiceError::Limit { what, value, limit } => counts(what, *value, *limit),
        ServiceError::Malformed { offset, .. } => vec![("offset", offset.to_string())],
        ServiceError::Undecodable { method, .. } => vec![("method", method.clone())],
        ServiceError::MessageTooLarge { bytes, limit } => {
            vec![("bytes", bytes.to_string()), ("limit", limit.to_string())]
        }
        ServiceError::MethodUnknown { path } => vec![("path", path.clone())],
        ServiceError::CompressionUnsupported { encoding } => vec![("encoding", encoding.clone())],
        _ => Vec::new(),
    }
}

fn counts(what: &str, value: u64, limit: u64) -> Pairs {
    vec![("what", what.into()), ("value", value.to_string()), ("limit", limit.to_string())]
}

fn engine_numbers(error: &EngineError) -> Pairs {
    match error {
        EngineError::Limit { what, value, limit } => counts(what, *value, *limit),
        EngineError::OutOfMemory { budget, budget_bytes, needed_bytes, left_bytes } => vec![
            ("budget", (*budget).into()),
            ("budget_bytes", budget_bytes.to_string()),
            ("needed_bytes", needed_bytes.to_string()),
            ("left_bytes", left_bytes.to_string()),
        ],
        _ => Vec::new(),
    }
}

/// Where a block breaks a rule, as far as the codec knows.
fn block_place(error: &BlockError) -> Pairs {
    match error {
        BlockError::Truncated { offset, .. }
        | BlockError::Checksum { offset, .. }
        | BlockError::Header { offset, .. } => vec![("offset", offset.to_string())],
        BlockError::Chunk { chunk, offset, .. } | BlockError::RowOutside { chunk, offset, .. } => {
            vec![("chunk", chunk.to_string()), ("offset", offset.to_string())]
        }
        _ => Vec::new(),
    }
}

/// An error inside an acknowledgement.
#[must_use]
pub fn failed_message(message: u64, error: &ServiceError) -> FailedMessage {
    let (code, reason) = code_and_reason(error);
    FailedMessage { message, code: code as i32, reason: reason.into(), detail: error.to_string() }
}

/// An error inside a batch of answers.
#[must_use]
pub fn failed_query(error: &ServiceError) -> FailedQuery {
    let (code, reason) = code_and_reason(error);
    FailedQuery { code: code as i32, reason: reason.into(), detail: error.to_string() }
}

/// An error of one region of a subscriber.
#[must_use]
pub fn region_error(region_id: u64, error: &ServiceError) -> RegionError {
    let (code, reason) = code_and_reason(error);
    RegionError { region_id, code: code as i32, reason: reason.into(), detail: error.to_string() }
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
