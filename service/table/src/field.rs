//! Converts the text of a field to a value of its column and back.
//!
//! A value is a bit pattern in the low bytes of a u64. A field has a value only if printing it
//! restores the field byte for byte (FILE.md, section 2).

use std::fmt::{Debug, Display};
use std::io::Write as _;
use std::str::FromStr;

use crate::decimal::{Decimal, print};
use crate::header::{ColumnHeader, FloatStyle, Kind};

/// Values of an empty field in columns of f64 and f32: quiet NaNs that arithmetic does not produce.
const EMPTY_F64: u64 = 0x7ff8_0000_0000_0001;
const EMPTY_F32: u32 = 0x7fc0_0001;

/// Reads and prints the fields of one column of numbers.
#[derive(Clone, Copy, Debug)]
pub(crate) enum FieldForm {
    /// Integers in units of a power of ten.
    Decimal {
        /// Least and greatest value of the type.
        range: (i128, i128),
        /// Greatest number of decimals of a field; values are in units of 10^-`precision`.
        precision: u8,
        /// Least number of decimals that are printed.
        precision_min: u8,
        /// The value of an empty field.
        empty: Option<i128>,
    },
    /// binary32.
    F32(FloatStyle, bool),
    /// binary64.
    F64(FloatStyle, bool),
}

impl FieldForm {
    /// Returns the form of a column; `None` for text.
    pub(crate) fn new(column: &ColumnHeader) -> Option<Self> {
        let style = column.style.unwrap_or_default();
        match column.kind {
            Kind::Text => None,
            Kind::F32 => Some(Self::F32(style, column.empty)),
            Kind::F64 => Some(Self::F64(style, column.empty)),
            _ => {
                let (least, greatest) = column.kind.integers()?;
                let sentinel = if least < 0 { least } else { greatest };
                let precision = column.precision.unwrap_or(0);
                Some(Self::Decimal {
                    range: (least, greatest),
                    precision,
                    precision_min: column.precision_min.unwrap_or(precision),
                    empty: column.empty.then_some(sentinel),
                })
            }
        }
    }

    /// The value of a field; `None` if printing the value would not restore the field.
    pub(crate) fn read(&self, field: &[u8]) -> Option<u64> {
        match self {
            Self::Decimal { range, precision, precision_min, empty } => {
                if field.is_empty() {
                    return empty.map(|value| value as u64);
                }
                let decimal = Decimal::parse(field)?;
                let is_restored = (*precision_min..=*precision).contains(&decimal.decimals)
                    && (decimal.decimals == *precision_min || !decimal.ends_in_zero);
                if !is_restored {
                    return None;
                }
                let value = decimal.scaled(*precision);
                let is_value = (range.0..=range.1).contains(&value) && Some(value) != *empty;
                // The low bits of the two's complement are the bit pattern of a type of any width.
                is_value.then_some(value as u64)
            }
            Self::F32(_, true) if field.is_empty() => Some(EMPTY_F32.into()),
            Self::F64(_, true) if field.is_empty() => Some(EMPTY_F64),
            Self::F32(style, _) => float(*style, field).map(|value: f32| value.to_bits().into()),
            Self::F64(style, _) => float(*style, field).map(|value: f64| value.to_bits()),
        }
    }

    /// Appends the text of a value.
    pub(crate) fn print(&self, pattern: u64, out: &mut Vec<u8>) {
        match self {
            Self::Decimal { range, precision, precision_min, empty } => {
                let value = extended(pattern, *range);
                if Some(value) != *empty {
                    print(value, *precision, *precision_min, out);
                }
            }
            Self::F32(style, empty) => {
                let bits = pattern as u32;
                if !(*empty && bits == EMPTY_F32) {
                    print_float(*style, &f32::from_bits(bits), out);
                }
            }
            Self::F64(style, empty) => {
                if !(*empty && pattern == EMPTY_F64) {
                    print_float(*style, &f64::from_bits(pattern), out);
                }
            }
        }
    }
}

/// Converts a bit pattern to the integer value of a type with this range.
fn extended(pattern: u64, (least, greatest): (i128, i128)) -> i128 {
    let value = i128::from(pattern) & (greatest - least);
    if value > greatest { value - (greatest - least + 1) } else { value }
}

/// Returns the float of a field; `None` if the style would not print the field. NaN has only one
/// bit pattern here.
fn float<T>(style: FloatStyle, field: &[u8]) -> Option<T>
where
    T: FromStr + Display + Debug + Copy + Into<f64>,
{
    let value: T = std::str::from_utf8(field).ok()?.parse().ok()?;
    let mut printed = Vec::with_capacity(32);
    print_float(style, &value, &mut printed);
    (printed == field).then_some(value)
}

fn print_float<T>(style: FloatStyle, value: &T, out: &mut Vec<u8>)
where
    T: Display + Debug + Copy + Into<f64>,
{
    let written = match style {
        FloatStyle::Shortest => write!(out, "{value}"),
        FloatStyle::Point => write!(out, "{value:?}"),
        FloatStyle::Exact => write!(out, "{value:.*}", fraction_bits((*value).into())),
    };
    written.expect("writing to memory does not fail");
}

