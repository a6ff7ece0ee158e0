//! Position reports and times in AIS messages (ITU-R M.1371-5, annex 8).
//!
//! Positions are integers of 1/10,000 minute, or of 1/10 minute in messages of long range; they are
//! converted in double precision.

use jiff::civil::DateTime;

/// What a message says.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AisMessage {
    /// The position of a ship or an aircraft of search and rescue.
    Position(AisPosition),
    /// The time of a base station.
    Time(DateTime),
    /// Something else, or a position or time that is not available.
    Other,
}

/// A position report; `None` for a value that is not available.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct AisPosition {
    pub(super) mmsi: u32,
    /// Degrees.
    pub(super) x: f64,
    pub(super) y: f64,
    /// Speed over ground, knots.
    pub(super) speed_knots: Option<f64>,
    /// Course over ground, or the heading if that is not available; degrees.
    pub(super) course_deg: Option<f64>,
    pub(super) altitude_m: Option<f64>,
    /// The second of the minute of the position.
    pub(super) second: Option<i8>,
}

/// Where the fields of a position report are: their first bit.
struct Layout {
    speed: Field,
    x: Field,
    y: Field,
    course: Field,
    heading: Option<Field>,
    second: Option<Field>,
    altitude: Option<Field>,
    /// Units of a degree.
    per_degree: f64,
    /// Units of a knot.
    per_knot: f64,
    /// Units of a degree of the course.
    per_course_degree: f64,
}

/// A field of a message.
#[derive(Clone, Copy)]
struct Field {
    bit: usize,
    bits: usize,
}

const fn at(bit: usize, bits: usize) -> Field {
    Field { bit, bits }
}

/// Messages 1, 2 and 3.
const CLASS_A: Layout = Layout {
    speed: at(50, 10),
    x: at(61, 28),
    y: at(89, 27),
    course: at(116, 12),
    heading: Some(at(128, 9)),
    second: Some(at(137, 6)),
    altitude: None,
    per_degree: 600_000.0,
    per_knot: 10.0,
    per_course_degree: 10.0,
};
/// Messages 18 and 19.
const CLASS_B: Layout = Layout {
    speed: at(46, 10),
    x: at(57, 28),
    y: at(85, 27),
    course: at(112, 12),
    heading: Some(at(124, 9)),
    second: Some(at(133, 6)),
    ..CLASS_A
};
/// Message 9.
const AIRCRAFT: Layout = Layout {
    heading: None,
    second: Some(at(128, 6)),
    altitude: Some(at(38, 12)),
    per_knot: 1.0,
    ..CLASS_A
};
/// Message 27.
const LONG_RANGE: Layout = Layout {
    speed: at(79, 6),
    x: at(44, 18),
    y: at(62, 17),
    course: at(85, 9),
    heading: None,
    second: None,
    altitude: None,
    per_degree: 600.0,
    per_knot: 1.0,
    per_course_degree: 1.0,
};

/// The bits of a message, six in a byte.
struct Bits(Vec<u8>);

impl Bits {
    /// Reads the characters of a payload.
    fn of(payload: &str) -> Result<Self, String> {
        let six = payload.chars().map(|character| match character {
            '0'..='W' => Ok(character as u8 - b'0'),
            '`'..='w' => Ok(character as u8 - b'`' + 40),
            other => Err(format!("`{other}` is no character of a payload")),
        });
        six.collect::<Result<_, _>>().map(Self)
    }

    /// An unsigned field; bits after the end are zeros.
    fn unsigned(&self, Field { bit, bits }: Field) -> u32 {
        (bit..bit + bits).fold(0, |value, bit| {
            let six = self.0.get(bit / 6).copied().unwrap_or_default();
            value << 1 | u32::from(six >> (5 - bit % 6) & 1)
        })
    }

    /// A field in two's complement.
    fn signed(&self, field: Field) -> i32 {
        let unused = 32 - field.bits;
        (self.unsigned(field) << unused).cast_signed() >> unused
    }
}

impl AisMessage {
    /// Reads a message of a payload and its number of fill bits.
    ///
    /// # Errors
    /// The payload has characters that it cannot have, or ends within the fields that are read.
    pub(super) fn of(payload: &str, fill_bits: usize) -> Result<Self, String> {
        let bits = Bits::of(payload)?;
        let bit_count = (6 * bits.0.len()).saturating_sub(fill_bits);
        let message = bits.unsigned(at(0, 6));
        let has = |last: Field| {
            let needed = last.bit + last.bits;
            if bit_count >= needed {
                return Ok(());
            }
            Err(format!("message {message} has {bit_count} bits, less than its {needed}"))
        };
        let layout = match message {
            1..=3 => CLASS_A,
            9 => AIRCRAFT,
            18 | 19 => CLASS_B,
            27 => LONG_RANGE,
            4 | 11 => {
                has(at(72, 6))?;
                return Ok(time(&bits).map_or(Self::Other, Self::Time));
            }
            _ => return Ok(Self::Other),
        };
        has(layout.second.unwrap_or(layout.course))?;
        Ok(position(&bits, &layout).map_or(Self::Other, Self::Position))
    }
}

