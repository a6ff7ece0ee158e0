//! Writes rows as text: the JSON of [`RowJson`](super::RowJson) and
//! [`FeatureJson`](super::FeatureJson), without their structures.
//!
//! The positions and measures of an answer are numbers of few decimal digits, because they are
//! whole multiples of a quantum. Such a number is written from an integer; any other one as
//! `serde_json` writes it.
//!
//! A row is written into a buffer that has room for any row, and copied from there. Functions that
//! write take the place where their text begins and return the place after it, so that it stays in
//! a register.

use std::ops::Range;

use shoal_client::v1;

use crate::timestamp::rfc3339;

/// Bytes of a row without its label, at most.
const ROW_BYTES: usize = 1 << 10;
/// Bytes of each byte of a name in JSON, at most; a feature has its name twice.
const NAME_BYTES: usize = 2 * 6;
/// Bytes that most labels and numbers have at most.
const SHORT_BYTES: usize = 16;

/// A whole number of this many parts is 1. Its digits without the first are those after the point.
const PARTS: u64 = 10_000_000;
/// Magnitudes below are written from integers: their parts are exact in 53 bits.
const MAGNITUDE: f64 = 9e8;

/// Digits that are made at once.
const DIGITS: usize = 8;
/// Numbers below have so many digits.
const LARGE: u64 = 100_000_000;
/// Eight times the digit 0.
const ZEROS: u64 = u64::from_le_bytes([b'0'; DIGITS]);

const DAY_MS: i64 = 86_400_000;
/// Bytes of the date of a time in RFC 3339, with its `T`.
const DATE_BYTES: usize = 11;

/// One object of an answer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RowRef<'a> {
    /// The object.
    pub object: u64,
    /// Its name, in a named fleet that still knows it.
    pub name: Option<&'a str>,
    /// Its record, if the answer has records.
    pub fix: Option<&'a v1::FixRecord>,
    /// Its distance in metres, in a search for neighbours.
    pub distance_m: Option<f64>,
}

/// See the file's head.
#[derive(Debug)]
pub struct RowText {
    date: Date,
    text: Vec<u8>,
}

/// A day since 1970, and its date: most rows of an answer have the same.
#[derive(Debug)]
struct Date {
    day: i64,
    text: [u8; DATE_BYTES],
}

impl Default for RowText {
    fn default() -> Self {
        let date = Date { day: 0, text: *b"1970-01-01T" };
        Self { date, text: vec![0; ROW_BYTES] }
    }
}

/// Where a position is that is written twice.
struct Written {
    x: Range<usize>,
    y: Range<usize>,
}

impl RowText {
    /// Adds a row as an object; its age is the answer's clock minus its time.
    pub fn row(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        let (text, date) = self.room(row);
        let at = put(text, 0, b"{\"object\":");
        let at = label(text, at, row);
        let at = members(text, at, date, row, None, clock_ms);
        out.extend_from_slice(&text[..at]);
    }

    /// Adds a row as a GeoJSON Feature (RFC 7946).
    pub fn feature(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        let (text, date) = self.room(row);
        let id_at = put(text, 0, b"{\"type\":\"Feature\",\"id\":");
        let mut at = label(text, id_at, row);
        let id = id_at..at;
        let written = row.fix.map(|fix| {
            at = put(text, at, b",\"geometry\":{\"type\":\"Point\",\"coordinates\":[");
            let x_at = at;
            at = number(text, at, fix.x);
            let x = x_at..at;
            at = put(text, at, b",");
            let y_at = at;
            at = number(text, at, fix.y);
            let y = y_at..at;
            at = put(text, at, b"]}");
            Written { x, y }
        });
        if written.is_none() {
            at = put(text, at, b",\"geometry\":null");
        }
        at = put(text, at, b",\"properties\":{\"object\":");
        at = again(text, at, &id);
        at = members(text, at, date, row, written.as_ref(), clock_ms);
        at = put(text, at, b"}");
        out.extend_from_slice(&text[..at]);
    }

