//! Formats and parses Unix times in milliseconds as RFC 3339. Ages are formatted in their two
//! largest units. When parsing, a time without an offset is UTC, and the word `now` means the
//! current time.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use jiff::civil::Time;
use jiff::fmt::temporal::Pieces;
use jiff::tz::Offset;

/// Formats a time as RFC 3339 in UTC, or as its number of milliseconds if it is outside the years
/// 1970 to 9999.
#[must_use]
pub fn rfc3339(time_ms: i64) -> String {
    const END_OF_9999_MS: u64 = 253_402_300_800_000;
    match u64::try_from(time_ms) {
        Ok(millis) if millis < END_OF_9999_MS => {
            let time = UNIX_EPOCH + Duration::from_millis(millis);
            humantime::format_rfc3339_millis(time).to_string()
        }
        _ => format!("{time_ms} ms"),
    }
}

/// Formats an age in its two largest units, as in `2h 5m`; below a minute in seconds with
/// milliseconds.
#[must_use]
pub fn age(age_ms: i64) -> String {
    let sign = if age_ms < 0 { "-" } else { "" };
    let millis = age_ms.unsigned_abs();
    let seconds = millis / 1_000;
    let text = match seconds {
        0..60 if millis.is_multiple_of(1_000) => format!("{seconds}s"),
        0..60 => format!("{seconds}.{:03}s", millis % 1_000),
        60..3_600 => format!("{}m {}s", seconds / 60, seconds % 60),
        3_600..86_400 => format!("{}h {}m", seconds / 3_600, seconds / 60 % 60),
        _ => format!("{}d {}h", seconds / 86_400, seconds / 3_600 % 24),
    };
    format!("{sign}{text}")
}

/// Parses a time given as Unix milliseconds, as RFC 3339 with any offset, or as `now`. Without an
/// offset it is UTC, and without a time of day midnight.
///
/// # Errors
/// A message with the accepted forms, if `text` has none of them.
pub fn parse(text: &str) -> Result<i64, String> {
    if let Ok(time_ms) = text.parse::<i64>() {
        return Ok(time_ms);
    }
    if text == "now" {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        return i64::try_from(since.as_millis()).map_err(|_| "it lies too far ahead".to_owned());
    }
    let forms = "write Unix milliseconds, 2026-01-31T12:00:00Z, 2026-01-31T13:00:00+01:00 or now";
    let pieces = Pieces::parse(text).map_err(|error| format!("{error}; {forms}"))?;
    let offset = match (pieces.to_numeric_offset(), pieces.time_zone_annotation()) {
        (Some(offset), _) => offset,
        (None, None) => Offset::UTC,
        (None, Some(_)) => return Err(format!("it has a zone without an offset; {forms}")),
    };
    let moment = pieces.date().to_datetime(pieces.time().unwrap_or(Time::midnight()));
    let time_ms = offset.to_timestamp(moment).map_err(|error| error.to_string())?.as_millisecond();
    if time_ms < 0 {
        return Err("it lies before 1970".to_owned());
    }
    Ok(time_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_utc_and_read_back() {
        assert_eq!(rfc3339(1_480_140_066_000), "2016-11-26T06:01:06.000Z");
        assert_eq!(parse("2016-11-26T06:01:06.000Z"), Ok(1_480_140_066_000));
        assert_eq!(parse("1480140066000"), Ok(1_480_140_066_000));
        assert_eq!(rfc3339(-1), "-1 ms");
        assert_eq!(rfc3339(i64::MAX), format!("{} ms", i64::MAX));
        assert!(parse("yesterday").unwrap_err().contains("now"));
        for (text, hour) in [
            ("2026-11-25T07:00:00z", 7),
            ("2026-11-25 07:00", 7),
            ("2026-11-25T08:00:00+01:00", 7),
            ("2026-11-25T02:00:00-0500", 7),
            ("2026-11-25", 0),
        ] {
            assert_eq!(parse(text), Ok(1_795_564_800_000 + hour * 3_600_000), "{text}");
        }
        assert!(parse("2026-11-25T07:00[Europe/Paris]").unwrap_err().contains("offset"));
        assert!(parse("1969-12-31T23:00:00Z").unwrap_err().contains("1970"));
        assert!(parse("now").unwrap() > 1_480_140_066_000);
    }

    #[test]
    fn ages_show_two_units() {
        for (age_ms, text) in [
            (0, "0s"),
            (1_500, "1.500s"),
            (59_000, "59s"),
            (61_000, "1m 1s"),
            (7_500_000, "2h 5m"),
            (90_000_000, "1d 1h"),
            (-2_000, "-2s"),
        ] {
            assert_eq!(age(age_ms), text);
        }
    }
}
