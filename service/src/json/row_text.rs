//! Writes rows as text: the JSON of [`RowJson`](super::RowJson) and
//! [`FeatureJson`](super::FeatureJson), without their structures.
//!
//! The positions and measures of an answer are numbers of few decimal digits, because they are
//! whole multiples of a quantum. Such a number is written from an integer; any other one as
//! `serde_json` writes it.

use std::ops::Range;

use shoal_client::v1;

use crate::timestamp::rfc3339;

/// Digits after the point of a number that is written from an integer.
const DIGITS: usize = 7;
/// A whole number of this many parts is 1.
const PARTS: f64 = 1e7;
/// Magnitudes below are written from integers: their parts are exact in 53 bits.
const MAGNITUDE: f64 = 9e8;

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
    /// A day since 1970, and its date: most rows of an answer have the same.
    day: i64,
    date: [u8; DATE_BYTES],
}

impl Default for RowText {
    fn default() -> Self {
        Self { day: 0, date: *b"1970-01-01T" }
    }
}

/// Where an answer has a position that is written twice.
struct Written {
    x: Range<usize>,
    y: Range<usize>,
}

impl RowText {
    /// Adds a row as an object; its age is the answer's clock minus its time.
    pub fn row(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        out.extend_from_slice(b"{\"object\":");
        label(out, row);
        self.members(out, row, None, clock_ms);
    }

    /// Adds a row as a GeoJSON Feature (RFC 7946).
    pub fn feature(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        out.extend_from_slice(b"{\"type\":\"Feature\",\"id\":");
        let start = out.len();
        label(out, row);
        let id = start..out.len();
        let written = row.fix.map(|fix| {
            out.extend_from_slice(b",\"geometry\":{\"type\":\"Point\",\"coordinates\":[");
            let x = out.len();
            number(out, fix.x);
            let x = x..out.len();
            out.push(b',');
            let y = out.len();
            number(out, fix.y);
            let y = y..out.len();
            out.extend_from_slice(b"]}");
            Written { x, y }
        });
        if written.is_none() {
            out.extend_from_slice(b",\"geometry\":null");
        }
        out.extend_from_slice(b",\"properties\":{\"object\":");
        out.extend_from_within(id);
        self.members(out, row, written.as_ref(), clock_ms);
        out.push(b'}');
    }

    /// Adds the members after the object, and the end.
    fn members(
        &mut self,
        out: &mut Vec<u8>,
        row: RowRef<'_>,
        written: Option<&Written>,
        clock_ms: i64,
    ) {
        if row.name.is_some() {
            out.extend_from_slice(b",\"number\":\"");
            out.extend_from_slice(itoa::Buffer::new().format(row.object).as_bytes());
            out.push(b'"');
        }
        if let Some(distance_m) = row.distance_m {
            out.extend_from_slice(b",\"distance_m\":");
            number(out, distance_m);
        }
        if let Some(fix) = row.fix {
            self.record(out, fix, written, clock_ms);
        }
        out.push(b'}');
    }

    fn record(
        &mut self,
        out: &mut Vec<u8>,
        fix: &v1::FixRecord,
        written: Option<&Written>,
        clock_ms: i64,
    ) {
        let mut digits = itoa::Buffer::new();
        out.extend_from_slice(b",\"time_ms\":");
        out.extend_from_slice(digits.format(fix.time_ms).as_bytes());
        out.extend_from_slice(b",\"time\":\"");
        self.time(out, fix.time_ms);
        out.extend_from_slice(b"\",\"age_ms\":");
        out.extend_from_slice(digits.format(clock_ms.saturating_sub(fix.time_ms)).as_bytes());
        out.extend_from_slice(b",\"x\":");
        match written {
            Some(written) => out.extend_from_within(written.x.clone()),
            None => number(out, fix.x),
        }
        out.extend_from_slice(b",\"y\":");
        match written {
            Some(written) => out.extend_from_within(written.y.clone()),
            None => number(out, fix.y),
        }
        measures(out, fix);
        out.extend_from_slice(b",\"state\":");
        out.extend_from_slice(digits.format(fix.state).as_bytes());
    }

    /// Adds a time as [`rfc3339`] formats it.
    fn time(&mut self, out: &mut Vec<u8>, time_ms: i64) {
        let (day, of_day) = (time_ms.div_euclid(DAY_MS), time_ms.rem_euclid(DAY_MS));
        if day != self.day {
            let text = rfc3339(time_ms);
            match text.as_bytes().first_chunk() {
                // Another form is of a time outside these years.
                Some(date) if date[DATE_BYTES - 1] == b'T' => {
                    (self.day, self.date) = (day, *date);
                }
                _ => return out.extend_from_slice(text.as_bytes()),
            }
        }
        out.extend_from_slice(&self.date);
        let of_day = of_day as u32;
        let (seconds, millis) = (of_day / 1_000, of_day % 1_000);
        let two = |value: u32| [b'0' + (value / 10) as u8, b'0' + (value % 10) as u8];
        let ([h, i], [m, n], [s, t]) =
            (two(seconds / 3_600), two(seconds / 60 % 60), two(seconds % 60));
        let [u, v] = two(millis % 100);
        let w = b'0' + (millis / 100) as u8;
        out.extend_from_slice(&[h, i, b':', m, n, b':', s, t, b'.', w, u, v, b'Z']);
    }
}

macro_rules! render {
    ($($column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;)+) => {
        /// Adds the measures.
        fn measures(out: &mut Vec<u8>, fix: &v1::FixRecord) {
            $(
                out.extend_from_slice(concat!(",\"", stringify!($api), "\":").as_bytes());
                match fix.$api {
                    Some(measure) => number(out, measure),
                    None => out.extend_from_slice(b"null"),
                }
            )+
        }
    };
}

shoal_codec::measures!(render);

/// Adds the name of an object, or its number, as a string.
fn label(out: &mut Vec<u8>, row: RowRef<'_>) {
    match row.name {
        None => {
            out.push(b'"');
            out.extend_from_slice(itoa::Buffer::new().format(row.object).as_bytes());
            out.push(b'"');
        }
        Some(name) => json(out, name),
    }
}

/// Adds a number.
fn number(out: &mut Vec<u8>, value: f64) {
    let parts = (value * PARTS).round();
    // The quotient of two exact numbers is the number nearest to the decimal that they make, so
    // that reading the text gives `value`. The sign of zero is not in an integer.
    let is_decimal = value.abs() < MAGNITUDE && parts / PARTS == value;
    if !is_decimal || (value == 0.0 && value.is_sign_negative()) {
        return json(out, &value);
    }
    if value < 0.0 {
        out.push(b'-');
    }
    let parts = parts.abs() as u64;
    let (whole, mut rest) = (parts / PARTS as u64, (parts % PARTS as u64) as u32);
    out.extend_from_slice(itoa::Buffer::new().format(whole).as_bytes());
    let mut text = [b'.'; DIGITS + 1];
    for digit in text[1..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
    let zeros = text[2..].iter().rev().take_while(|digit| **digit == b'0').count();
    out.extend_from_slice(&text[..text.len() - zeros]);
}

/// Adds a value as `serde_json` writes it. A number that is not finite is `null`.
fn json(out: &mut Vec<u8>, value: &(impl serde::Serialize + ?Sized)) {
    // Numbers and strings are always JSON, and a vector takes all bytes.
    let _ = serde_json::to_writer(out, value);
}

#[cfg(test)]
mod tests {
    use serde_json::Value;
    use shoal_client::AnswerRow;
    use shoal_testkit::Random;

    use super::*;
    use crate::json::{FeatureJson, RowJson};

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