/// Number of binary digits of a value after the point; each takes one decimal digit.
fn fraction_bits(value: f64) -> usize {
    const MANTISSA_BITS: u32 = f64::MANTISSA_DIGITS - 1;
    // The lowest mantissa bit of a value whose stored exponent is 0 has the weight 2 to this power.
    const LEAST_EXPONENT: i32 = f64::MIN_EXP - f64::MANTISSA_DIGITS as i32;
    if !value.is_finite() || value == 0.0 {
        return 0;
    }
    let stored = (value.to_bits() >> MANTISSA_BITS & 0x7ff) as i32;
    let mantissa = value.to_bits() & ((1 << MANTISSA_BITS) - 1);
    let mantissa = mantissa | u64::from(stored > 0) << MANTISSA_BITS;
    let exponent = LEAST_EXPONENT + stored.max(1) - 1 + mantissa.trailing_zeros() as i32;
    usize::try_from(-exponent).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn form(kind: Kind, change: impl Fn(&mut ColumnHeader)) -> FieldForm {
        let mut column = ColumnHeader::new("v", kind);
        change(&mut column);
        FieldForm::new(&column).unwrap()
    }

    fn comes_back(form: &FieldForm, text: &str) -> bool {
        let Some(value) = form.read(text.as_bytes()) else {
            return false;
        };
        let mut printed = Vec::new();
        form.print(value, &mut printed);
        assert_eq!(String::from_utf8(printed).unwrap(), text);
        true
    }

    #[test]
    fn integers_come_back_up_to_the_limits_of_their_type() {
        for (kind, good, bad) in [
            (Kind::U8, &["0", "255"][..], &["256", "-1", "", "1.0", "01", "x"][..]),
            (Kind::I8, &["-128", "127"], &["128", "-129"]),
            (Kind::I16, &["-32768", "32767"], &["32768"]),
            (Kind::U64, &["18446744073709551615"], &["18446744073709551616", "-1"]),
            (Kind::I64, &["-9223372036854775808", "9223372036854775807"], &["9223372036854775808"]),
        ] {
            let form = form(kind, |_| ());
            assert!(good.iter().all(|text| comes_back(&form, text)), "{kind:?}");
            assert!(!bad.iter().any(|text| comes_back(&form, text)), "{kind:?}");
        }
    }

    #[test]
    fn decimals_and_empty_fields_come_back() {
        let form = form(Kind::I32, |column| {
            column.precision = Some(7);
            column.precision_min = Some(1);
            column.empty = true;
        });
        for text in ["", "0.0", "-97.743", "-0.5", "214.7483647", "-214.7483647"] {
            assert!(comes_back(&form, text), "{text}");
        }
        // The least value stands for an empty field; of `1.00` only one zero would be printed.
        for text in ["-214.7483648", "214.7483648", "1", "1.00", "1.12345678", "-0.0"] {
            assert!(!comes_back(&form, text), "{text}");
        }
    }

    #[test]
    fn floats_come_back_in_their_style() {
        let shortest = form(Kind::F64, |column| column.empty = true);
        for text in ["", "0.1", "-12", "0.30000000000000004", "NaN", "inf", "-0"] {
            assert!(comes_back(&shortest, text), "{text}");
        }
        for text in ["12.0", "0.10", "1e-7", "nan", "+1", "-NaN"] {
            assert!(!comes_back(&shortest, text), "{text}");
        }
        let point = form(Kind::F32, |column| column.style = Some(FloatStyle::Point));
        for text in ["12.0", "0.1", "1e-7", "-0.0"] {
            assert!(comes_back(&point, text), "{text}");
        }
        for text in ["12", "0.123456789", ""] {
            assert!(!comes_back(&point, text), "{text}");
        }
    }

    #[test]
    fn exact_floats_come_back_with_all_their_digits() {
        let exact = |kind| form(kind, |column| column.style = Some(FloatStyle::Exact));
        let tenth = "0.1000000000000000055511151231257827021181583404541015625";
        let garmin = "5.90030402876436710357666015625";
        for text in ["12", "-0.5", "0", "-0", "inf", "NaN", tenth, garmin] {
            assert!(comes_back(&exact(Kind::F64), text), "{text}");
        }
        for text in ["0.1", "0.50", "5.9003040287643671", "1e3", ""] {
            assert!(!comes_back(&exact(Kind::F64), text), "{text}");
        }
        assert!(comes_back(&exact(Kind::F32), "0.100000001490116119384765625"));
        assert!(!comes_back(&exact(Kind::F32), tenth));
        let bounds = [f64::MAX, f64::MIN_POSITIVE, f64::from_bits(1), -f64::EPSILON, 1.5];
        assert_eq!(bounds.map(fraction_bits), [0, 1_022, 1_074, 52, 1]);
        for value in bounds {
            let mut text = Vec::new();
            exact(Kind::F64).print(value.to_bits(), &mut text);
            assert_eq!(exact(Kind::F64).read(&text), Some(value.to_bits()), "{value}");
        }
    }
}
