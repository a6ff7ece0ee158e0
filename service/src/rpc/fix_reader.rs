//! Reads the fixes of a report message into columns of quanta.
//!
//! A row that is invalid at any time of the clock does not reach the columns and is counted as
//! refused. If the message asks for it, a measure that cannot be stored is dropped and counted
//! instead of its row. For the first rows with a refused position, the coordinate at fault is
//! recorded. Names in a named fleet are replaced by numbers here, many at a time.

use shoal_codec::{FixColumns, FixRow, MEASURES};
use shoal_engine::limits::TIME_MIN_MS;
use shoal_engine::{Refusal, Request, RowValidator, Space};
use shoal_proto::fields::fix;

use super::ack_range::Faults;
use super::protobuf_reader::{ProtobufReader, Value};
use super::report_message::Fixes;
use crate::error::ServiceError;
use crate::fleet::{ConvertedRequest, DroppedOnReceipt, RefusedRows};
use crate::limits::REFUSED_ROWS_REPORTED_MAX;
use crate::names::{NameTable, check_name};

/// Encoded bytes of the four mandatory fields, which encoders write first and in order.
const PLAIN_BYTES: usize = 36;
/// Like [`PLAIN_BYTES`], for a row with a name: encoded bytes of time, x and y.
const NAMED_BYTES: usize = 27;
/// Keys of the mandatory fields; each field takes 9 bytes.
const PLAIN_KEYS: [u8; 4] = [
    key_of::<u64>(fix::OBJECT),
    key_of::<u64>(fix::TIME_MS),
    key_of::<f64>(fix::X),
    key_of::<f64>(fix::Y),
];

/// The key of the name, whose length follows.
const NAME_KEY: u8 = (fix::NAME as u8) << 3 | 2;

/// Converts the fixes of one message.
pub(super) struct FixReader<'n> {
    space: Space,
    /// The names of a named fleet; `None` for a numeric fleet.
    names: Option<&'n NameTable>,
    /// Whether a measure that cannot be stored is dropped instead of its row.
    drops_measures: bool,
    validator: RowValidator,
    columns: FixColumns,
    refused: RefusedRows,
    refused_count: u32,
    dropped: Option<Box<DroppedOnReceipt>>,
    /// Rows whose position was refused, and the coordinate at fault.
    faults: Faults,
}

