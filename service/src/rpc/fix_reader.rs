//! Reads the fixes of a report message into columns of quanta.
//!
//! A row with a value that cannot be stored is listed as refused and does not reach the columns.
//! Records the coordinate at fault for the first refused rows.

use shoal_codec::{ALTITUDE_UNKNOWN, FixColumns, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN};
use shoal_engine::{Refusal, Request, RowValidator, Space};
use shoal_proto::fields::fix;

use super::ack_range::Faults;
use super::protobuf_reader::{ProtobufReader, Value};
use super::report_message::Fixes;
use crate::error::ServiceError;
use crate::fleet::{ConvertedRequest, ReceiptRefusal};
use crate::limits::REFUSED_ROWS_TOLD_MAX;
use crate::stored::{altitude_mm, heading_cdeg, speed_mm_s};

/// Bytes of the four mandatory fields, which nearly always come first and in order.
const PLAIN_BYTES: usize = 36;
/// Keys of those fields, at every ninth byte.
const PLAIN_KEYS: [u8; 4] =
    [fixed64_key(fix::OBJECT), fixed64_key(fix::TIME_MS), fixed64_key(fix::X), fixed64_key(fix::Y)];
/// Keys of the optional fields.
const SPEED_KEY: u8 = fixed32_key(fix::SPEED_MPS);
const HEADING_KEY: u8 = fixed32_key(fix::HEADING_DEG);
const ALTITUDE_KEY: u8 = fixed64_key(fix::ALTITUDE_M);
const STATE_KEY: u8 = fixed32_key(fix::STATE);

/// Converts the fixes of one message, some at a time.
pub(super) struct FixReader {
    space: Space,
    /// Without the latest event time, which the cycle decides.
    validator: RowValidator,
    columns: FixColumns,
    refused: Vec<ReceiptRefusal>,
    /// Rows whose position was refused, and the coordinate at fault.
    faults: Faults,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Fix {
    object: u64,
    time_ms: i64,
    x: f64,
    y: f64,
    speed_mps: Option<f32>,
    heading_deg: Option<f32>,
    altitude_m: Option<f64>,
    state: u32,
}

impl FixReader {
    /// Columns with capacity for exactly `rows`.
    pub(super) fn new(space: Space, rows: usize) -> Self {
        let (validator, columns) =
            (RowValidator::new(&space, i64::MAX), FixColumns::with_capacity(rows));
        Self { space, validator, columns, refused: Vec::new(), faults: Faults::new() }
    }

    /// Reads at most `rows_max` fixes; false after the last.
    ///
    /// # Errors
    /// [`ServiceError::Malformed`].
    pub(super) fn read(
        &mut self,
        fixes: &mut Fixes<'_>,
        rows_max: usize,
    ) -> Result<bool, ServiceError> {
        for _ in 0..rows_max {
            let Some((bytes, base)) = fixes.next_fix()? else {
                return Ok(false);
            };
            let fix = match plain(bytes) {
                Some(fix) => fix,
                None => parse(bytes, base)?,
            };
            self.push(&fix);
        }
        Ok(true)
    }

    /// All rows, and the coordinates at fault.
    pub(super) fn finish(self) -> (ConvertedRequest, Faults) {
        let Self { columns, refused, faults, .. } = self;
        (ConvertedRequest { request: Request::Fixes(columns), refused }, faults)
    }

    #[inline]
    fn push(&mut self, fix: &Fix) {
        match self.convert(fix) {
            Ok(row) => self.columns.push_row(row),
            Err(refusal) => self.refuse(fix, refusal),
        }
    }

    #[inline]
    fn convert(&self, fix: &Fix) -> Result<FixRow, Refusal> {
        let (x, y) = self.space.quantise(fix.x, fix.y)?;
        let row = FixRow {
            object: fix.object,
            time_ms: fix.time_ms,
            x,
            y,
            speed_mm_s: fix.speed_mps.map_or(SPEED_UNKNOWN, speed_mm_s),
            heading_cdeg: fix.heading_deg.map_or(HEADING_UNKNOWN, heading_cdeg),
            altitude_mm: fix.altitude_m.map_or(ALTITUDE_UNKNOWN, altitude_mm),
            state: fix.state,
        };
        let (speed, heading, altitude) = (row.speed_mm_s, row.heading_cdeg, row.altitude_mm);
        self.validator.validate_attributes(speed, heading, altitude).map_or(Ok(row), Err)
    }

