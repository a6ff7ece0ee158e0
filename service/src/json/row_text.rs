//! Writes rows as text: the JSON of [`RowJson`](super::RowJson) and
//! [`FeatureJson`](super::FeatureJson), without their structures.
//!
//! Positions in degrees and measures are stored as whole numbers of a decimal unit, and are written
//! from these. Other numbers are written from integers if they have few decimal digits, else as
//! `serde_json` writes them.
//!
//! A row is written into a buffer that has room for any row, and copied from there. Functions that
//! write take the place where their text begins and return the place after it, so that it stays in
//! a register.

use shoal_codec::{FixRow, MEASURES};
use shoal_engine::Space;

use crate::timestamp::rfc3339;

/// Bytes of a row without its label, at most.
const ROW_BYTES: usize = 1 << 10;
/// Bytes of each byte of a name in JSON, at most; a feature has its name twice.
const NAME_BYTES: usize = 2 * 6;

/// Parts of a unit: a part is the seventh digit after the point. A quantum of the geographic space
/// is one part of a degree.
const PARTS: u64 = 10_000_000;
/// Thousandths of a unit. Measures are whole numbers of them.
const THOUSAND: u64 = 1_000;
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
    pub fix: Option<&'a FixRow>,
    /// The space of its position.
    pub space: &'a Space,
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

/// A text of few bytes in a register, the first one lowest. Bytes after its length have any value:
/// the next text is written over them.
#[derive(Clone, Copy, Debug)]
struct Short {
    bytes: u128,
    length: usize,
}

/// An object as text.
#[derive(Clone, Copy)]
enum Label<'a> {
    Short(Short),
    Number(u64),
    Name(&'a str),
}

/// A coordinate.
#[derive(Clone, Copy)]
enum Coordinate {
    Short(Short),
    Number(f64),
}

/// A position.
#[derive(Clone, Copy)]
struct Position {
    x: Coordinate,
    y: Coordinate,
}

impl RowText {
    /// Adds a row as an object; its age is the answer's clock minus its time.
    pub fn row(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        let (text, date) = self.room(row);
        let at = put(text, 0, b"{\"object\":");
        let at = Label::of(row).write(text, at);
        let at = members(text, at, date, row, Position::of(row), clock_ms);
        out.extend_from_slice(&text[..at]);
    }