macro_rules! render {
    ($(
        $column:ident $field:ident: $type:ty, $api:ident: $api_type:ty, $number:ident $rest:tt;
    )+) => {
        #[derive(Clone, Copy, Debug, Default, PartialEq)]
        struct Fix<'a> {
            object: u64,
            time_ms: i64,
            x: f64,
            y: f64,
            $($api: Option<$api_type>,)+
            state: u32,
            name: &'a [u8],
        }

        impl<'a> Fix<'a> {
            /// Returns the row with this position.
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

            /// Sets the optional field with this key from the bytes after the key; returns the
            /// bytes after the field.
            #[inline]
            fn read(&mut self, key: u8, bytes: &'a [u8]) -> Option<&'a [u8]> {
                $(if key == key_of::<$api_type>(fix::$number) {
                    let (value, rest) = <$api_type>::split(bytes)?;
                    self.$api = Some(value);
                    return Some(rest);
                })+
                if key == NAME_KEY {
                    let (length, rest) = bytes.split_first()?;
                    let length = usize::from(*length);
                    let (name, rest) = rest.split_at_checked(length).filter(|_| length < 0x80)?;
                    self.name = name;
                    return Some(rest);
                }
                if key != key_of::<u32>(fix::STATE) {
                    return None;
                }
                let (state, rest) = u32::split(bytes)?;
                self.state = state;
                Some(rest)
            }

            /// Removes the measures that cannot be stored; returns the reason for each.
            fn drop_invalid_measures(&mut self) -> Vec<Refusal> {
                let mut dropped = Vec::new();
                $(if !MEASURES.$field.is_valid(MEASURES.$field.store_optional(self.$api)) {
                    self.$api = None;
                    dropped.push(Refusal::$column);
                })+
                dropped
            }

            /// Sets one field; `None` if the value has another type.
            fn set(&mut self, number: u32, value: Value<'a>) -> Option<()> {
                match number {
                    fix::OBJECT => self.object = u64::of(value)?,
                    fix::TIME_MS => self.time_ms = u64::of(value)? as i64,
                    fix::X => self.x = f64::of(value)?,
                    fix::Y => self.y = f64::of(value)?,
                    $(fix::$number => self.$api = Some(<$api_type>::of(value)?),)+
                    fix::STATE => self.state = u32::of(value)?,
                    fix::NAME => {
                        let Value::Bytes(name) = value else { return None };
                        self.name = name;
                    }
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
    /// The value at the start of the bytes, and the bytes after it.
    fn split(bytes: &[u8]) -> Option<(Self, &[u8])>;
    /// Converts the value of a field; `None` if its wire type differs.
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

/// The one-byte key of a field.
const fn key_of<T: Fixed>(field: u32) -> u8 {
    assert!(field < 16);
    (field as u8) << 3 | T::WIRE_TYPE
}

impl<'n> FixReader<'n> {
    /// Creates columns with capacity for exactly `rows`. `time_max_ms` affects only
    /// the reason of rows with several faults. The cycle refuses rows whose only fault is a later
    /// time.
    pub(super) fn new(
        space: Space,
        names: Option<&'n NameTable>,
        time_max_ms: i64,
        rows: usize,
        drops_measures: bool,
    ) -> Self {
        Self {
            space,
            names,
            drops_measures,
            validator: RowValidator::new(&space, time_max_ms),
            columns: FixColumns::with_capacity(rows),
            refused: RefusedRows::default(),
            refused_count: 0,
            dropped: None,
            faults: Faults::new(),
        }
    }

    /// Reads all fixes.
    ///
    /// # Errors
    /// [`ServiceError::Malformed`].
    pub(super) fn read(&mut self, fixes: &mut Fixes<'_>) -> Result<(), ServiceError> {
        if let Some(names) = self.names {
            return self.read_named(names, fixes);
        }
        while let Some((bytes, base)) = fixes.next_fix()? {
            let fix = match plain(bytes) {
                Some(fix) => fix,
                None => parse(bytes, base)?,
            };
            self.push(&fix);
        }
        Ok(())
    }

    /// As [`Self::read`] in a named fleet. Names get numbers only after all fixes are read, so that
    /// a malformed message adds no names.
    fn read_named(&mut self, table: &NameTable, fixes: &mut Fixes<'_>) -> Result<(), ServiceError> {
        let mut names = Vec::with_capacity(self.columns.object.capacity());
        while let Some((bytes, base)) = fixes.next_fix()? {
            let fix = match plain_named(bytes) {
                Some(fix) => fix,
                None => parse(bytes, base)?,
            };
            let Ok(name) = std::str::from_utf8(fix.name) else {
                return Err(ProtobufReader::new("Fix", bytes, base).malformed("name is not UTF-8"));
            };
            let converted = self.convert_named(&fix, name).or_else(|refusal| {
                self.mended(&fix, refusal, |reader, fix| reader.convert_named(fix, name))
            });
            match converted {
                Ok(row) => {
                    self.columns.push_row(row);
                    names.push(name);
                }
                Err(refusal) => self.refuse(&fix, refusal),
            }
        }
        self.columns.object.clear();
        table.intern_all(&names, &mut self.columns.object);
        if self.columns.object.contains(&0) {
            self.refuse_unnumbered();
        }
        Ok(())
    }

    /// Refuses the rows whose names got no number because the fleet is at its limit of names.
    #[cold]
    fn refuse_unnumbered(&mut self) {
        let columns = std::mem::take(&mut self.columns);
        let mut unnumbered = Vec::new();
        for at in 0..columns.len() {
            let row = columns.row(at);
            if row.object == 0 {
                unnumbered.push((at as u32, Refusal::NameLimit));
            } else {
                self.columns.push_row(row);
            }
        }
        self.refused_count += unnumbered.len() as u32;
        self.refused = std::mem::take(&mut self.refused).joined(&unnumbered);
    }

    /// The number of the next row in the message.
    fn row_number(&self) -> u32 {
        self.columns.len() as u32 + self.refused_count
    }

    /// Returns the converted request, and the coordinates at fault.
    pub(super) fn finish(self) -> (ConvertedRequest, Faults) {
        let Self { columns, refused, dropped, faults, .. } = self;
        let request = Request::Fixes(columns).into();
        (ConvertedRequest { refused, dropped, ..request }, faults)
    }

    #[inline]
    fn push(&mut self, fix: &Fix<'_>) {
        match self.convert(fix).or_else(|refusal| self.mended(fix, refusal, Self::convert)) {
            Ok(row) => self.columns.push_row(row),
            Err(refusal) => self.refuse(fix, refusal),
        }
    }

    /// Converts a row that was refused, without the measures that cannot be stored, if the message
    /// asks for it. Measures of a row that is refused here for another fault do not count as
    /// dropped; the engine may still refuse the row for its time or its object.
    #[cold]
    fn mended(
        &mut self,
        fix: &Fix<'_>,
        refusal: Refusal,
        convert: impl Fn(&Self, &Fix<'_>) -> Result<FixRow, Refusal>,
    ) -> Result<FixRow, Refusal> {
        if !self.drops_measures {
            return Err(refusal);
        }
        let mut mended = *fix;
        if mended.heading_deg == Some(360.0) {
            mended.heading_deg = Some(0.0);
        }
        let dropped = mended.drop_invalid_measures();
        let converted = convert(self, &mended)?;
        let row = self.row_number();
        for reason in dropped {
            self.dropped.get_or_insert_default().push(row, reason);
        }
        Ok(converted)
    }

    #[inline]
    fn convert(&self, fix: &Fix<'_>) -> Result<FixRow, Refusal> {
        let row = self.convert_values(fix)?;
        if fix.name.is_empty() { Ok(row) } else { Err(Refusal::NumericFleet) }
    }

    /// Converts a fix to a row without its object; checks the name.
    #[inline]
    fn convert_named(&self, fix: &Fix<'_>, name: &str) -> Result<FixRow, Refusal> {
        let row = self.convert_values(fix)?;
        check_name(name).map_err(|_| Refusal::Name)?;
        if fix.object == 0 { Ok(row) } else { Err(Refusal::NamedFleet) }
    }

    #[inline]
    fn convert_values(&self, fix: &Fix<'_>) -> Result<FixRow, Refusal> {
        let row = fix.row(self.space.quantise(fix.x, fix.y)?);
        if fix.object == u64::MAX {
            return Err(Refusal::Object);
        }
        if fix.time_ms < TIME_MIN_MS {
            return Err(Refusal::TimeTooEarly);
        }
        self.validator.validate_attributes(&row.attributes()).map_or(Ok(row), Err)
    }

    /// Counts an invalid row as refused, under the first of its faults.
    #[cold]
    fn refuse(&mut self, fix: &Fix<'_>, refusal: Refusal) {
        let row = self.row_number();
        self.refused_count += 1;
        let refusal = self.first_fault(row, fix, refusal);
        self.refused.push(row, refusal);
    }

    /// Returns the first fault of an invalid row that has at least the fault `refusal`; records the
    /// coordinate at fault.
    fn first_fault(&mut self, row: u32, fix: &Fix<'_>, refusal: Refusal) -> Refusal {
        let position = self.space.quantise(fix.x, fix.y);
        if position.is_err() && self.faults.len() < REFUSED_ROWS_REPORTED_MAX {
            // y = 0 is valid in every space, so this checks x alone.
            let x_is_right = self.space.quantise(fix.x, 0.0) != Err(refusal);
            self.faults.push((row, if x_is_right { "y" } else { "x" }));
        }
        let Fix { object, time_ms, .. } = *fix;
        let first = match position {
            Ok((x, y)) => self.validator.validate(object, time_ms, x, y),
            Err(_) => (object == u64::MAX).then_some(Refusal::Object),
        };
        first.unwrap_or(refusal)
    }
}

/// Reads a fix in the form that encoders write: the mandatory fields in order, then optional ones.
/// Returns `None` for any other form, which [`parse`] reads at a third of the speed.
#[inline]
fn plain(bytes: &[u8]) -> Option<Fix<'_>> {
    let (head, tail) = bytes.split_first_chunk::<PLAIN_BYTES>()?;
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
    read_tail(&mut fix, tail)?;
    Some(fix)
}

/// Like [`plain`], but for a row with a name instead of the object's number.
#[inline]
fn plain_named(bytes: &[u8]) -> Option<Fix<'_>> {
    let (head, tail) = bytes.split_first_chunk::<NAMED_BYTES>()?;
    let (fields, _) = head.as_chunks::<9>();
    if [fields[0][0], fields[1][0], fields[2][0]] != PLAIN_KEYS[1..] {
        return None;
    }
    let mut fix = Fix {
        time_ms: i64::from_le_bytes(value(&fields[0])),
        x: f64::from_le_bytes(value(&fields[1])),
        y: f64::from_le_bytes(value(&fields[2])),
        ..Fix::default()
    };
    read_tail(&mut fix, tail)?;
    Some(fix)
}

/// Reads the optional fields.
#[inline]
fn read_tail<'a>(fix: &mut Fix<'a>, mut tail: &'a [u8]) -> Option<()> {
    while let Some((&key, rest)) = tail.split_first() {
        tail = fix.read(key, rest)?;
    }
    Some(())
}

/// The eight value bytes of a field.
#[inline]
fn value(field: &[u8; 9]) -> [u8; 8] {
    let mut value = [0; 8];
    value.copy_from_slice(&field[1..]);
    value
}

/// Reads a fix with its fields in any order.
fn parse(bytes: &[u8], base: usize) -> Result<Fix<'_>, ServiceError> {
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
        for case in 0..48 {
            let sent = shoal_proto::v1::Fix {
                object: u64::MAX - 3,
                time_ms: -5,
                x: 1.5,
                y: -2.25,
                speed_mps: speed[case % 2],
                heading_deg: heading[case / 2 % 2],
                altitude_m: altitude[case / 4 % 2],
                state: state[case / 8 % 3],
                name: String::new(),
                valid_s: [None, Some(60.5)][case / 24],
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
            assert_eq!(quick.valid_s, sent.valid_s);
            // `plain` leaves truncated fixes to `parse`, which refuses them.
            for length in 0..bytes.len() {
                if let Some(cut) = plain(&bytes[..length]) {
                    assert_eq!(cut, parse(&bytes[..length], 0).unwrap(), "{length} bytes");
                }
            }
            let mut unknown = bytes.clone();
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
        const LATEST_MS: i64 = 1_800_000_000_000;
        // The engine refuses rows whose only fault is a time that is too late.
        let rows = [
            (good, None),
            (Fix { object: u64::MAX, ..good }, Some(Object)),
            (Fix { time_ms: 0, ..good }, Some(TimeTooEarly)),
            (Fix { time_ms: LATEST_MS + 1, ..good }, None),
            (Fix { x: f64::NAN, ..good }, Some(NotFinite)),
            (Fix { y: 90.1, ..fast }, Some(OutsideSpace)),
            (Fix { object: u64::MAX, y: f64::INFINITY, ..good }, Some(Object)),
            (fast, Some(Speed)),
            (Fix { heading_deg: Some(360.0), altitude_m: Some(1e9), ..good }, Some(Heading)),
            (Fix { altitude_m: Some(f64::NAN), ..good }, Some(Altitude)),
            (Fix { object: u64::MAX, ..fast }, Some(Object)),
            (Fix { time_ms: 0, ..fast }, Some(TimeTooEarly)),
            (Fix { time_ms: LATEST_MS + 1, ..fast }, Some(TimeTooLate)),
            (Fix { time_ms: LATEST_MS, ..fast }, Some(Speed)),
            (good, None),
        ];
        let mut reader = FixReader::new(Space::geographic(), None, LATEST_MS, rows.len(), false);
        rows.iter().for_each(|(fix, _)| reader.push(fix));
        let (converted, faults) = reader.finish();
        let refused = (0..).zip(&rows).filter_map(|(row, (_, refusal))| Some((row, (*refusal)?)));
        assert_eq!(converted.refused.first, refused.collect::<Vec<_>>());
        assert_eq!(converted.request.rows(), 3);
        assert_eq!(faults, [(4, "x"), (5, "y"), (6, "y")]);
        assert_eq!(converted.dropped, None);
    }

    #[test]
    fn measures_that_cannot_be_stored_are_dropped_alone_if_the_message_asks() {
        use Refusal::{Altitude, Heading, NumericFleet, OutsideSpace, Speed, TimeTooEarly};
        let good = Fix { object: 7, time_ms: 1_704_067_200_000, state: 3, ..Fix::default() };
        let fast = Fix { speed_mps: Some(-1.0), altitude_m: Some(2.5), ..good };
        let nan = Some(f32::NAN);
        let rows = [
            good,
            Fix { y: 90.1, ..fast },
            fast,
            Fix { heading_deg: Some(360.0), ..good },
            Fix { speed_mps: nan, heading_deg: nan, altitude_m: Some(1e9), ..good },
            Fix { name: b"a", ..fast },
            Fix { time_ms: 0, heading_deg: Some(511.0), ..good },
            Fix { heading_deg: Some(-0.1), speed_mps: Some(4.0), ..good },
        ];
        let mut reader = FixReader::new(Space::geographic(), None, i64::MAX, rows.len(), true);
        rows.iter().for_each(|fix| reader.push(fix));
        let (converted, _) = reader.finish();
        let refused = [(1, OutsideSpace), (5, NumericFleet), (6, TimeTooEarly)];
        assert_eq!(converted.refused.first, refused);
        let dropped = [(2, Speed), (4, Speed), (4, Heading), (4, Altitude), (7, Heading)];
        assert_eq!(converted.dropped.unwrap().first, dropped);
        let Request::Fixes(columns) = converted.request else { panic!("no rows") };
        let kept = [
            good,
            Fix { altitude_m: Some(2.5), ..good },
            Fix { heading_deg: Some(0.0), ..good },
            good,
            Fix { speed_mps: Some(4.0), ..good },
        ];
        for (at, fix) in kept.iter().enumerate() {
            assert_eq!(columns.row(at), fix.row((0, 0)), "row {at}");
        }
        assert_eq!(columns.len(), kept.len());
    }
}
