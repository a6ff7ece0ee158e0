//! `google.protobuf.Duration` of a request as whole milliseconds, the unit of the engine.

use prost_types::Duration;
use shoal_client::duration::to_millis;

use crate::error::ServiceError;

/// The milliseconds of a field; `None` if it is absent.
///
/// # Errors
/// [`ServiceError::Field`] for a duration that [`to_millis`] refuses.
pub(crate) fn millis(field: &str, sent: Option<&Duration>) -> Result<Option<i64>, ServiceError> {
    let convert = |duration| {
        to_millis(duration).map_err(|error| ServiceError::field(field, error.to_string()))
    };
    sent.map(convert).transpose()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The longest duration of the type by its definition: 10,000 years.
    const SECONDS_MAX: i64 = 315_576_000_000;

    #[test]
    fn only_whole_milliseconds_are_accepted() {
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
            let sent = std::time::Duration::from_millis(number).try_into().unwrap();
            assert_eq!(millis("ttl", Some(&sent)).unwrap(), Some(number as i64));
        }
    }
}
