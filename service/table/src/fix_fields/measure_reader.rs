//! RowMeasures of files: unknown where the file says so, dropped or kept where they cannot be stored.

use std::ops::RangeInclusive;

use shoal_codec::MEASURES;

use super::{AltitudeUnit, FixField, SpeedUnit, TimeUnit, object_number};

/// Words that mean "unknown", in lower case.
const UNKNOWN_WORDS: [&str; 10] =
    ["", "-", "--", "\\n", "null", "na", "n/a", "nan", "none", "unknown"];
/// "Not available" of the speed in AIS, in knots (ITU-R M.1371, message 1).
const AIS_SPEED_UNKNOWN: f64 = 102.3;
/// "Not available" of the heading in AIS, in degrees.
const AIS_HEADING_UNKNOWN: f64 = 511.0;

/// Values that can be stored for sure, in m/s, degrees, metres and seconds: the usual ones, for
/// which the stored value need not be computed.
const SPEEDS: RangeInclusive<f64> = 0.0..=10_000.0;
const HEADINGS: RangeInclusive<f64> = 0.0..=359.0;
const ALTITUDES: RangeInclusive<f64> = -10_000.0..=100_000.0;
const VALIDITIES: RangeInclusive<f64> = 0.0..=4_000_000.0;

/// The measures of one row in units of the file, as the file states them.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RowMeasures {
    /// Speed.
    pub speed: Option<f64>,
    /// Heading, degrees.
    pub heading: Option<f64>,
    /// Altitude.
    pub altitude: Option<f64>,
    /// How long the fix is valid.
    pub validity: Option<f64>,
}

/// The text of a measure is no number.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a number")]
pub struct NotANumber;

/// Reads the measures of one file.
#[derive(Clone, Copy, Debug)]
pub struct MeasureReader {
    speed_unit: SpeedUnit,
    altitude_unit: AltitudeUnit,
    validity_unit: TimeUnit,
    is_strict: bool,
}

impl MeasureReader {
    /// For a file with these units and validities in seconds. `is_strict` keeps values that cannot
    /// be stored, for the server to refuse.
    #[must_use]
    pub fn new(speed_unit: SpeedUnit, altitude_unit: AltitudeUnit, is_strict: bool) -> Self {
        Self { speed_unit, altitude_unit, validity_unit: TimeUnit::Seconds, is_strict }
    }

    /// The same reader for validities in this unit.
    #[must_use]
    pub fn with_validities_in(self, validity_unit: TimeUnit) -> Self {
        Self { validity_unit, ..self }
    }

    /// The same reader for altitudes in metres.
    #[must_use]
    pub fn in_metres(&self) -> Self {
        Self { altitude_unit: AltitudeUnit::Metres, ..*self }
    }

    /// Converts the measures to m/s, degrees, metres and seconds. Values that mean "not available" become
    /// unknown, a heading of 360 becomes 0; a value that cannot be stored becomes unknown after a
    /// call of `drop` with its field and the value as the file states it.
    #[inline]
    pub fn convert(&self, read: RowMeasures, mut drop: impl FnMut(FixField, f64)) -> RowMeasures {
        let speed = read.speed.map(|speed| self.speed_unit.to_m_s(speed));
        let altitude = read.altitude.map(|altitude| self.altitude_unit.to_m(altitude));
        let is_ais =
            read.heading == Some(AIS_HEADING_UNKNOWN) || self.speed_unit == SpeedUnit::Knots;
        let is_unavailable =
            |raw: f64| raw == -1.0 || raw.is_nan() || (is_ais && is(raw, AIS_SPEED_UNKNOWN));
        let speed = speed.zip(read.speed).filter(|(_, raw)| !is_unavailable(*raw));
        let heading = read.heading.filter(|heading| {
            !(heading.is_nan() || *heading == -1.0 || is(*heading, AIS_HEADING_UNKNOWN))
        });
        let altitude = altitude.zip(read.altitude).filter(|(_, raw)| !raw.is_nan());
        let validity = read.validity.filter(|raw| !raw.is_nan());
        let of = &MEASURES;
        RowMeasures {
            // The protocol has speeds and headings as `f32`.
            speed: self.kept(
                speed,
                |speed| {
                    SPEEDS.contains(&speed)
                        || of.speed_mm_s.is_valid(of.speed_mm_s.store(speed as f32))
                },
                |raw| drop(FixField::Speed, raw),
            ),
            heading: self.kept(
                heading.map(|heading| (if heading == 360.0 { 0.0 } else { heading }, heading)),
                |heading| {
                    HEADINGS.contains(&heading)
                        || of.heading_cdeg.is_valid(of.heading_cdeg.store(heading as f32))
                },
                |raw| drop(FixField::Heading, raw),
            ),
            altitude: self.kept(
                altitude,
                |altitude| {
                    ALTITUDES.contains(&altitude)
                        || of.altitude_mm.is_valid(of.altitude_mm.store(altitude))
                },
                |raw| drop(FixField::Altitude, raw),
            ),
            validity: self.kept(
                validity.map(|raw| (self.validity_unit.to_s(raw), raw)),
                |validity| {
                    VALIDITIES.contains(&validity)
                        || of.valid_ms.is_valid(of.valid_ms.store(validity))
                },
                |raw| drop(FixField::Validity, raw),
            ),
        }
    }
}

