//! Converts `google.protobuf.Duration` to whole milliseconds and back.

use prost_types::Duration;

const NANOS_PER_MS: i32 = 1_000_000;
/// The longest duration of the protobuf type: 10,000 years.
const SECONDS_MAX: i64 = 315_576_000_000;

/// A duration that Shoal does not accept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{seconds} s and {nanos} ns {problem}")]
pub struct DurationError {
    seconds: i64,
    nanos: i32,
    problem: &'static str,
}

/// The whole milliseconds of `duration`.
///
/// # Errors
/// The duration is negative, exceeds the range of its type, or has a fraction of a millisecond.
pub fn to_millis(duration: &Duration) -> Result<i64, DurationError> {
    let Duration { seconds, nanos } = *duration;
    let problem = if seconds < 0 || nanos < 0 {
        "is negative"
    } else if seconds > SECONDS_MAX || nanos >= 1_000 * NANOS_PER_MS {
        "is not a valid google.protobuf.Duration"
    } else if nanos % NANOS_PER_MS != 0 {
        "is not a whole number of milliseconds"
    } else {
        return Ok(seconds * 1_000 + i64::from(nanos / NANOS_PER_MS));
    };
    Err(DurationError { seconds, nanos, problem })
}

/// A duration of `millis`; at most the longest of its type.
#[must_use]
pub fn from_millis(millis: u64) -> Duration {
    let seconds = i64::try_from(millis / 1_000).unwrap_or(SECONDS_MAX).min(SECONDS_MAX);
    Duration { seconds, nanos: (millis % 1_000) as i32 * NANOS_PER_MS }
}

/// The whole milliseconds of a time span as a duration; the fraction is cut off.
#[must_use]
pub fn from_std(span: std::time::Duration) -> Duration {
    from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_milliseconds_survive_and_anything_else_is_an_error() {
        for millis in [0, 1, 999, 1_000, 86_400_001] {
            assert_eq!(to_millis(&from_millis(millis)), Ok(millis as i64));
        }
        assert_eq!(from_std(std::time::Duration::from_micros(1_999)), from_millis(1));
        for (seconds, nanos) in [(0, 1), (0, -1), (-1, 0), (0, 1_000_000_000), (SECONDS_MAX + 1, 0)]
        {
            to_millis(&Duration { seconds, nanos }).unwrap_err();
        }
    }
}
