//! What did the server mean by an error, in words for people?
//!
//! Decodes google.rpc ErrorInfo, BadRequest and RetryInfo beside the status. A server that sends
//! none of them is still quoted. Decides exit codes and next steps; prints nothing.

use std::fmt::Write as _;

use tonic::{Code, Status};
use tonic_types::StatusExt as _;

use crate::cli::error::Exit;

/// One sentence: what was refused and why, with each wrong field.
pub(crate) fn sentence(status: &Status) -> String {
    let mut text = match status.message() {
        "" => status.code().description().to_owned(),
        message => message.to_owned(),
    };
    let details = status.get_error_details();
    if let Some(bad) = details.bad_request() {
        for violation in &bad.field_violations {
            if !text.contains(&violation.description) {
                let _ = write!(text, "; {}: {}", violation.field, violation.description);
            }
        }
    }
    if let Some(info) = details.error_info().filter(|info| !info.reason.is_empty()) {
        let _ = write!(text, " [{}]", info.reason);
    }
    text
}

/// The exit code for a refusal.
pub(crate) fn exit(status: &Status) -> Exit {
    match status.code() {
        Code::InvalidArgument | Code::OutOfRange => Exit::Usage,
        Code::NotFound => Exit::NotFound,
        _ => Exit::Failed,
    }
}

/// What to do next.
pub(crate) fn hint(status: &Status) -> Option<String> {
    let details = status.get_error_details();
    if let Some(delay) = details.retry_info().and_then(|retry| retry.retry_delay) {
        return Some(format!("the server asks to try again in {} ms", delay.as_millis()));
    }
    let hint = match status.code() {
        Code::NotFound => "`shoal fleets list` shows the fleets there are",
        Code::AlreadyExists => "choose another name, or `shoal fleets drop NAME` first",
        Code::ResourceExhausted => "the server is busy or a limit is reached: try again later",
        Code::Unavailable => "the server is going away or cannot be reached: try again",
        Code::DeadlineExceeded => "wait longer with --timeout, or ask for less",
        Code::Unimplemented => "is this a Shoal server of the same version?",
        _ => return None,
    };
    Some(hint.to_owned())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tonic_types::ErrorDetails;

    use super::*;

    #[test]
    fn fields_reasons_and_delays_are_told() {
        let mut details = ErrorDetails::new();
        details.add_bad_request_violation("region.circle.radius_m", "-1 is below 0");
        details.set_error_info("REGION_INVALID", "shoal", []);
        let status = Status::with_error_details(Code::InvalidArgument, "bad region", details);
        let text = sentence(&status);
        assert_eq!(text, "bad region; region.circle.radius_m: -1 is below 0 [REGION_INVALID]");
        assert_eq!(exit(&status), Exit::Usage);

        let mut details = ErrorDetails::new();
        details.set_retry_info(Some(Duration::from_millis(250)));
        let busy = Status::with_error_details(Code::ResourceExhausted, "queue full", details);
        assert_eq!(exit(&busy), Exit::Failed);
        assert!(hint(&busy).unwrap().contains("250 ms"));
        assert_eq!(exit(&Status::not_found("no fleet")), Exit::NotFound);
        assert!(!sentence(&Status::unknown("")).is_empty());
    }
}