/// The position of a report; `None` if it is not available.
fn position(bits: &Bits, layout: &Layout) -> Option<AisPosition> {
    let degrees = |field| f64::from(bits.signed(field)) / layout.per_degree;
    let (x, y) = (degrees(layout.x), degrees(layout.y));
    // 181 and 91 degrees mean "not available".
    if x == 181.0 || y == 91.0 {
        return None;
    }
    // The largest value of a field means "not available"; of courses in tenths it is 360 degrees.
    let available = |field: Field| {
        let value = bits.unsigned(field);
        (value != (1 << field.bits) - 1).then(|| f64::from(value))
    };
    let course = available(layout.course).map(|course| course / layout.per_course_degree);
    let heading = layout.heading.and_then(available).filter(|heading| *heading < 360.0);
    let second = layout.second.map(|second| bits.unsigned(second));
    Some(AisPosition {
        mmsi: bits.unsigned(at(8, 30)),
        x,
        y,
        speed_knots: available(layout.speed).map(|speed| speed / layout.per_knot),
        course_deg: course.filter(|course| *course < 360.0).or(heading),
        altitude_m: layout.altitude.and_then(available),
        second: second.filter(|second| *second < 60).map(|second| second as i8),
    })
}

/// The time of a base station; `None` if it is not available.
fn time(bits: &Bits) -> Option<DateTime> {
    let field = |field| i8::try_from(bits.unsigned(field)).ok();
    let year = i16::try_from(bits.unsigned(at(38, 14))).ok().filter(|year| *year > 0)?;
    let (month, day) = (field(at(52, 4))?, field(at(56, 5))?);
    let (hour, minute, second) = (field(at(61, 5))?, field(at(66, 6))?, field(at(72, 6))?);
    DateTime::new(year, month, day, hour, minute, second, 0).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn position(payload: &str) -> AisPosition {
        match AisMessage::of(payload, 0) {
            Ok(AisMessage::Position(position)) => position,
            other => panic!("{other:?}"),
        }
    }

    /// The messages are those of public test sets; the crates `ais` and `nmea-parser` read the same
    /// values.
    #[test]
    fn messages_of_each_kind_have_their_positions() {
        let class_a = position("13u?etPv2;0n:dDPwUM1U1Cb069D");
        assert_eq!((class_a.mmsi, class_a.second), (265_547_250, Some(53)));
        assert_eq!((class_a.speed_knots, class_a.course_deg), (Some(13.9), Some(40.4)));
        assert!((class_a.x - 11.832_976_666).abs() < 1e-8, "{}", class_a.x);
        assert!((class_a.y - 57.660_353_333).abs() < 1e-8, "{}", class_a.y);
        let class_b = position("B6CdCm0t3`tba35f@V9faHi7kP06");
        assert_eq!((class_b.mmsi, class_b.speed_knots), (423_302_100, Some(1.4)));
        assert!((class_b.x - 53.010_996).abs() < 1e-6 && (class_b.y - 40.005_283).abs() < 1e-6);
        assert_eq!((class_b.course_deg, class_b.second), (Some(177.0), Some(34)));
        let aircraft = position("91b55wi;hbOS@OdQAC062Ch2089h");
        assert_eq!((aircraft.mmsi, aircraft.altitude_m), (111_232_511, Some(303.0)));
        assert_eq!((aircraft.speed_knots, aircraft.course_deg), (Some(42.0), Some(154.5)));
        assert!((aircraft.x + 6.278_843).abs() < 1e-6 && (aircraft.y - 58.144).abs() < 1e-6);
        let long_range = position("KC5E2b@U19PFdLbMuc5=ROv62<7m");
        assert_eq!(long_range.mmsi, 206_914_217);
        assert_eq!((long_range.speed_knots, long_range.course_deg), (Some(57.0), Some(167.0)));
        assert!((long_range.x - 137.023_333).abs() < 1e-6, "{}", long_range.x);
        assert!((long_range.y - 4.84).abs() < 1e-6, "{}", long_range.y);
        let base = AisMessage::of("403OviQuMGCqWrRO9>E6fE700@GO", 0);
        let expected: DateTime = "2007-05-14T19:57:39".parse().unwrap();
        assert_eq!(base, Ok(AisMessage::Time(expected)));
    }

    /// Sets a field of a message whose bits there are zeros.
    fn set(six: &mut [u8], Field { bit, bits }: Field, value: u32) {
        for offset in 0..bits {
            let is_set = value >> (bits - 1 - offset) & 1;
            six[(bit + offset) / 6] |= (is_set as u8) << (5 - (bit + offset) % 6);
        }
    }

    #[test]
    fn values_that_are_not_available_are_none() {
        // Message 1 with position, speed, course and heading that are not available.
        let mut six = vec![0_u8; 28];
        set(&mut six, at(0, 6), 1);
        set(&mut six, at(8, 30), 7);
        set(&mut six, CLASS_A.speed, 1_023);
        set(&mut six, CLASS_A.course, 3_600);
        set(&mut six, at(128, 9), 511);
        set(&mut six, at(137, 6), 60);
        let armored = |six: &[u8]| {
            let armor = |six: &u8| char::from(if *six < 40 { six + 48 } else { six + 56 });
            six.iter().map(armor).collect::<String>()
        };
        let found = position(&armored(&six));
        assert_eq!((found.mmsi, found.x, found.speed_knots), (7, 0.0, None));
        assert_eq!((found.course_deg, found.second), (None, None));
        set(&mut six, CLASS_A.x, 181 * 600_000);
        set(&mut six, CLASS_A.y, 91 * 600_000);
        assert_eq!(AisMessage::of(&armored(&six), 0), Ok(AisMessage::Other));
        let fault = AisMessage::of(&armored(&six[..20]), 0).unwrap_err();
        assert_eq!(fault, "message 1 has 120 bits, less than its 143");
        assert!(AisMessage::of("1 3", 0).unwrap_err().contains("no character"));
        // Message 5 has no position, and an empty payload none either.
        assert_eq!(AisMessage::of("5", 0).and(AisMessage::of("", 0)), Ok(AisMessage::Other));
    }
}