    /// Lists a row that cannot be converted, by the first of its faults.
    #[cold]
    fn refuse(&mut self, fix: &Fix, refusal: Refusal) {
        let row = (self.columns.len() + self.refused.len()) as u32;
        let position = self.space.quantise(fix.x, fix.y);
        if position.is_err() && self.faults.len() < REFUSED_ROWS_TOLD_MAX {
            // 0 lies in every space.
            let x_is_right = self.space.quantise(fix.x, 0.0) != Err(refusal);
            self.faults.push((row, if x_is_right { "y" } else { "x" }));
        }
        let Fix { object, time_ms, .. } = *fix;
        let first = match position {
            Ok((x, y)) => self.validator.validate(object, time_ms, x, y),
            Err(_) => (object == u64::MAX).then_some(Refusal::Object),
        };
        let refusal = first.unwrap_or(refusal);
        self.refused.push(ReceiptRefusal { row, refusal, time_ms });
    }
}

/// Reads the form that encoders write: mandatory fields in order, then optional ones. [`parse`]
/// reads the other forms, three times slower.
#[inline]
fn plain(bytes: &[u8]) -> Option<Fix> {
    let (head, mut tail) = bytes.split_first_chunk::<PLAIN_BYTES>()?;
    let (fields, _) = head.as_chunks::<9>();
    if [fields[0][0], fields[1][0], fields[2][0], fields[3][0]] != PLAIN_KEYS {
        return None;
    }
    let mut fix = Fix {
        object: u64::from_le_bytes(value(&fields[0])),
        time_ms: i64::from_le_bytes(value(&fields[1])),
        x: f64::from_le_bytes(value(&fields[2])),
        y: f64::from_le_bytes(value(&fields[3])),
        ..Fix::default()
    };
    while let Some(&key) = tail.first() {
        if key == ALTITUDE_KEY {
            let (field, rest) = tail.split_first_chunk::<9>()?;
            fix.altitude_m = Some(f64::from_le_bytes(value(field)));
            tail = rest;
            continue;
        }
        let (field, rest) = tail.split_first_chunk::<5>()?;
        let bits = u32::from_le_bytes([field[1], field[2], field[3], field[4]]);
        match key {
            SPEED_KEY => fix.speed_mps = Some(f32::from_bits(bits)),
            HEADING_KEY => fix.heading_deg = Some(f32::from_bits(bits)),
            STATE_KEY => fix.state = bits,
            _ => return None,
        }
        tail = rest;
    }
    Some(fix)
}

/// The value of a field of eight bytes.
#[inline]
fn value(field: &[u8; 9]) -> [u8; 8] {
    let mut value = [0; 8];
    value.copy_from_slice(&field[1..]);
    value
}

/// The key of a 64-bit field, which takes one byte.
const fn fixed64_key(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3 | 1) as u8
}

/// The key of a 32-bit field, which takes one byte.
const fn fixed32_key(field: u32) -> u8 {
    assert!(field < 16);
    (field << 3 | 5) as u8
}

