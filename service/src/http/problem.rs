//! Errors as `application/problem+json` (RFC 9457), with the reasons of `error.proto`.
//!
//! One table gives the HTTP status of each gRPC code, and the exceptions by reason. What HTTP adds
//! (paths, methods, media types, origins) has reasons of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use axum::body::Body;
use axum::response::{IntoResponse, Response};
use http::{HeaderValue, StatusCode, header};
use schemars::JsonSchema;
use serde::Serialize;
use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::error::bounded;

/// Media type of an error.
pub(super) const PROBLEM_TYPE: &str = "application/problem+json";

/// What went wrong.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[serde(transparent)]
#[schemars(inline)]
pub(super) struct Problem(Box<Details>);

/// An error (RFC 9457).
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "Problem")]
struct Details {
    /// `urn:shoal:error:` and the reason.
    r#type: String,
    /// The name of the HTTP status.
    title: &'static str,
    /// The HTTP status.
    status: u16,
    /// What went wrong in this case.
    detail: String,
    /// The path of the request.
    #[serde(skip_serializing_if = "Option::is_none")]
    instance: Option<String>,
    /// The stable reason: one of error.proto without its prefix, or one of HTTP.
    reason: String,
    /// The path of the first wrong field or parameter.
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<String>,
    /// The wrong line of the body, counted from 1.
    #[serde(skip_serializing_if = "Option::is_none")]
    line: Option<u64>,
    /// What the reason lists.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    /// How long to wait before the same request can succeed, milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    /// What a report had applied before it failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    report: Option<serde_json::Value>,
}

impl Problem {
    /// A problem with a reason.
    pub(super) fn new(
        status: StatusCode,
        reason: impl Into<String>,
        detail: impl Into<String>,
    ) -> Self {
        let reason = reason.into();
        Self(Box::new(Details {
            r#type: format!("urn:shoal:error:{reason}"),
            title: status.canonical_reason().unwrap_or("Error"),
            status: status.as_u16(),
            detail: detail.into(),
            instance: None,
            reason,
            field: None,
            line: None,
            metadata: BTreeMap::new(),
            retry_after_ms: None,
            report: None,
        }))
    }

    /// A wrong field or parameter.
    pub(super) fn field(path: &str, why: impl std::fmt::Display) -> Self {
        let path = &bounded(path);
        let mut problem = Self::new(StatusCode::BAD_REQUEST, "FIELD", format!("{path}: {why}"));
        problem.0.field = Some(path.to_owned());
        problem
    }

    /// The field that it names.
    #[cfg(test)]
    pub(super) fn named(&self) -> Option<&str> {
        self.0.field.as_deref()
    }

    /// Replaces the name of its field, also in the detail.
    pub(super) fn renamed(mut self, name: impl Fn(&str) -> String) -> Self {
        if let Some(field) = self.0.field.take() {
            let name = name(&field);
            if let Some(rest) = self.0.detail.strip_prefix(&format!("{field}: ")) {
                self.0.detail = format!("{name}: {rest}");
            }
            self.0.field = Some(name);
        }
        self
    }

    /// Puts the path of a part of a document before its field.
    pub(super) fn under(self, path: &str) -> Self {
        self.renamed(|field| format!("{path}{field}"))
    }

    /// States the line of the body.
    pub(super) fn on_line(mut self, line: u64) -> Self {
        let detail = self.0.detail.replace(" at line 1 column ", " at column ");
        self.0.detail = format!("line {line}: {detail}");
        self.0.line = Some(line);
        self
    }

    /// States the field.
    pub(super) fn of_field(mut self, field: &str) -> Self {
        self.0.field = Some(field.to_owned());
        self
    }

    /// The line that it states.
    #[cfg(test)]
    pub(super) fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The stable reason.
    pub(super) fn reason(&self) -> &str {
        &self.0.reason
    }

    /// Adds the outcome of the part of a report that was applied.
    pub(super) fn with_report(mut self, report: &impl Serialize) -> Self {
        self.0.report = serde_json::to_value(report).ok();
        self
    }

    /// Sets the delay, in milliseconds, after which the same request can succeed.
    pub(super) fn after(mut self, retry_ms: u64) -> Self {
        self.0.retry_after_ms = Some(retry_ms);
        self
    }

