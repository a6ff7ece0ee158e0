//! Which gRPC status is each error?
//!
//! The one table: code and stable reason of every [`ServiceError`]. Reasons are part of the wire
//! and never change. Details are google.rpc: ErrorInfo always, BadRequest for a field, RetryInfo
//! where trying again helps.

use std::time::Duration;

use prost::Message as _;
use shoal_engine::EngineError;
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
        ServiceError::FleetName(_) => (Code::InvalidArgument, "FLEET_NAME"),
        ServiceError::FleetUnknown(_) => (Code::NotFound, "FLEET_UNKNOWN"),
        ServiceError::FleetExists(_) => (Code::AlreadyExists, "FLEET_EXISTS"),
        ServiceError::FleetDeleted(_) => (Code::Aborted, "FLEET_DELETED"),
        ServiceError::FleetFailed(_) => (Code::Unavailable, "FLEET_FAILED"),
        ServiceError::Engine(error) => engine_code_and_reason(error),
        ServiceError::Field { .. } => (Code::InvalidArgument, "FIELD"),
        ServiceError::Malformed { .. } => (Code::InvalidArgument, "MALFORMED"),
        ServiceError::Block(_) => (Code::InvalidArgument, "BLOCK"),
        ServiceError::OutOfOrder { .. } => (Code::FailedPrecondition, "OUT_OF_ORDER"),
        ServiceError::ProducerUnknown { .. } => (Code::FailedPrecondition, "PRODUCER_UNKNOWN"),
        ServiceError::Token(_) => (Code::InvalidArgument, "TOKEN"),
        ServiceError::TokenTerm { .. } => (Code::FailedPrecondition, "TOKEN_TERM"),
        ServiceError::SessionGone => (Code::NotFound, "SESSION_GONE"),
        ServiceError::SessionTakenOver => (Code::Aborted, "SESSION_TAKEN_OVER"),
        ServiceError::Busy { .. } => (Code::ResourceExhausted, "BUSY"),
        ServiceError::Limit { .. } => (Code::ResourceExhausted, "LIMIT"),
        ServiceError::SpaceMismatch { .. } => (Code::InvalidArgument, "SPACE_MISMATCH"),
        ServiceError::NotRead(_) => (Code::Aborted, "NOT_READ"),
        ServiceError::MessageStalled { .. } => (Code::Aborted, "MESSAGE_STALLED"),
        ServiceError::Deadline => (Code::DeadlineExceeded, "DEADLINE"),
        ServiceError::ShuttingDown => (Code::Unavailable, "SHUTTING_DOWN"),
        // Not errors of a request: whoever sees one here sees a fault of this server.
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
            ServiceError::Busy { retry_ms, .. } => {
                details.set_retry_info(Some(Duration::from_millis(retry_ms)));
            }
            _ => {}
        }
        Self::with_error_details(code, message, details)
    }
}

/// What a program would want of an error.
fn metadata(error: &ServiceError) -> std::collections::HashMap<String, String> {
    let pairs: Vec<(&str, String)> = match error {
        ServiceError::FleetName(name)
        | ServiceError::FleetUnknown(name)
        | ServiceError::FleetExists(name)
        | ServiceError::FleetDeleted(name)
        | ServiceError::FleetFailed(name) => vec![("fleet", name.clone())],
        ServiceError::OutOfOrder { producer, expected, .. } => {
            vec![("producer", producer.clone()), ("expected", expected.to_string())]
        }
        ServiceError::ProducerUnknown { producer, .. } => {
            vec![("producer", producer.clone()), ("expected", "1".into())]
        }
        ServiceError::TokenTerm { fleet, term } => {
            vec![("fleet", fleet.clone()), ("term", format!("{term:016x}"))]
        }
        ServiceError::Busy { what, limit, .. } => {
            vec![("what", (*what).into()), ("limit", limit.to_string())]
        }
        ServiceError::Limit { what, value, limit }
        | ServiceError::Engine(EngineError::Limit { what, value, limit }) => vec![
            ("what", (*what).into()),
            ("value", value.to_string()),
            ("limit", limit.to_string()),
        ],
        ServiceError::Engine(EngineError::OutOfMemory {
            budget,
            budget_bytes,
            needed_bytes,
            left_bytes,
        }) => vec![
            ("budget", (*budget).into()),
            ("budget_bytes", budget_bytes.to_string()),
            ("needed_bytes", needed_bytes.to_string()),
            ("left_bytes", left_bytes.to_string()),
        ],
        _ => Vec::new(),
    };
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
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