impl MeasureReader {
    /// A value that can be stored, or any if the file is read strictly; otherwise `drop` is called
    /// with the value of the file.
    #[inline]
    fn kept(
        &self,
        value: Option<(f64, f64)>,
        can_store: impl Fn(f64) -> bool,
        mut drop: impl FnMut(f64),
    ) -> Option<f64> {
        let (value, raw) = value?;
        if self.is_strict || can_store(value) {
            return Some(value);
        }
        drop(raw);
        None
    }
}

/// True if a value of a file is a constant; conversions may have changed its last digits.
fn is(value: f64, constant: f64) -> bool {
    (value - constant).abs() < 1e-6
}

/// Reads the text of a measure: a number, or `None` if the text means "unknown".
///
/// # Errors
/// The text is neither.
pub fn measure_text(text: &str) -> Result<Option<f64>, NotANumber> {
    measure_text_of(text, false)
}

/// As [`measure_text`]; a decimal comma is accepted if `has_decimal_comma`.
#[inline]
pub(crate) fn measure_text_of(
    text: &str,
    has_decimal_comma: bool,
) -> Result<Option<f64>, NotANumber> {
    if text.is_empty() {
        return Ok(None);
    }
    if let Some(value) = real(text, has_decimal_comma).filter(|value| value.is_finite()) {
        return Ok(Some(value));
    }
    if is_unknown(text) { Ok(None) } else { Err(NotANumber) }
}

fn is_unknown(text: &str) -> bool {
    text.len() <= 7 && UNKNOWN_WORDS.contains(&text.to_ascii_lowercase().as_str())
}

/// Reads state bits, decimal, with or without `.0`, or hexadecimal with `0x`; 0 if they are unknown.
/// `None` if the text is none of these.
#[inline]
#[must_use]
pub fn state_bits(text: &str) -> Option<u32> {
    if text.is_empty() {
        return Some(0);
    }
    match text.strip_prefix("0x") {
        Some(digits) => u32::from_str_radix(digits, 16).ok(),
        None if is_unknown(text) => Some(0),
        None => object_number(text, false).and_then(|bits| u32::try_from(bits).ok()),
    }
}