/// Reads a fix of any form.
fn parse(bytes: &[u8], base: usize) -> Result<Fix, ServiceError> {
    let mut reader = ProtobufReader::new("Fix", bytes, base);
    let mut row = Fix::default();
    while let Some(field) = reader.field()? {
        match field {
            (fix::OBJECT, Value::Fixed64(bits)) => row.object = bits,
            (fix::TIME_MS, Value::Fixed64(bits)) => row.time_ms = bits as i64,
            (fix::X, Value::Fixed64(bits)) => row.x = f64::from_bits(bits),
            (fix::Y, Value::Fixed64(bits)) => row.y = f64::from_bits(bits),
            (fix::SPEED_MPS, Value::Fixed32(bits)) => row.speed_mps = Some(f32::from_bits(bits)),
            (fix::HEADING_DEG, Value::Fixed32(bits)) => {
                row.heading_deg = Some(f32::from_bits(bits));
            }
            (fix::ALTITUDE_M, Value::Fixed64(bits)) => row.altitude_m = Some(f64::from_bits(bits)),
            (fix::STATE, Value::Fixed32(bits)) => row.state = bits,
            (fix::OBJECT..=fix::STATE, _) => return Err(reader.malformed("wrong wire type")),
            _ => {}
        }
    }
    Ok(row)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_readers_agree() {
        use prost::Message as _;
        let (speed, heading) = ([None, Some(1.5)], [None, Some(271.25)]);
        let (altitude, state) = ([None, Some(-3.0)], [0, 5, 7]);
        for case in 0..24 {
            let sent = shoal_proto::v1::Fix {
                object: u64::MAX - 3,
                time_ms: -5,
                x: 1.5,
                y: -2.25,
                speed_mps: speed[case % 2],
                heading_deg: heading[case / 2 % 2],
                altitude_m: altitude[case / 4 % 2],
                state: state[case / 8],
            };
            let bytes = sent.encode_to_vec();
            let quick = plain(&bytes).unwrap();
            assert_eq!(quick, parse(&bytes, 0).unwrap());
            assert_eq!(
                (quick.object, quick.time_ms, quick.x, quick.y),
                (u64::MAX - 3, -5, 1.5, -2.25)
            );
            assert_eq!((quick.speed_mps, quick.heading_deg), (sent.speed_mps, sent.heading_deg));
            assert_eq!((quick.altitude_m, quick.state), (sent.altitude_m, sent.state));
            // Other forms are left to `parse`, which refuses cuts.
            for length in 0..bytes.len() {
                if let Some(cut) = plain(&bytes[..length]) {
                    assert_eq!(cut, parse(&bytes[..length], 0).unwrap(), "{length} bytes");
                }
            }
            let mut unknown = bytes;
            unknown.extend([0x58, 1]);
            assert!(plain(&unknown).is_none());
            assert_eq!(parse(&unknown, 0).unwrap(), quick);
        }
    }

    #[test]
    fn a_row_that_cannot_be_converted_is_listed_by_its_first_fault() {
        use Refusal::{Altitude, Heading, NotFinite, Object, OutsideSpace, Speed};
        use Refusal::{TimeTooEarly, TimeTooLate};
        let good = Fix { object: 7, time_ms: 1_704_067_200_000, ..Fix::default() };
        let fast = Fix { speed_mps: Some(-1.0), ..good };
        // The engine refuses the first four for what needs no conversion.
        let rows = [
            (good, None),
            (Fix { object: u64::MAX, ..good }, None),
            (Fix { time_ms: 0, ..good }, None),
            (Fix { time_ms: i64::MAX, ..good }, None),
            (Fix { x: f64::NAN, ..good }, Some(NotFinite)),
            (Fix { y: 90.1, ..fast }, Some(OutsideSpace)),
            (Fix { object: u64::MAX, y: f64::INFINITY, ..good }, Some(Object)),
            (fast, Some(Speed)),
            (Fix { heading_deg: Some(360.0), altitude_m: Some(1e9), ..good }, Some(Heading)),
            (Fix { altitude_m: Some(f64::NAN), ..good }, Some(Altitude)),
            (Fix { object: u64::MAX, ..fast }, Some(Object)),
            (Fix { time_ms: 0, ..fast }, Some(TimeTooEarly)),
            (Fix { time_ms: i64::MAX, ..fast }, Some(TimeTooLate)),
            (good, None),
        ];
        let mut reader = FixReader::new(Space::geographic(), rows.len());
        rows.iter().for_each(|(fix, _)| reader.push(fix));
        let (converted, faults) = reader.finish();
        let expected: Vec<_> = (0..)
            .zip(&rows)
            .filter_map(|(row, (fix, refusal))| {
                refusal.map(|refusal| ReceiptRefusal { row, refusal, time_ms: fix.time_ms })
            })
            .collect();
        assert_eq!(converted.refused, expected);
        assert_eq!(converted.request.rows(), 5);
        assert_eq!(faults, [(4, "x"), (5, "y"), (6, "y")]);
    }
}