    /// A buffer with room for a row.
    fn room(&mut self, row: RowRef<'_>) -> (&mut [u8], &mut Date) {
        let bytes = ROW_BYTES + row.name.map_or(0, str::len) * NAME_BYTES;
        if self.text.len() < bytes {
            self.text.resize(bytes, 0);
        }
        (&mut self.text, &mut self.date)
    }
}

/// Writes the members after the object, and the end.
fn members(
    text: &mut [u8],
    mut at: usize,
    date: &mut Date,
    row: RowRef<'_>,
    written: Option<&Written>,
    clock_ms: i64,
) -> usize {
    if row.name.is_some() {
        at = put(text, at, b",\"number\":\"");
        at = integer(text, at, row.object);
        at = put(text, at, b"\"");
    }
    if let Some(distance_m) = row.distance_m {
        at = put(text, at, b",\"distance_m\":");
        at = number(text, at, distance_m);
    }
    if let Some(fix) = row.fix {
        at = record(text, at, date, fix, written, clock_ms);
    }
    put(text, at, b"}")
}

fn record(
    text: &mut [u8],
    mut at: usize,
    date: &mut Date,
    fix: &v1::FixRecord,
    written: Option<&Written>,
    clock_ms: i64,
) -> usize {
    at = put(text, at, b",\"time_ms\":");
    at = signed(text, at, fix.time_ms);
    at = put(text, at, b",\"time\":\"");
    at = date.time(text, at, fix.time_ms);
    at = put(text, at, b"\",\"age_ms\":");
    at = signed(text, at, clock_ms.saturating_sub(fix.time_ms));
    at = put(text, at, b",\"x\":");
    at = match written {
        Some(written) => again(text, at, &written.x),
        None => number(text, at, fix.x),
    };
    at = put(text, at, b",\"y\":");
    at = match written {
        Some(written) => again(text, at, &written.y),
        None => number(text, at, fix.y),
    };
    at = measures(text, at, fix);
    at = put(text, at, b",\"state\":");
    integer(text, at, fix.state.into())
}

impl Date {
    /// Writes a time as [`rfc3339`] formats it.
    fn time(&mut self, text: &mut [u8], at: usize, time_ms: i64) -> usize {
        let (day, of_day) = (time_ms.div_euclid(DAY_MS), time_ms.rem_euclid(DAY_MS));
        if day != self.day {
            let time = rfc3339(time_ms);
            match time.as_bytes().first_chunk() {
                // Another form is of a time outside these years.
                Some(date) if date[DATE_BYTES - 1] == b'T' => {
                    (self.day, self.text) = (day, *date);
                }
                _ => return copy(text, at, time.as_bytes()),
            }
        }
        let at = put(text, at, &self.text);
        let of_day = of_day as u32;
        let (seconds, millis) = (of_day / 1_000, of_day % 1_000);
        let two = |value: u32| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        let ([h, i], [m, n], [s, t]) =
            (two(seconds / 3_600), two(seconds / 60 % 60), two(seconds % 60));
        let [u, v] = two(millis % 100);
        let w = b'0' + (millis / 100) as u8;
        put(text, at, &[h, i, b':', m, n, b':', s, t, b'.', w, u, v, b'Z'])
    }
}

macro_rules! render {
    ($($column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;)+) => {
        /// Writes the measures.
        fn measures(text: &mut [u8], mut at: usize, fix: &v1::FixRecord) -> usize {
            $(
                const $column: &[u8] = concat!(",\"", stringify!($api), "\":").as_bytes();
                at = copy(text, at, $column);
                at = match fix.$api {
                    Some(measure) => number(text, at, measure),
                    None => put(text, at, b"null"),
                };
            )+
            at
        }
    };
}

shoal_codec::measures!(render);

/// Writes the name of an object, or its number, as a string.
fn label(text: &mut [u8], at: usize, row: RowRef<'_>) -> usize {
    match row.name {
        None => {
            let at = put(text, at, b"\"");
            let at = integer(text, at, row.object);
            put(text, at, b"\"")
        }
        Some(name) => json(text, at, name),
    }
}

