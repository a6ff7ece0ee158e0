//! The deadline of a call.
//!
//! It is read from the `grpc-timeout` header (github.com/grpc/grpc, PROTOCOL-HTTP2.md). At the
//! deadline the transport cancels a call with CANCELLED and no details. The server's deadline is a
//! little earlier, so that clients receive DEADLINE_EXCEEDED with details.

use std::future::Future;
use std::time::Duration;

use http::HeaderMap;
use tokio::time::{Instant, timeout_at};
use tonic::metadata::MetadataMap;

use crate::error::ServiceError;

/// Most time by which the server's deadline precedes the client's.
const MARGIN: Duration = Duration::from_millis(20);

/// See the module documentation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Deadline(Option<Instant>);

impl Deadline {
    /// The deadline of a call received now.
    pub(super) fn of(metadata: &MetadataMap) -> Self {
        Self::of_headers(metadata.as_ref())
    }

    /// As [`Deadline::of`], from HTTP headers.
    pub(super) fn of_headers(headers: &HeaderMap) -> Self {
        let header = headers.get("grpc-timeout").and_then(|value| value.to_str().ok());
        let timeout = header.and_then(timeout);
        // A deadline beyond the range of the clock is ignored.
        let instant = timeout
            .and_then(|timeout| Instant::now().checked_add(timeout - MARGIN.min(timeout / 10)));
        Self(instant)
    }

    /// The instant, if there is one.
    pub(super) fn instant(self) -> Option<Instant> {
        self.0
    }

    /// Runs a future; fails with [`ServiceError::Deadline`] if the deadline passes first.
    pub(super) async fn bound<T>(
        self,
        future: impl Future<Output = Result<T, ServiceError>>,
    ) -> Result<T, ServiceError> {
        match self.0 {
            None => future.await,
            Some(instant) => match timeout_at(instant, future).await {
                Ok(result) => result,
                Err(_) => Err(ServiceError::Deadline),
            },
        }
    }

    /// Completes at the deadline; never completes if there is none.
    pub(super) async fn passed(self) {
        match self.0 {
            None => std::future::pending().await,
            Some(instant) => tokio::time::sleep_until(instant).await,
        }
    }
}

/// Parses a timeout of at most 8 digits and a unit.
fn timeout(text: &str) -> Option<Duration> {
    let (digits, unit) = text.split_at_checked(text.len().checked_sub(1)?)?;
    if !(1..=8).contains(&digits.len()) || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    let number: u64 = digits.parse().ok()?;
    Some(match unit {
        "H" => Duration::from_secs(number * 3600),
        "M" => Duration::from_secs(number * 60),
        "S" => Duration::from_secs(number),
        "m" => Duration::from_millis(number),
        "u" => Duration::from_micros(number),
        "n" => Duration::from_nanos(number),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timeouts_follow_the_protocol() {
        assert_eq!(timeout("99999999H"), Some(Duration::from_secs(99_999_999 * 3600)));
        assert_eq!(timeout("250m"), Some(Duration::from_millis(250)));
        assert_eq!(timeout("0n"), Some(Duration::ZERO));
        for bad in ["", "m", "123456789m", "-1S", "1 S", "1x", "1é", "é"] {
            assert_eq!(timeout(bad), None, "{bad:?}");
        }
    }
}
