//! Parses coordinates, intervals, amounts and time spans of the command line.
//!
//! A parser rejects numbers that are not finite, and its error states the expected form. The server
//! checks whether a position lies in the space of a fleet.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use shoal_client::v1;
use shoal_service::timestamp;
use shoal_table::TimeDefault;

/// Comma-separated finite numbers, exactly `N` of them.
fn numbers<const N: usize>(text: &str, form: &str) -> Result<[f64; N], String> {
    let mut values = [0.0; N];
    let mut parts = text.split(',');
    for value in &mut values {
        let part = parts.next().ok_or_else(|| format!("it must be {form}"))?;
        *value = number(part).map_err(|reason| format!("{reason}; it must be {form}"))?;
    }
    if parts.next().is_some() {
        return Err(format!("more than {N} numbers; it must be {form}"));
    }
    Ok(values)
}

/// One finite number.
fn number(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        Ok(_) => Err(format!("`{text}` is not finite")),
        Err(_) => Err(format!("`{text}` is not a number")),
    }
}

/// `WEST,SOUTH,EAST,NORTH`; `WEST` above `EAST` crosses the antimeridian.
///
/// # Errors
/// The expected form, if `text` does not have it.
pub fn rectangle(text: &str) -> Result<v1::Rectangle, String> {
    let [west, south, east, north] = numbers(text, "WEST,SOUTH,EAST,NORTH")?;
    Ok(v1::Rectangle { west, south, east, north })
}

/// `X,Y,RADIUS_M`, the radius in metres.
///
/// # Errors
/// A message that names the required form, or that the radius must be 0 or more.
pub fn circle(text: &str) -> Result<v1::Circle, String> {
    let [x, y, radius_m] = numbers(text, "X,Y,RADIUS_IN_METRES")?;
    if radius_m < 0.0 {
        return Err(format!("the radius is {radius_m} m; it must be 0 or more"));
    }
    Ok(v1::Circle { x, y, radius_m })
}

/// `X,Y`: longitude and latitude in degrees, or metres.
///
/// # Errors
/// A message that names the required form, if `text` has a different form.
pub fn point(text: &str) -> Result<(f64, f64), String> {
    numbers(text, "X,Y (longitude first)").map(|[x, y]| (x, y))
}

/// An interval `A..B` that includes both ends. For headings `B` may be below `A`: then the interval
/// passes through north.
///
/// # Errors
/// A message that names the required form, if `text` has a different form.
pub fn interval(text: &str) -> Result<v1::Interval, String> {
    let (min, max) = text.split_once("..").ok_or("it must be FROM..TO, as in 0..13.9")?;
    Ok(v1::Interval { min: number(min)?, max: number(max)? })
}

/// An object id: `0` to `2^64 - 1`.
///
/// # Errors
/// A message that names the allowed range, if `text` is not such a number.
pub fn object(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("an object id is a whole number, 0 to {}", u64::MAX))
}

/// From 1970 to the end of the year 9999, the last that RFC 3339 and TOML can represent.
const YEAR_10000: Duration = Duration::from_secs(253_402_300_800);

/// The moment `since` after 1970, if it is before the year 10000.
pub fn moment_of(since: Duration) -> Option<SystemTime> {
    (since < YEAR_10000).then(|| UNIX_EPOCH + since)
}

/// A moment, as [`timestamp::parse`] reads it, before the year 10000.
///
/// # Errors
/// As [`timestamp::parse`]; a later moment.
pub fn moment(text: &str) -> Result<SystemTime, String> {
    let since_ms = u64::try_from(timestamp::parse(text)?).map_err(|_| "it lies before 1970")?;
    let moment = moment_of(Duration::from_millis(since_ms));
    moment.ok_or_else(|| "it lies after the year 9999".to_owned())
}

/// The time of rows that state none: a time, or `now`.
///
/// # Errors
/// As [`timestamp::parse`].
pub fn time_default(text: &str) -> Result<TimeDefault, String> {
    match text {
        "now" => Ok(TimeDefault::Now),
        _ => timestamp::parse(text).map(TimeDefault::At),
    }
}

/// Flag bits, decimal or hexadecimal with `0x`.
///
/// # Errors
/// A message that names the allowed range, if `text` is not such a number.
pub fn bits(text: &str) -> Result<u32, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16),
        None => text.parse(),
    };
    parsed.map_err(|_| format!("it must be 0 to {} or 0x0 to 0x{:x}", u32::MAX, u32::MAX))
}

/// A separator of CSV fields: one ASCII character other than a quote, a letter, a digit or a line
/// end, or `tab`.
///
/// # Errors
/// Anything else.
pub fn delimiter(text: &str) -> Result<u8, String> {
    match text.as_bytes() {
        b"tab" | b"\\t" | b"\t" => Ok(b'\t'),
        [byte] if *byte == b' ' => Ok(*byte),
        [byte] if byte.is_ascii_punctuation() && !b"\"-.+_".contains(byte) => Ok(*byte),
        _ => Err(format!("`{text}` is no separator; give one character, as in ; or |, or tab")),
    }
}

