//! Reads the fixes of a report message into columns of quanta.
//!
//! A position that cannot be stored gets the poison value of its reason, so that the row keeps its
//! number and the engine refuses it; attributes likewise (`MEASURES`). Records the coordinate at
//! fault for the first refused rows.

use shoal_codec::{FixColumns, FixRow, MEASURES};
use shoal_engine::{Refusal, Space};
use shoal_proto::fields::fix;

use super::protobuf_reader::{ProtobufReader, Value};
use super::report_message::Fixes;
use crate::error::ServiceError;
use crate::limits::REFUSED_ROWS_TOLD_MAX;

/// Bytes of the four mandatory fields, which nearly always come first and in order.
const PLAIN_BYTES: usize = 36;
/// Keys of those fields, at every ninth byte.
const PLAIN_KEYS: [u8; 4] = [
    key_of::<u64>(fix::OBJECT),
    key_of::<u64>(fix::TIME_MS),
    key_of::<f64>(fix::X),
    key_of::<f64>(fix::Y),
];

/// Converts the fixes of one message, some at a time.
pub(super) struct FixReader {
    space: Space,
    columns: FixColumns,
    /// Rows whose position was refused, and the coordinate at fault.
    faults: Vec<(u32, &'static str)>,
}

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        struct Fix {
            object: u64,
            time_ms: i64,
            x: f64,
            y: f64,
            $($api: Option<$api_type>,)+
            state: u32,
        }

        impl Fix {
            /// The row at this position.
            #[inline]
            fn row(&self, (x, y): (i32, i32)) -> FixRow {
                FixRow {
                    object: self.object,
                    time_ms: self.time_ms,
                    x,
                    y,
                    $($field: MEASURES.$field.store_optional(self.$api),)+
                    state: self.state,
                }
            }

            /// Reads the optional field with this key from the bytes behind it; gives the rest.
            #[inline]
            fn read<'a>(&mut self, key: u8, bytes: &'a [u8]) -> Option<&'a [u8]> {
                $(if key == key_of::<$api_type>(fix::$number) {
                    let (value, rest) = <$api_type>::split(bytes)?;
                    self.$api = Some(value);
                    return Some(rest);
                })+
                if key != key_of::<u32>(fix::STATE) {
                    return None;
                }
                let (state, rest) = u32::split(bytes)?;
                self.state = state;
                Some(rest)
            }

            /// Sets one field; `None` if the value has another type.
            fn set(&mut self, number: u32, value: Value<'_>) -> Option<()> {
                match number {
                    fix::OBJECT => self.object = u64::of(value)?,
                    fix::TIME_MS => self.time_ms = u64::of(value)? as i64,
                    fix::X => self.x = f64::of(value)?,
                    fix::Y => self.y = f64::of(value)?,
                    $(fix::$number => self.$api = Some(<$api_type>::of(value)?),)+
                    fix::STATE => self.state = u32::of(value)?,
                    _ => {}
                }
                Some(())
            }
        }
    };
}

shoal_codec::measures!(render);

/// A value of fixed width.
trait Fixed: Sized {
    /// Its wire type.
    const WIRE_TYPE: u8;
    /// The value that the bytes begin with, and the rest.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])>;
    /// The value of a field, `None` if it has another width.
    fn of(value: Value<'_>) -> Option<Self>;
}

macro_rules! fixed {
    ($($type:ty = $wire_type:literal $variant:ident;)+) => {
        $(impl Fixed for $type {
            const WIRE_TYPE: u8 = $wire_type;

            #[inline]
            fn split(bytes: &[u8]) -> Option<(Self, &[u8])> {
                let (value, rest) = bytes.split_first_chunk()?;
                Some((Self::from_le_bytes(*value), rest))
            }

            fn of(value: Value<'_>) -> Option<Self> {
                let Value::$variant(bits) = value else { return None };
                Some(Self::from_le_bytes(bits.to_le_bytes()))
            }
        })+
    };
}

fixed! {
    u32 = 5 Fixed32;
    f32 = 5 Fixed32;
    u64 = 1 Fixed64;
    f64 = 1 Fixed64;
}

/// The key of a field, which takes one byte.
const fn key_of<T: Fixed>(field: u32) -> u8 {
    assert!(field < 16);
    (field as u8) << 3 | T::WIRE_TYPE
}

impl FixReader {
    /// Columns with capacity for exactly `rows`.
    pub(super) fn new(space: Space, rows: usize) -> Self {
        Self { space, columns: FixColumns::with_capacity(rows), faults: Vec::new() }
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
    pub(super) fn finish(self) -> (FixColumns, Vec<(u32, &'static str)>) {
        (self.columns, self.faults)
    }

    #[inline]
    fn push(&mut self, fix: &Fix) {
        let position = match self.space.quantise(fix.x, fix.y) {
            Ok(quanta) => quanta,
            Err(refusal) => self.poison(fix, refusal),
        };
        self.columns.push_row(fix.row(position));
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
    while let Some((&key, rest)) = tail.split_first() {
        tail = fix.read(key, rest)?;
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

/// Reads a fix of any form.
fn parse(bytes: &[u8], base: usize) -> Result<Fix, ServiceError> {
    let mut reader = ProtobufReader::new("Fix", bytes, base);
    let mut row = Fix::default();
    while let Some((number, value)) = reader.field()? {
        row.set(number, value).ok_or_else(|| reader.malformed("wrong wire type"))?;
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
}