/// Writes a number.
fn number(text: &mut [u8], mut at: usize, value: f64) -> usize {
    let parts = (value * PARTS as f64 + 0.5_f64.copysign(value)) as i64;
    // The quotient of two exact numbers is the number nearest to the decimal that they make, so
    // that reading the text gives `value`. The sign of zero is not in an integer.
    let is_decimal = value.abs() < MAGNITUDE && parts as f64 / PARTS as f64 == value;
    if !is_decimal || (value == 0.0 && value.is_sign_negative()) {
        return json(text, at, &value);
    }
    if value < 0.0 {
        at = put(text, at, b"-");
    }
    let (whole, rest) = (parts.unsigned_abs() / PARTS, parts.unsigned_abs() % PARTS);
    at = integer(text, at, whole);
    let digits = digits(rest);
    let mut fraction = digits.to_le_bytes();
    fraction[0] = b'.';
    at = put(text, at, &fraction);
    // At least one digit stays.
    let zeros = ((digits ^ ZEROS) >> 16).leading_zeros() / 8 - 2;
    at - zeros as usize
}

/// Writes an integer.
fn signed(text: &mut [u8], at: usize, value: i64) -> usize {
    let at = if value < 0 { put(text, at, b"-") } else { at };
    integer(text, at, value.unsigned_abs())
}

/// Writes an integer.
#[inline]
fn integer(text: &mut [u8], at: usize, value: u64) -> usize {
    match SMALL.get(value as usize) {
        Some([digits @ .., length]) => put(text, at, digits) - digits.len() + usize::from(*length),
        None => long_integer(text, at, value),
    }
}

fn long_integer(text: &mut [u8], mut at: usize, value: u64) -> usize {
    let (large, rest) = (value / LARGE, value % LARGE);
    if large > 0 {
        at = integer(text, at, large);
        return put(text, at, &digits(rest).to_le_bytes());
    }
    let digits = digits(rest);
    // The last digit stays, also if it is 0.
    let zeros = ((digits ^ ZEROS) | (1 << 63)).trailing_zeros() / 8;
    at = put(text, at, &(digits >> (8 * zeros)).to_le_bytes());
    at - zeros as usize
}

/// The digits of the numbers below 1,000, and how many they are.
static SMALL: [[u8; 4]; 1_000] = {
    let mut small = [[0; 4]; 1_000];
    let mut value = 0;
    while value < 1_000 {
        let [a, b, c] = [value / 100, value / 10 % 10, value % 10];
        let [a, b, c] = [b'0' + a as u8, b'0' + b as u8, b'0' + c as u8];
        small[value] = match value {
            0..10 => [c, 0, 0, 1],
            10..100 => [b, c, 0, 2],
            _ => [a, b, c, 3],
        };
        value += 1;
    }
    small
};

/// The eight digits of a number below [`LARGE`], the first one in the lowest byte. The digits of
/// halves, quarters and eighths are separated side by side (P. Khuong, "How to print integers
/// really fast", 2017).
fn digits(value: u64) -> u64 {
    let (high, low) = (value / 10_000, value % 10_000);
    let halves = high | (low << 32);
    // Each half divided by 100, each quarter by 10: exact for numbers of so few digits.
    let hundreds = ((halves * 10_486) >> 20) & 0x0000_007f_0000_007f;
    let quarters = hundreds | ((halves - hundreds * 100) << 16);
    let tens = ((quarters * 103) >> 10) & 0x000f_000f_000f_000f;
    let eighths = tens | ((quarters - tens * 10) << 8);
    eighths | ZEROS
}

/// Writes a text again, after which the row has at least [`SHORT_BYTES`] more.
fn again(text: &mut [u8], at: usize, range: &Range<usize>) -> usize {
    if range.len() > SHORT_BYTES {
        text.copy_within(range.clone(), at);
    } else {
        // A copy of a fixed size takes less time.
        text.copy_within(range.start..range.start + SHORT_BYTES, at);
    }
    at + range.len()
}

/// Writes a value as `serde_json` does. A number that is not finite is `null`.
fn json(text: &mut [u8], at: usize, value: &(impl serde::Serialize + ?Sized)) -> usize {
    let room = text.len() - at;
    let mut left = &mut text[at..];
    // Numbers and strings are always JSON, and there is room for them.
    let _ = serde_json::to_writer(&mut left, value);
    at + room - left.len()
}

