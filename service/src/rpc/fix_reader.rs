//! How does a plain fix become a row in quanta?
//!
//! A position that cannot be stored gets the poison value of its reason, so the row keeps its
//! number and the engine refuses it; attributes likewise, in `stored.rs`. Notes which of two
//! coordinates was at fault, for the first refused rows.

use shoal_codec::{ALTITUDE_UNKNOWN, FixColumns, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN};
use shoal_engine::{Refusal, Space};

use super::protobuf_reader::{ProtobufReader, Value};
use super::report_message::Fixes;
use crate::error::ServiceError;
use crate::limits::REFUSED_ROWS_TOLD_MAX;
use crate::stored::{altitude_mm, heading_cdeg, speed_mm_s};

/// Bytes of the four mandatory fields when they come first and in order, as nearly always.
const PLAIN_BYTES: usize = 36;
/// Keys of those fields, at every ninth byte.
const PLAIN_KEYS: [u8; 4] = [0x09, 0x11, 0x19, 0x21];
/// Keys of the optional fields.
const SPEED_KEY: u8 = 0x2d;
const HEADING_KEY: u8 = 0x35;
const ALTITUDE_KEY: u8 = 0x39;
const STATE_KEY: u8 = 0x45;

/// Turns the fixes of one message into columns, some at a time.
pub(super) struct FixReader {
    space: Space,
    columns: FixColumns,
    /// Rows whose position was refused, and which coordinate was at fault.
    faults: Vec<(u32, &'static str)>,
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
    /// Room for exactly `rows`.
    pub(super) fn new(space: Space, rows: usize) -> Self {
        Self { space, columns: FixColumns::with_capacity(rows), faults: Vec::new() }
    }

    /// Reads up to `rows_max` fixes; false after the last.
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

    /// All rows read, and the coordinates at fault.
    pub(super) fn finish(self) -> (FixColumns, Vec<(u32, &'static str)>) {
        (self.columns, self.faults)
    }

    #[inline]
    fn push(&mut self, fix: &Fix) {
        let (x, y) = match self.space.quantise(fix.x, fix.y) {
            Ok(quanta) => quanta,
            Err(refusal) => self.poison(fix, refusal),
        };
        self.columns.push_row(FixRow {
            object: fix.object,
            time_ms: fix.time_ms,
            x,
            y,
            speed_mm_s: fix.speed_mps.map_or(SPEED_UNKNOWN, speed_mm_s),
            heading_cdeg: fix.heading_deg.map_or(HEADING_UNKNOWN, heading_cdeg),
            altitude_mm: fix.altitude_m.map_or(ALTITUDE_UNKNOWN, altitude_mm),
            state: fix.state,
        });
    }

    #[cold]
    fn poison(&mut self, fix: &Fix, refusal: Refusal) -> (i32, i32) {
        if self.faults.len() < REFUSED_ROWS_TOLD_MAX {
            // 0 lies in every space.
            let x_is_right = self.space.quantise(fix.x, 0.0) != Err(refusal);
            let row = self.columns.len() as u32;
            self.faults.push((row, if x_is_right { "y" } else { "x" }));
        }
        refusal.poison()
    }
}

/// A fix as encoders write it: mandatory fields in order, then optional ones. Others are read by
/// [`parse`], three times slower.
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

/// A fix of any form.
fn parse(bytes: &[u8], base: usize) -> Result<Fix, ServiceError> {
    let mut reader = ProtobufReader::new("Fix", bytes, base);
    let mut fix = Fix::default();
    while let Some(field) = reader.field()? {
        match field {
            (1, Value::Fixed64(bits)) => fix.object = bits,
            (2, Value::Fixed64(bits)) => fix.time_ms = bits as i64,
            (3, Value::Fixed64(bits)) => fix.x = f64::from_bits(bits),
            (4, Value::Fixed64(bits)) => fix.y = f64::from_bits(bits),
            (5, Value::Fixed32(bits)) => fix.speed_mps = Some(f32::from_bits(bits)),
            (6, Value::Fixed32(bits)) => fix.heading_deg = Some(f32::from_bits(bits)),
            (7, Value::Fixed64(bits)) => fix.altitude_m = Some(f64::from_bits(bits)),
            (8, Value::Fixed32(bits)) => fix.state = bits,
            (1..=8, _) => return Err(reader.malformed("wrong wire type")),
            _ => {}
        }
    }
    Ok(fix)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_of_reading_agree() {
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
            // What is not of the usual form is left to the other, which refuses cuts.
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
}