    /// Adds a row as a GeoJSON Feature (RFC 7946).
    pub fn feature(&mut self, out: &mut Vec<u8>, row: RowRef<'_>, clock_ms: i64) {
        let (text, date) = self.room(row);
        let (label, position) = (Label::of(row), Position::of(row));
        let at = put(text, 0, b"{\"type\":\"Feature\",\"id\":");
        let mut at = label.write(text, at);
        if let Some(Position { x, y }) = position {
            at = put(text, at, b",\"geometry\":{\"type\":\"Point\",\"coordinates\":[");
            at = x.write(text, at);
            at = put(text, at, b",");
            at = y.write(text, at);
            at = put(text, at, b"]}");
        } else {
            at = put(text, at, b",\"geometry\":null");
        }
        at = put(text, at, b",\"properties\":{\"object\":");
        at = label.write(text, at);
        at = members(text, at, date, row, position, clock_ms);
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

impl Short {
    /// Up to eight bytes.
    fn new(bytes: u64, length: u32) -> Self {
        Self { bytes: bytes.into(), length: length as usize }
    }

    /// This text, whose bytes after its length must be 0, and another one after it.
    fn then(self, next: Self) -> Self {
        let bytes = self.bytes | next.bytes << (8 * self.length);
        Self { bytes, length: self.length + next.length }
    }

    #[inline]
    fn write(self, text: &mut [u8], at: usize) -> usize {
        put(text, at, &self.bytes.to_le_bytes());
        at + self.length
    }
}

impl<'a> Label<'a> {
    /// The name of the object, or its number, as a string.
    fn of(row: RowRef<'a>) -> Self {
        let quote = Short::new(b'"'.into(), 1);
        match row.name {
            Some(name) => Self::Name(name),
            None if row.object < LARGE => {
                Self::Short(quote.then(short_integer(row.object)).then(quote))
            }
            None => Self::Number(row.object),
        }
    }

    #[inline]
    fn write(self, text: &mut [u8], at: usize) -> usize {
        match self {
            Self::Short(short) => short.write(text, at),
            Self::Number(object) => {
                let at = put(text, at, b"\"");
                let at = integer(text, at, object);
                put(text, at, b"\"")
            }
            Self::Name(name) => json(text, at, name),
        }
    }
}

impl Coordinate {
    #[inline]
    fn write(self, text: &mut [u8], at: usize) -> usize {
        match self {
            Self::Short(short) => short.write(text, at),
            Self::Number(value) => number(text, at, value),
        }
    }
}

impl Position {
    #[inline]
    fn of(row: RowRef<'_>) -> Option<Self> {
        let fix = row.fix?;
        if row.space.is_geographic() {
            let coordinate = |quanta| Coordinate::Short(short_parts(quanta));
            return Some(Self { x: coordinate(fix.x), y: coordinate(fix.y) });
        }
        let (x, y) = row.space.to_api(fix.x, fix.y);
        Some(Self { x: Coordinate::Number(x), y: Coordinate::Number(y) })
    }
}

/// Writes the members after the object, and the end.
fn members(
    text: &mut [u8],
    mut at: usize,
    date: &mut Date,
    row: RowRef<'_>,
    position: Option<Position>,
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
    if let (Some(fix), Some(Position { x, y })) = (row.fix, position) {
        at = put(text, at, b",\"time_ms\":");
        at = signed(text, at, fix.time_ms);
        at = put(text, at, b",\"time\":\"");
        at = date.time(text, at, fix.time_ms);
        at = put(text, at, b"\",\"age_ms\":");
        at = signed(text, at, clock_ms.saturating_sub(fix.time_ms));
        at = put(text, at, b",\"x\":");
        at = x.write(text, at);
        at = put(text, at, b",\"y\":");
        at = y.write(text, at);
        at = measures(text, at, fix);
        at = put(text, at, b",\"state\":");
        at = integer(text, at, fix.state.into());
    }
    put(text, at, b"}")
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
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        /// Writes the measures.
        fn measures(text: &mut [u8], mut at: usize, fix: &FixRow) -> usize {
            $({
                const MEMBER: &str = concat!(",\"", stringify!($api), "\":");
                const MEMBER_BYTES: [u8; MEMBER.len()] = array(MEMBER);
                const STORED_THOUSANDTHS: i64 = THOUSAND as i64 / MEASURES.$field.per_unit as i64;
                const { assert!(STORED_THOUSANDTHS as f64 * MEASURES.$field.per_unit == THOUSAND as f64) };
                at = put(text, at, &MEMBER_BYTES);
                at = match MEASURES.$field.known(fix.$field) {
                    Some(stored) => thousandths(text, at, i64::from(stored) * STORED_THOUSANDTHS),
                    None => put(text, at, b"null"),
                };
            })+
            at
        }
    };
}

shoal_codec::measures!(render);

/// The bytes of a text of this length.
const fn array<const BYTES: usize>(text: &str) -> [u8; BYTES] {
    let mut bytes = [0; BYTES];
    bytes.copy_from_slice(text.as_bytes());
    bytes
}

/// Writes a number.
fn number(text: &mut [u8], at: usize, value: f64) -> usize {
    let parts_of = (value * PARTS as f64 + 0.5_f64.copysign(value)) as i64;
    // The quotient of two exact numbers is the number nearest to the decimal that they make, so
    // that reading the text gives `value`. The sign of zero is not in an integer.
    let is_decimal = value.abs() < MAGNITUDE && parts_of as f64 / PARTS as f64 == value;
    if is_decimal && !(value == 0.0 && value.is_sign_negative()) {
        parts(text, at, parts_of)
    } else {
        json(text, at, &value)
    }
}

/// Writes a number of parts.
fn parts(text: &mut [u8], at: usize, value: i64) -> usize {
    let at = if value < 0 { put(text, at, b"-") } else { at };
    let (whole, rest) = (value.unsigned_abs() / PARTS, value.unsigned_abs() % PARTS);
    let at = integer(text, at, whole);
    fraction(rest).write(text, at)
}

/// A number of parts as text.
#[inline]
fn short_parts(value: i32) -> Short {
    let magnitude = u64::from(value.unsigned_abs());
    let (whole, rest) = (magnitude / PARTS, magnitude % PARTS);
    let sign = if value < 0 { Short::new(b'-'.into(), 1) } else { Short::new(0, 0) };
    // 32 bits with a sign have less than 215 units.
    let small = SMALL[whole as usize];
    sign.then(Short::new((small & 0xff_ffff).into(), small >> 24)).then(fraction(rest))
}

/// A point and the digits of less than [`PARTS`] parts, of which at least one stays.
fn fraction(parts: u64) -> Short {
    let digits = digits(parts);
    let zeros = ((digits ^ ZEROS) >> 16).leading_zeros() / 8 - 2;
    Short::new(digits & !0xff | u64::from(b'.'), DIGITS as u32 - zeros)
}

/// Writes a number of thousandths.
#[inline]
fn thousandths(text: &mut [u8], at: usize, value: i64) -> usize {
    let at = if value < 0 { put(text, at, b"-") } else { at };
    let (whole, rest) = (value.unsigned_abs() / THOUSAND, value.unsigned_abs() % THOUSAND);
    let at = integer(text, at, whole);
    let fraction = FRACTIONS[rest as usize];
    put(text, at, &(fraction as u32).to_le_bytes());
    at + (fraction >> u32::BITS) as usize
}

/// Writes an integer.
#[inline]
fn signed(text: &mut [u8], at: usize, value: i64) -> usize {
    let at = if value < 0 { put(text, at, b"-") } else { at };
    integer(text, at, value.unsigned_abs())
}

/// Writes an integer.
#[inline]
fn integer(text: &mut [u8], at: usize, value: u64) -> usize {
    let Some(small) = SMALL.get(value as usize) else { return long_integer(text, at, value) };
    // The length is written over.
    put(text, at, &small.to_le_bytes());
    at + (small >> 24) as usize
}

/// Not inlined, so that [`integer`] stays short wherever it is.
#[inline(never)]
fn long_integer(text: &mut [u8], at: usize, value: u64) -> usize {
    if value < THOUSAND * THOUSAND {
        let at = integer(text, at, value / THOUSAND);
        let [_, digits @ ..] = (FRACTIONS[(value % THOUSAND) as usize] as u32).to_le_bytes();
        return put(text, at, &digits);
    }
    if value < LARGE {
        return short_integer(value).write(text, at);
    }
    let at = integer(text, at, value / LARGE);
    put(text, at, &digits(value % LARGE).to_le_bytes())
}

/// A number below [`LARGE`] as text.
fn short_integer(value: u64) -> Short {
    let digits = digits(value);
    // The last digit stays, also if it is 0.
    let zeros = ((digits ^ ZEROS) | (1 << 63)).trailing_zeros() / 8;
    Short::new(digits >> (8 * zeros), DIGITS as u32 - zeros)
}

/// The digits of the numbers below 1,000, the first one in the lowest byte; how many they are in
/// the highest.
static SMALL: [u32; 1_000] = {
    let mut small = [0; 1_000];
    let mut value = 0;
    while value < small.len() {
        let [a, b, c] = [value / 100, value / 10 % 10, value % 10];
        let [a, b, c] = [b'0' + a as u8, b'0' + b as u8, b'0' + c as u8];
        small[value] = u32::from_le_bytes(match value {
            0..10 => [c, 0, 0, 1],
            10..100 => [b, c, 0, 2],
            _ => [a, b, c, 3],
        });
        value += 1;
    }
    small
};

/// For each number of thousandths below 1, in the low half the point and the three digits; in the
/// high half the bytes of these without zeros at the end, of which at least one digit stays.
static FRACTIONS: [u64; THOUSAND as usize] = {
    let mut fractions = [0; THOUSAND as usize];
    let mut value = 0;
    while value < fractions.len() {
        let [a, b, c] = [value / 100, value / 10 % 10, value % 10];
        let [a, b, c] = [b'0' + a as u8, b'0' + b as u8, b'0' + c as u8];
        let length = match [b, c] {
            [b'0', b'0'] => 2,
            [_, b'0'] => 3,
            _ => 4,
        };
        fractions[value] = u64::from_le_bytes([b'.', a, b, c, length, 0, 0, 0]);
        value += 1;
    }
    fractions
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
    // An assignment of an array is never a call; the slice has room, see `RowText::room`.
    if let Some(place) = text[at..].first_chunk_mut() {
        *place = *bytes;
    }
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
    use shoal_client::{AnswerRow, record_at};
    use shoal_codec::{ALTITUDE_UNKNOWN, HEADING_UNKNOWN, SPEED_UNKNOWN, VALIDITY_UNKNOWN};
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
    fn numbers_read_as_themselves() {
        let mut random = Random::new(0x7e46);
        for _ in 0..200_000 {
            let (mut text, value) = ([0; ROW_BYTES], value(&mut random));
            let end = number(&mut text, 0, value);
            let text = str::from_utf8(&text[..end]).unwrap();
            // Parsing rounds correctly, unlike the reader of serde_json.
            let is_read = |read: f64| read.to_bits() == value.to_bits();
            let is_equal = text.parse().is_ok_and(is_read) || text == "null" && !value.is_finite();
            assert!(is_equal, "{value} as {text}");
        }
    }

    /// A stored value of any magnitude, of which those that the type does not have are unknown.
    fn stored<T: TryFrom<i64>>(random: &mut Random, unknown: T) -> T {
        let value = random.word().cast_signed() >> random.between(31, 63);
        T::try_from(value).unwrap_or(unknown)
    }

    fn fix(random: &mut Random, space: &Space) -> FixRow {
        let time_ms = match random.below(5) {
            0 => random.below(u64::MAX).cast_signed(),
            1 => random.below(4_000_000_000_000_u64).cast_signed() - 1_000_000_000_000,
            2 => i64::MIN,
            _ => 1_700_000_000_000 + random.below(200_000_000_u64).cast_signed(),
        };
        let bounds = space.bounds();
        let mut quanta = |min: i32, max: i32| match random.below(5) {
            0 => min,
            1 => max,
            2 => 0.clamp(min, max),
            _ => random.quanta(min, max),
        };
        let (x, y) = (quanta(bounds.x_min, bounds.x_max), quanta(bounds.y_min, bounds.y_max));
        FixRow {
            speed_mm_s: stored(random, SPEED_UNKNOWN),
            heading_cdeg: stored(random, HEADING_UNKNOWN),
            altitude_mm: stored(random, ALTITUDE_UNKNOWN),
            valid_ms: stored(random, VALIDITY_UNKNOWN),
            state: stored(random, 0),
            ..FixRow::new(0, time_ms, x, y)
        }
    }

    #[test]
    fn texts_are_those_of_the_structures() {
        let (mut random, mut text) = (Random::new(0x7e47), RowText::default());
        let spaces = [
            Space::geographic(),
            Space::planar(1e4, 1e4, 0.01).unwrap(),
            Space::planar(300.3, 3e6, 0.3).unwrap(),
        ];
        for _ in 0..20_000 {
            let space = random.pick(&spaces);
            let fix = (random.below(9) > 0).then(|| fix(&mut random, space));
            let name = ["", "truck-42", "a\"b\\c\n", "Käthe \u{1f69a}"][random.below(4) as usize];
            let row = AnswerRow {
                object: match random.below(10) {
                    0 => 10_u64.pow(random.below(20)) - random.below(2_u64),
                    _ => random.word() >> random.below(64),
                },
                name: (!name.is_empty()).then(|| name.to_owned()),
                fix: fix.map(|fix| record_at(space.to_api(fix.x, fix.y), &fix)),
                distance_m: (random.below(2) == 0).then(|| value(&mut random)),
            };
            let clock_ms = 1_700_000_100_000;
            let (mut one, mut feature) = (Vec::new(), Vec::new());
            let stored = RowRef {
                object: row.object,
                name: row.name.as_deref(),
                fix: fix.as_ref(),
                space,
                distance_m: row.distance_m,
            };
            text.row(&mut one, stored, clock_ms);
            text.feature(&mut feature, stored, clock_ms);
            let read = |text: &[u8]| serde_json::from_slice::<Value>(text).unwrap();
            let of = |value: &dyn Fn() -> serde_json::Result<Vec<u8>>| read(&value().unwrap());
            let expected = of(&|| serde_json::to_vec(&RowJson::new(&row, clock_ms)));
            assert_eq!(read(&one), expected, "{}", String::from_utf8_lossy(&one));
            let expected = of(&|| serde_json::to_vec(&FeatureJson::new(&row, clock_ms)));
            assert_eq!(read(&feature), expected, "{}", String::from_utf8_lossy(&feature));
        }
    }
}
