//! Which gRPC status is each error?
//!
//! The one table: code and stable reason of every [`ServiceError`]. `error.proto` documents the
//! reasons, which never change. Details are google.rpc: ErrorInfo always, BadRequest for a field,
//! RetryInfo where a retry helps. `foreign_status.rs` says which errors are those of the gRPC
//! library.

use std::collections::HashMap;
use std::time::Duration;

use prost::Message as _;
use shoal_codec::BlockError;
use shoal_engine::EngineError;
use shoal_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, StatusExt};

use crate::error::ServiceError;

/// Domain of every ErrorInfo.
pub const DOMAIN: &str = "shoal";

/// Code and reason of an error.
#[must_use]
pub fn code_and_reason(error: &ServiceError) -> (Code, ErrorReason) {
    match error {
        ServiceError::EngineUnavailable { .. } => {
            (Code::FailedPrecondition, ErrorReason::EngineUnavailable)
        }
        ServiceError::FleetName { .. } => (Code::InvalidArgument, ErrorReason::FleetName),
        ServiceError::FleetUnknown(_) => (Code::NotFound, ErrorReason::FleetUnknown),
        ServiceError::FleetExists(_) => (Code::AlreadyExists, ErrorReason::FleetExists),
        ServiceError::FleetDeleted(_) => (Code::Aborted, ErrorReason::FleetDeleted),
        ServiceError::FleetFailed(_) => (Code::Unavailable, ErrorReason::FleetFailed),
        ServiceError::Engine(error) => engine_code_and_reason(error),
        ServiceError::Field { .. } => (Code::InvalidArgument, ErrorReason::Field),
        ServiceError::Malformed { .. } | ServiceError::Undecodable { .. } => {
            (Code::InvalidArgument, ErrorReason::Malformed)
        }
        ServiceError::MessageTooLarge { .. } => (Code::OutOfRange, ErrorReason::MessageTooLarge),
        ServiceError::MethodUnknown { .. } => (Code::Unimplemented, ErrorReason::MethodUnknown),
        ServiceError::CompressionUnsupported { .. } => {
            (Code::Unimplemented, ErrorReason::CompressionUnsupported)
        }
        ServiceError::Foreign { code, reason, .. } => (*code, *reason),
        ServiceError::Block(_) => (Code::InvalidArgument, ErrorReason::Block),
        ServiceError::OutOfOrder { .. } => (Code::FailedPrecondition, ErrorReason::OutOfOrder),
        ServiceError::ProducerUnknown { .. } => {
            (Code::FailedPrecondition, ErrorReason::ProducerUnknown)
        }
        ServiceError::Token(_) => (Code::InvalidArgument, ErrorReason::Token),
        ServiceError::TokenTerm { .. } => (Code::FailedPrecondition, ErrorReason::TokenTerm),
        ServiceError::SessionGone => (Code::NotFound, ErrorReason::SessionGone),
        ServiceError::SessionOtherFleet { .. } => {
            (Code::FailedPrecondition, ErrorReason::SessionOtherFleet)
        }
        ServiceError::SessionTakenOver => (Code::Aborted, ErrorReason::SessionTakenOver),
        ServiceError::Busy { .. } => (Code::ResourceExhausted, ErrorReason::Busy),
        ServiceError::Limit { .. } => (Code::ResourceExhausted, ErrorReason::Limit),
        ServiceError::SpaceMismatch { .. } => (Code::InvalidArgument, ErrorReason::SpaceMismatch),
        ServiceError::NotRead(_) => (Code::Aborted, ErrorReason::NotRead),
        ServiceError::MessageStalled { .. } => (Code::Aborted, ErrorReason::MessageStalled),
        ServiceError::Deadline => (Code::DeadlineExceeded, ErrorReason::Deadline),
        ServiceError::ShuttingDown => (Code::Unavailable, ErrorReason::ShuttingDown),
        // Not errors of a request: one that a client sees is a fault of this server.
        _ => (Code::Internal, ErrorReason::Internal),
    }
}

fn engine_code_and_reason(error: &EngineError) -> (Code, ErrorReason) {
    match error {
        EngineError::Limit { .. } => (Code::InvalidArgument, ErrorReason::EngineLimit),
        EngineError::OutOfMemory { .. } => (Code::ResourceExhausted, ErrorReason::EngineMemory),
        EngineError::Device(_) => (Code::Unavailable, ErrorReason::EngineDevice),
        _ => (Code::Internal, ErrorReason::Internal),
    }
}

/// A reason as ErrorInfo has it.
#[must_use]
pub fn reason_name(reason: ErrorReason) -> &'static str {
    let name = reason.as_str_name();
    name.strip_prefix("ERROR_REASON_").unwrap_or(name)
}

impl From<ServiceError> for Status {
    fn from(error: ServiceError) -> Self {
        let (code, reason) = code_and_reason(&error);
        let message = error.to_string();
        let mut details = ErrorDetails::new();
        details.set_error_info(reason_name(reason), DOMAIN, metadata(&error));
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
        | ServiceError::FleetDeleted(fleet)
        | ServiceError::FleetFailed(fleet) => vec![("fleet", fleet.clone())],
        ServiceError::OutOfOrder { producer, expected, .. } => {
            vec![("producer", producer.clone()), ("expected", expected.to_string())]
        }
        ServiceError::ProducerUnknown { producer, .. } => {
            vec![("producer", producer.clone()), ("expected", "1".into())]
        }
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

/// An error inside a message: the same code, text and details as the status of a call.
#[must_use]
pub fn rpc_status(error: ServiceError) -> tonic_types::Status {
    let status = Status::from(error);
    let (code, message) = (status.code() as i32, status.message().to_owned());
    // The details of a status are the encoded google.rpc.Status itself.
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