/// Writes a text of a fixed size.
#[inline]
fn put<const BYTES: usize>(text: &mut [u8], at: usize, bytes: &[u8; BYTES]) -> usize {
    text[at..at + BYTES].copy_from_slice(bytes);
    at + BYTES
}

/// Writes a text.
#[inline]
fn copy(text: &mut [u8], at: usize, bytes: &[u8]) -> usize {
    text[at..at + bytes.len()].copy_from_slice(bytes);
    at + bytes.len()
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use shoal_client::AnswerRow;
    use shoal_testkit::Random;

    use super::*;
    use crate::json::{FeatureJson, RowJson};

    #[test]
    fn integers_have_their_digits() {
        let mut random = Random::new(0xd161);
        let edges = (0..20).map(|digits| 10_u64.pow(digits)).flat_map(|it| [it - 1, it, it + 1]);
        let any = (0..100_000).map(|_| random.below(u64::MAX) >> random.below(64));
        for value in edges.chain([u64::MAX]).chain(any) {
            let mut text = [0; 32];
            let end = integer(&mut text, 0, value);
            assert_eq!(String::from_utf8_lossy(&text[..end]), value.to_string());
        }
        for value in 0..LARGE / 7 {
            let text = digits(7 * value).to_le_bytes();
            assert_eq!(text, *format!("{:08}", 7 * value).as_bytes());
        }
    }

    /// Coordinates and measures as fleets have them, and any others.
    fn value(random: &mut Random) -> f64 {
        match random.below(8) {
            0 => f64::from_bits(random.below(u64::MAX)),
            1 => 0.0,
            2 => -0.0,
            3 => f64::from(random.below(400)) - 200.0,
            4 => (random.below(1_u64 << 40) as f64 - 5e11) / 1e7,
            5 => random.real(-1e10, 1e10),
            6 => f64::from(random.below(400_000)) / 1e3,
            _ => f64::from(random.real(-50.0, 50.0) as f32),
        }
    }

    #[test]
    fn texts_are_those_of_the_structures() {
        let (mut random, mut text) = (Random::new(0x7e47), RowText::default());
        for _ in 0..20_000 {
            let some = |random: &mut Random| (random.below(2) == 0).then(|| value(random));
            let fix = v1::FixRecord {
                time_ms: match random.below(5) {
                    0 => random.below(u64::MAX).cast_signed(),
                    1 => random.below(4_000_000_000_000_u64).cast_signed() - 1_000_000_000_000,
                    2 => i64::MIN,
                    _ => 1_700_000_000_000 + random.below(200_000_000_u64).cast_signed(),
                },
                x: value(&mut random),
                y: value(&mut random),
                speed_mps: some(&mut random),
                heading_deg: some(&mut random),
                altitude_m: some(&mut random),
                valid_s: some(&mut random),
                state: random.below(1_u64 << 32) as u32,
            };
            let name = ["", "truck-42", "a\"b\\c\n", "Käthe \u{1f69a}"][random.below(4) as usize];
            let row = AnswerRow {
                object: random.below(u64::MAX),
                name: (!name.is_empty()).then(|| name.to_owned()),
                fix: (random.below(9) > 0).then_some(fix),
                distance_m: some(&mut random),
            };
            let clock_ms = 1_700_000_100_000;
            let (mut one, mut feature) = (Vec::new(), Vec::new());
            let borrowed = RowRef {
                object: row.object,
                name: row.name.as_deref(),
                fix: row.fix.as_ref(),
                distance_m: row.distance_m,
            };
            text.row(&mut one, borrowed, clock_ms);
            text.feature(&mut feature, borrowed, clock_ms);
            let read = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
            let of = |value: &dyn Fn() -> serde_json::Result<Vec<u8>>| read(&value().unwrap());
            let expected = of(&|| serde_json::to_vec(&RowJson::new(&row, clock_ms)));
            assert_eq!(read(&one), expected, "{}", String::from_utf8_lossy(&one));
            let expected = of(&|| serde_json::to_vec(&FeatureJson::new(&row, clock_ms)));
            assert_eq!(read(&feature), expected, "{}", String::from_utf8_lossy(&feature));
        }
    }
}