/// Reads a number; its decimals follow a point, or a comma if `has_decimal_comma`.
#[inline]
pub(crate) fn real(text: &str, has_decimal_comma: bool) -> Option<f64> {
    match text.parse() {
        Ok(value) => Some(value),
        Err(_) if has_decimal_comma && text.matches(',').count() == 1 && !text.contains('.') => {
            text.replace(',', ".").parse().ok()
        }
        Err(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(speed_unit: SpeedUnit) -> MeasureReader {
        MeasureReader::new(speed_unit, AltitudeUnit::Feet, false)
    }

    fn convert(
        reader: &MeasureReader,
        read: [Option<f64>; 3],
    ) -> (RowMeasures, Vec<(FixField, f64)>) {
        let [speed, heading, altitude] = read;
        let mut dropped = Vec::new();
        let read = RowMeasures { speed, heading, altitude, validity: None };
        let kept = reader.convert(read, |field, raw| dropped.push((field, raw)));
        (kept, dropped)
    }

    #[test]
    fn values_for_not_available_are_unknown_and_not_counted() {
        for unit in [SpeedUnit::MetresPerSecond, SpeedUnit::Knots] {
            for read in [[Some(-1.0), Some(-1.0), None], [Some(102.3), Some(511.0), None]] {
                assert_eq!(convert(&reader(unit), read), (RowMeasures::default(), vec![]));
            }
        }
        // 102.3 m/s is the speed of an aircraft.
        let (kept, _) = convert(&reader(SpeedUnit::MetresPerSecond), [Some(102.3), None, None]);
        assert_eq!(kept.speed, Some(102.3));
    }

    #[test]
    fn values_that_cannot_be_stored_are_dropped_alone() {
        let (kept, dropped) =
            convert(&reader(SpeedUnit::KilometresPerHour), [Some(36.0), Some(360.0), Some(1e3)]);
        assert_eq!((kept.speed, kept.heading, dropped), (Some(10.0), Some(0.0), vec![]));
        assert!((kept.altitude.unwrap() - 304.8).abs() < 1e-9);
        let (kept, dropped) =
            convert(&reader(SpeedUnit::default()), [Some(-7.0), Some(361.0), Some(1e9)]);
        assert_eq!(kept, RowMeasures::default());
        assert_eq!(
            dropped,
            [(FixField::Speed, -7.0), (FixField::Heading, 361.0), (FixField::Altitude, 1e9)]
        );
        let strict = MeasureReader { is_strict: true, ..reader(SpeedUnit::default()) };
        let (kept, dropped) = convert(&strict, [Some(-7.0), Some(360.0), None]);
        assert_eq!((kept.speed, kept.heading, dropped), (Some(-7.0), Some(0.0), vec![]));
        let (kept, _) = convert(&strict, [Some(-1.0), Some(511.0), Some(f64::NAN)]);
        assert_eq!(kept, RowMeasures::default());
    }

    #[test]
    fn validities_have_a_unit_and_are_not_negative() {
        let reader = reader(SpeedUnit::default()).with_validities_in(TimeUnit::Milliseconds);
        for (raw, kept) in
            [(1_500.0, Some(1.5)), (0.0, Some(0.0)), (-1.0, None), (5e9, None), (f64::NAN, None)]
        {
            let (mut dropped, read) =
                (0, RowMeasures { validity: Some(raw), ..Default::default() });
            assert_eq!(reader.convert(read, |_, _| dropped += 1).validity, kept, "{raw}");
            assert_eq!(dropped, u32::from(kept.is_none() && !raw.is_nan()), "{raw}");
        }
    }

    #[test]
    fn usual_values_can_be_stored() {
        let of = &MEASURES;
        for speed in [*SPEEDS.start(), *SPEEDS.end()] {
            assert!(of.speed_mm_s.is_valid(of.speed_mm_s.store(speed as f32)));
        }
        for heading in [*HEADINGS.start(), *HEADINGS.end()] {
            assert!(of.heading_cdeg.is_valid(of.heading_cdeg.store(heading as f32)));
        }
        for altitude in [*ALTITUDES.start(), *ALTITUDES.end()] {
            assert!(of.altitude_mm.is_valid(of.altitude_mm.store(altitude)));
        }
        for validity in [*VALIDITIES.start(), *VALIDITIES.end()] {
            assert!(of.valid_ms.is_valid(of.valid_ms.store(validity)));
        }
    }

    #[test]
    fn state_bits_are_decimal_or_hexadecimal() {
        for (text, bits) in [("", 0), ("NULL", 0), ("-", 0), ("7", 7), ("7.0", 7), ("0x1F", 31)] {
            assert_eq!(state_bits(text), Some(bits), "{text}");
        }
        assert_eq!(state_bits("TX").or(state_bits("-1")).or(state_bits("4294967296")), None);
    }

    #[test]
    fn words_for_unknown_are_known() {
        for text in ["", "NULL", "NA", "nan", "NaN", "\\N", "-", "n/a", "None"] {
            assert_eq!(measure_text_of(text, false), Ok(None), "{text}");
        }
        assert_eq!(measure_text_of("-1.5", false), Ok(Some(-1.5)));
        assert_eq!(measure_text_of("1,5", true), Ok(Some(1.5)));
        for text in ["fast", "1,5", "inf", "1.000,5"] {
            assert_eq!(measure_text_of(text, text.len() > 4), Err(NotANumber), "{text}");
        }
    }
}
