//! Errors of the client, by what the caller can do about them.
//!
//! A status of a call and a status inside a message are the same type, [`ServerError`].

use std::collections::HashMap;
use std::error::Error as StdError;
use std::fmt;
use std::time::Duration;

use shoal_proto::v1::ErrorReason;
use tonic::{Code, Status};
use tonic_types::{ErrorDetails, RpcStatusExt as _, StatusExt as _};

/// Why a call failed.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target is not a URL that the client can use.
    #[error("target {target}: {reason}")]
    Target {
        /// The target as given.
        target: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No server answers at the target.
    #[error("cannot reach a server at {target}: {reason}")]
    Connect {
        /// The URL.
        target: String,
        /// The innermost cause.
        reason: String,
    },
    /// The server sent nothing for the whole timeout.
    #[error("no answer from {target} within {} s", timeout.as_secs_f64())]
    Timeout {
        /// The URL.
        target: String,
        /// The timeout.
        timeout: Duration,
    },
    /// The server rejected the request, or the connection broke.
    #[error(transparent)]
    Server(#[from] Box<ServerError>),
    /// The server broke the protocol.
    #[error("invalid answer from the server: {0}")]
    Protocol(String),
    /// The rows cannot be encoded as a block.
    #[error("cannot encode a block: {0}")]
    Block(#[from] shoal_codec::BlockError),
}

impl Error {
    /// Whether the same call may succeed later without a change of the request.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            Self::Connect { .. } | Self::Timeout { .. } => true,
            Self::Server(error) => error.is_transient(),
            _ => false,
        }
    }

    /// The server's error, if the server sent one.
    #[must_use]
    pub fn server(&self) -> Option<&ServerError> {
        match self {
            Self::Server(error) => Some(error),
            _ => None,
        }
    }

    /// The stable reason, if the server sent one that this client knows.
    #[must_use]
    pub fn reason(&self) -> Option<ErrorReason> {
        self.server()?.reason()
    }
}

impl From<Status> for Error {
    fn from(status: Status) -> Self {
        Self::Server(Box::new(status.into()))
    }
}

/// An error of a server: a gRPC status with its `google.rpc` details.
///
/// Represents both the status of a call and a status inside a message.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerError {
    /// The status code.
    pub code: Code,
    /// The text for people.
    pub message: String,
    /// `ErrorInfo.reason`; empty if the server sent none. See [`ServerError::reason`].
    pub reason_name: String,
    /// `ErrorInfo.metadata`.
    pub metadata: HashMap<String, String>,
    /// `BadRequest.field_violations`: field and description.
    pub fields: Vec<(String, String)>,
    /// `RetryInfo.retry_delay`: how long to wait before the same request can succeed.
    pub retry_after: Option<Duration>,
}

impl ServerError {
    fn new(code: Code, message: &str, details: &ErrorDetails) -> Self {
        let info = details.error_info();
        let violations = details.bad_request().map_or(&[][..], |bad| &bad.field_violations);
        Self {
            code,
            message: message.to_owned(),
            reason_name: info.map_or_else(String::new, |info| info.reason.clone()),
            metadata: info.map_or_else(HashMap::new, |info| info.metadata.clone()),
            fields: violations
                .iter()
                .map(|of| (of.field.clone(), of.description.clone()))
                .collect(),
            retry_after: details.retry_info().and_then(|retry| retry.retry_delay),
        }
    }

    /// The stable reason; `None` if the server sent none, or one that this client does not know.
    #[must_use]
    pub fn reason(&self) -> Option<ErrorReason> {
        ErrorReason::from_str_name(&format!("ERROR_REASON_{}", self.reason_name))
    }

    /// Whether the same request may succeed later: the connection broke, the server is busy or
    /// restarts.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self.code {
            Code::Unavailable => self.reason() != Some(ErrorReason::FleetFailed),
            Code::Unknown | Code::Internal | Code::Cancelled => true,
            Code::ResourceExhausted => self.retry_after.is_some(),
            _ => false,
        }
    }
}

impl From<Status> for ServerError {
    fn from(status: Status) -> Self {
        // A status without a source is the server's; others stand for a connection that failed.
        let broken = status.source().map(|error| innermost(error).to_string());
        let message = broken.as_deref().unwrap_or(status.message());
        Self::new(status.code(), message, &status.get_error_details())
    }
}

impl From<&tonic_types::Status> for ServerError {
    fn from(status: &tonic_types::Status) -> Self {
        Self::new(Code::from_i32(status.code), &status.message, &status.get_error_details())
    }
}

impl fmt::Display for ServerError {
    /// The message, each wrong field that it does not mention, and the reason in brackets.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let message = self.message.as_str();
        f.write_str(if message.is_empty() { self.code.description() } else { message })?;
        for (field, problem) in &self.fields {
            if !message.contains(problem) {
                write!(f, "; {field}: {problem}")?;
            }
        }
        if self.reason_name.is_empty() { Ok(()) } else { write!(f, " [{}]", self.reason_name) }
    }
}

impl StdError for ServerError {}

/// The innermost cause: the outer ones only say "transport error".
pub(crate) fn innermost<'a>(error: &'a (dyn StdError + 'static)) -> &'a (dyn StdError + 'static) {
    let mut cause = error;
    while let Some(inner) = cause.source() {
        cause = inner;
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn details_are_decoded() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("region.circle.radius_m", "-1 is below 0");
        details.set_error_info("FIELD", "shoal", [("what".to_owned(), "it".to_owned())]);
        let status = Status::with_error_details(Code::InvalidArgument, "bad region", details);
        let error = ServerError::from(status);
        assert_eq!(error.to_string(), "bad region; region.circle.radius_m: -1 is below 0 [FIELD]");
        assert_eq!(error.reason(), Some(ErrorReason::Field));
        assert_eq!(error.metadata["what"], "it");
        assert!(!ServerError::from(Status::unknown("")).to_string().is_empty());
        let cause = std::io::Error::other("the server holds its limit of 3 connections");
        let broken = ServerError::from(Status::from_error(Box::new(cause)));
        assert_eq!(broken.message, "the server holds its limit of 3 connections");
    }

    #[test]
    fn only_transient_errors_are_retried() {
        let busy = |delay| {
            let mut details = ErrorDetails::new();
            details.set_retry_info(delay);
            Status::with_error_details(Code::ResourceExhausted, "", details)
        };
        let mut failed = ErrorDetails::new();
        failed.set_error_info("FLEET_FAILED", "shoal", []);
        let failed = Status::with_error_details(Code::Unavailable, "", failed);
        for (status, is_transient) in [
            (Status::unavailable(""), true),
            (Status::unknown(""), true),
            (Status::cancelled(""), true),
            (busy(Some(Duration::from_millis(250))), true),
            (Status::resource_exhausted(""), false),
            (failed, false),
            (Status::not_found(""), false),
            (Status::aborted(""), false),
            (Status::invalid_argument(""), false),
        ] {
            assert_eq!(Error::from(status.clone()).is_transient(), is_transient, "{status:?}");
        }
    }
}
