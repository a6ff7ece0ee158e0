//! How does a `google.protobuf.Duration` become whole milliseconds?
//!
//! The engine counts time in milliseconds. A duration that is negative, or that has a fraction of a
//! millisecond, is an error rather than silently another duration.

use prost_types::Duration;

use crate::error::ServiceError;

const NANOS_PER_MS: i32 = 1_000_000;
/// Longest duration of the type, by its definition: 10,000 years.
const SECONDS_MAX: i64 = 315_576_000_000;

/// Whole milliseconds of a field; `None` if it is absent.
///
/// # Errors
/// [`ServiceError::Field`].
pub(super) fn millis(field: &str, sent: Option<&Duration>) -> Result<Option<i64>, ServiceError> {
    let Some(&Duration { seconds, nanos }) = sent else {
        return Ok(None);
    };
    let problem = if seconds < 0 || nanos < 0 {
        "is negative"
    } else if seconds > SECONDS_MAX || nanos >= 1_000 * NANOS_PER_MS {
        "is not a valid google.protobuf.Duration"
    } else if nanos % NANOS_PER_MS != 0 {
        "is not a whole number of milliseconds"
    } else {
        return Ok(Some(seconds * 1_000 + i64::from(nanos / NANOS_PER_MS)));
    };
    Err(ServiceError::field(field, format!("{seconds} s and {nanos} ns {problem}")))
}

/// A duration of so many milliseconds.
pub(super) fn duration(millis: u64) -> Duration {
    let seconds = i64::try_from(millis / 1_000).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
    Duration { seconds, nanos: (millis % 1_000) as i32 * NANOS_PER_MS }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_are_accepted_and_nothing_else() {
        let of = |seconds, nanos| millis("ttl", Some(&Duration { seconds, nanos }));
        assert_eq!(millis("ttl", None).unwrap(), None);
        assert_eq!(of(0, 0).unwrap(), Some(0));
        assert_eq!(of(3, 7_000_000).unwrap(), Some(3_007));
        assert_eq!(of(SECONDS_MAX, 0).unwrap(), Some(SECONDS_MAX * 1_000));
        let invalid = [(0, 1), (0, -1), (-1, 0), (0, 1_000_000_000), (SECONDS_MAX + 1, 0)];
        for (seconds, nanos) in invalid {
            let error = of(seconds, nanos).unwrap_err();
            assert!(error.to_string().starts_with("ttl: "), "{error}");
        }
        for number in [0, 1, 999, 1_000, 86_400_001] {
            assert_eq!(millis("ttl", Some(&duration(number))).unwrap(), Some(number as i64));
        }
    }
}