/// Units of [`bytes`] and the bytes of each.
const BYTE_UNITS: [(&str, u64); 9] = [
    ("", 1),
    ("kB", 1_000),
    ("MB", 1_000_000),
    ("GB", 1_000_000_000),
    ("TB", 1_000_000_000_000),
    ("KiB", 1 << 10),
    ("MiB", 1 << 20),
    ("GiB", 1 << 30),
    ("TiB", 1 << 40),
];

/// An amount of memory above zero, with or without a unit: `512MiB`, `40GiB`, `16GB`,
/// `1000000000`.
///
/// # Errors
/// A message that names the required form, if `text` is not such an amount.
pub fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let unit_bytes = BYTE_UNITS.iter().find(|(name, _)| *name == unit.trim_start());
    let parsed = unit_bytes.and_then(|(_, unit_bytes)| {
        let number: u64 = number.parse().ok()?;
        number.checked_mul(*unit_bytes).filter(|bytes| *bytes > 0)
    });
    parsed.ok_or_else(|| {
        format!("`{text}` is not an amount of memory; write it as 512MiB, 40GiB, 16GB or in bytes")
    })
}

/// A span of time with its unit: `250ms`, `90s`, `5m`, `1h 30m`, `2d`; `0` is none.
///
/// # Errors
/// A message that names the required form, if `text` is not such a span.
pub fn span(text: &str) -> Result<Duration, String> {
    humantime::parse_duration(text)
        .map_err(|error| format!("{error}; write it with its unit: 250ms, 90s, 5m, 1h, 2d"))
}

/// A span above zero.
///
/// # Errors
/// As [`span`], and for 0.
pub fn span_above_zero(text: &str) -> Result<Duration, String> {
    match span(text)? {
        Duration::ZERO => Err("it must be above 0".to_owned()),
        span => Ok(span),
    }
}

/// A distance: finite metres of 0 or more.
///
/// # Errors
/// Anything else.
pub fn metres(text: &str) -> Result<f64, String> {
    match text.parse::<f64>() {
        Ok(metres) if metres.is_finite() && metres >= 0.0 => Ok(metres),
        _ => Err(format!("`{text}` is not a distance in metres of 0 or more")),
    }
}

/// Whole milliseconds of a span.
#[must_use]
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn coordinates_are_read_with_signs_and_refused_with_the_form() {
        let rect = rectangle("-97.9,30.1,-97.6,30.5").unwrap();
        assert_eq!(rect, v1::Rectangle { west: -97.9, south: 30.1, east: -97.6, north: 30.5 });
        let parsed = circle("-97.7, 30.2,1e3").unwrap();
        assert_eq!(parsed, v1::Circle { x: -97.7, y: 30.2, radius_m: 1000.0 });
        assert_eq!(point("-1,2"), Ok((-1.0, 2.0)));
        for bad in ["1,2", "1,2,3,4", "1,2,x", "1,2,NaN", "1,inf,3", "1,2,-3", ""] {
            let reason = circle(bad).unwrap_err();
            assert!(reason.contains("must be"), "{bad}: {reason}");
        }
    }

    #[test]
    fn memory_is_read_in_binary_and_decimal_units() {
        assert_eq!(bytes("40GiB"), Ok(40 << 30));
        assert_eq!(bytes(" 16 GB "), Ok(16_000_000_000));
        assert_eq!(bytes("7"), Ok(7));
        assert_eq!(bytes("16777215TiB"), Ok(16_777_215 << 40));
        for bad in ["", "0", "0GiB", "-1GiB", "1.5GiB", "1gib", "GiB", "16777216TiB", "1 2"] {
            let reason = bytes(bad).unwrap_err();
            assert!(reason.contains("512MiB"), "{bad}: {reason}");
        }
    }

    #[test]
    fn intervals_bits_and_spans_have_one_form_each() {
        assert_eq!(interval("-1.5..2"), Ok(v1::Interval { min: -1.5, max: 2.0 }));
        assert!(interval("5").is_err() && interval("5..").is_err());
        assert_eq!((bits("0x1f"), bits("31")), (Ok(31), Ok(31)));
        assert!(bits("-1").is_err());
        assert_eq!(millis(span("1m 30s").unwrap()), 90_000);
        assert_eq!(span("0"), Ok(Duration::ZERO));
        assert!(span("90").unwrap_err().contains("unit"));
        assert!(span_above_zero("0ms").is_err());
        assert!(object("18446744073709551616").is_err());
        assert_eq!(
            (delimiter(";"), delimiter("tab"), delimiter(" ")),
            (Ok(b';'), Ok(b'\t'), Ok(b' '))
        );
        assert!(delimiter("").is_err() && delimiter("-").is_err() && delimiter("\u{e9}").is_err());
    }
}