    /// Writes the problem of a response, if it is one, with the path of its request.
    pub(super) fn write(response: &mut Response, path: &str) {
        if let Some(mut problem) = response.extensions_mut().remove::<Self>() {
            problem.0.instance = Some(bounded(path));
            // A structure of texts and numbers is always JSON.
            *response.body_mut() = serde_json::to_vec(&problem).unwrap_or_default().into();
        }
    }

    fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.0.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let details = status.get_error_details();
        let info = details.error_info();
        let reason = info.map_or("TRANSPORT", |info| &info.reason);
        let mut problem = Self::new(http_status(status.code(), reason), reason, status.message());
        if let Some(info) = info {
            problem.0.metadata = info.metadata.clone().into_iter().collect();
        }
        let violations = details.bad_request().map(|wrong| &wrong.field_violations);
        problem.0.field = violations.and_then(|all| Some(all.first()?.field.clone()));
        let delay = details.retry_info().and_then(|retry| retry.retry_delay);
        problem.0.retry_after_ms = delay.map(|delay| delay.as_millis() as u64);
        problem
    }
}

/// The HTTP status of a gRPC code and an error reason.
fn http_status(code: Code, reason: &str) -> StatusCode {
    match reason {
        "FLEET_DELETED" => return StatusCode::GONE,
        "MESSAGE_STALLED" | "NOT_READ" => return StatusCode::REQUEST_TIMEOUT,
        "METHOD_UNKNOWN" => return StatusCode::NOT_FOUND,
        "LIMIT" => return StatusCode::UNPROCESSABLE_ENTITY,
        "ENGINE_MEMORY" | "LOG_SPACE" => return StatusCode::INSUFFICIENT_STORAGE,
        _ => {}
    }
    match code {
        Code::InvalidArgument => StatusCode::BAD_REQUEST,
        Code::Unauthenticated => StatusCode::UNAUTHORIZED,
        Code::PermissionDenied => StatusCode::FORBIDDEN,
        Code::NotFound => StatusCode::NOT_FOUND,
        Code::AlreadyExists | Code::Aborted | Code::FailedPrecondition => StatusCode::CONFLICT,
        Code::OutOfRange => StatusCode::PAYLOAD_TOO_LARGE,
        Code::ResourceExhausted => StatusCode::TOO_MANY_REQUESTS,
        Code::Unimplemented => StatusCode::NOT_IMPLEMENTED,
        Code::Unavailable => StatusCode::SERVICE_UNAVAILABLE,
        Code::DeadlineExceeded | Code::Cancelled => StatusCode::GATEWAY_TIMEOUT,
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => {
            StatusCode::INTERNAL_SERVER_ERROR
        }
    }
}

/// The body is written by [`Problem::write`].
impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        let mut response = Response::new(Body::empty());
        *response.status_mut() = self.code();
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(PROBLEM_TYPE));
        if let Some(millis) = self.0.retry_after_ms {
            // Whole seconds, so at least one.
            let seconds = Duration::from_millis(millis).as_secs_f64().ceil().max(1.0);
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds as u64));
        }
        if self.0.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response.extensions_mut().insert(self);
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::ServiceError;

    #[test]
    fn a_status_keeps_reason_field_metadata_and_delay() {
        let busy = ServiceError::Busy { what: "the queue of rows", limit: 7, retry_ms: 1_250 };
        let problem = Problem::from(Status::from(busy));
        assert_eq!((problem.0.status, problem.0.reason.as_str()), (429, "BUSY"));
        assert_eq!(problem.0.metadata["limit"], "7");
        assert_eq!(problem.into_response().headers()[header::RETRY_AFTER], "2");
        let wrong = ServiceError::field("region.circle.radius_m", "is -1");
        let problem = Problem::from(Status::from(wrong));
        assert_eq!(problem.0.field.as_deref(), Some("region.circle.radius_m"));
        assert_eq!(problem.0.r#type, "urn:shoal:error:FIELD");
        let response = problem.into_response();
        assert_eq!(response.status(), StatusCode::BAD_REQUEST);
        assert_eq!(response.headers()[header::CONTENT_TYPE], PROBLEM_TYPE);
    }
}
