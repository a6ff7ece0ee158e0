//! Maps statuses of the gRPC libraries to errors of the service.
//!
//! tonic, prost, health and reflection return statuses without details, which differ in their code
//! and the beginning of their message. Only this file depends on those texts;
//! `tests/server/error_details.rs` fails when a new version changes one. `status.rs` has the code
//! and the reason of each error.

use shoal_proto::v1::ErrorReason;
use tonic::{Code, Status};

use crate::error::{ServiceError, bounded};

/// Prefix of prost's message; message type, field and problem follow.
pub(crate) const UNDECODABLE: &str = "failed to decode Protobuf message: ";
/// Prefix of tonic's message; the name of the compression and a backquote follow.
const COMPRESSED: &str = "Content is compressed with `";
/// Prefix of tonic's message; the length of the message and the limit follow.
const TOO_LARGE: &str = "Error, decoded message length too large: ";
/// Prefixes of tonic's messages for a body without gRPC frames or with malformed ones.
const FRAMING: [&str; 3] =
    ["Missing request message", "Unexpected EOF decoding stream", "protocol error: "];

/// Converts a status without details to an error; `path` is the path of the call's method.
pub(crate) fn own_error(status: &Status, path: &str) -> ServiceError {
    let message = status.message();
    let error = match status.code() {
        Code::Unimplemented => Some(unimplemented(message, path)),
        Code::OutOfRange => too_large(message),
        Code::Internal => undecodable(message, path),
        Code::InvalidArgument if path.starts_with("/grpc.reflection.") => {
            Some(ServiceError::field("message_request", "required, but not set"))
        }
        _ => None,
    };
    error.unwrap_or_else(|| ServiceError::Foreign {
        code: status.code(),
        reason: foreign_reason(status, path),
        message: bounded(message),
    })
}

fn unimplemented(message: &str, path: &str) -> ServiceError {
    let encoding = message.strip_prefix(COMPRESSED).and_then(|rest| rest.split('`').next());
    match encoding {
        Some(encoding) => ServiceError::CompressionUnsupported { encoding: bounded(encoding) },
        None => ServiceError::method_unknown(path),
    }
}

fn too_large(message: &str) -> Option<ServiceError> {
    let words = message.strip_prefix(TOO_LARGE)?.split(' ');
    let mut numbers = words.filter_map(|word| word.parse().ok());
    Some(ServiceError::MessageTooLarge { bytes: numbers.next()?, limit: numbers.next()? })
}

fn undecodable(message: &str, path: &str) -> Option<ServiceError> {
    let problem = message.strip_prefix(UNDECODABLE)?;
    Some(ServiceError::Undecodable { method: bounded(path), problem: bounded(problem) })
}

/// The reason for a foreign status whose code and message are kept.
fn foreign_reason(status: &Status, path: &str) -> ErrorReason {
    match status.code() {
        Code::Internal if FRAMING.iter().any(|text| status.message().starts_with(text)) => {
            ErrorReason::Framing
        }
        Code::NotFound if path.starts_with("/grpc.health.") => ErrorReason::ServiceUnknown,
        Code::NotFound if path.starts_with("/grpc.reflection.") => ErrorReason::DescriptorUnknown,
        _ => ErrorReason::Transport,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::TEXT_CHARS_MAX;
    use crate::status::code_and_reason;

    #[test]
    fn an_unknown_status_keeps_its_code_and_message() {
        for status in [Status::cancelled("gone"), Status::internal("?"), Status::out_of_range("x")]
        {
            let error = own_error(&status, "/a/B");
            assert_eq!(code_and_reason(&error), (status.code(), ErrorReason::Transport));
            assert_eq!(error.to_string(), status.message());
        }
    }

    #[test]
    fn a_foreign_text_is_cut() {
        let text = "é".repeat(1 << 20);
        let symbol = Status::not_found(format!("symbol '{text}' not found"));
        let encoding = Status::unimplemented(format!("{COMPRESSED}{text}` which"));
        for status in [symbol, encoding, Status::unimplemented("")] {
            let error = own_error(&status, &format!("/grpc.reflection.v1/{text}"));
            assert!(error.to_string().chars().count() < 2 * TEXT_CHARS_MAX);
        }
    }
}
