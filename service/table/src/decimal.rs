//! Canonical decimals: numbers whose text is restored byte for byte when they are printed.
//!
//! A canonical decimal has an optional minus, an integer part without leading zeros, and digits
//! after the point if it has a point. It has no plus, exponent or space, and no minus before zero.

/// Maximum number of digits before and after the point together. The greatest u64 has as many.
const DIGITS_MAX: usize = 20;

/// A canonical decimal: `mantissa` / 10^`decimals`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decimal {
    /// All digits as one integer, from -2^64 + 1 to 2^64 - 1.
    pub(crate) mantissa: i128,
    /// Digits after the point.
    pub(crate) decimals: u8,
    /// True if the last digit after the point is 0.
    pub(crate) ends_in_zero: bool,
}

impl Decimal {
    /// Parses a text; `None` if it is not canonical or its magnitude exceeds 64 bits.
    pub(crate) fn parse(text: &[u8]) -> Option<Self> {
        let (is_negative, digits) = match text.strip_prefix(b"-") {
            Some(rest) => (true, rest),
            None => (false, text),
        };
        let (whole, fraction) = match digits.iter().position(|byte| *byte == b'.') {
            Some(point) => (&digits[..point], &digits[point + 1..]),
            None => (digits, &digits[digits.len()..]),
        };
        let has_point = whole.len() < digits.len();
        let is_canonical = !whole.is_empty() && (whole[0] != b'0' || whole.len() == 1);
        let count = whole.len() + fraction.len();
        if !is_canonical || (has_point && fraction.is_empty()) || count > DIGITS_MAX {
            return None;
        }
        let mut magnitude: u64 = 0;
        for digit in whole.iter().chain(fraction) {
            if !digit.is_ascii_digit() {
                return None;
            }
            magnitude = magnitude.checked_mul(10)?.checked_add(u64::from(digit - b'0'))?;
        }
        if is_negative && magnitude == 0 {
            return None;
        }
        let mantissa = i128::from(magnitude);
        Some(Self {
            mantissa: if is_negative { -mantissa } else { mantissa },
            decimals: fraction.len() as u8,
            ends_in_zero: fraction.last() == Some(&b'0'),
        })
    }

    /// Its value in units of 10^-`precision`; `precision` is at least its decimals.
    pub(crate) fn scaled(self, precision: u8) -> i128 {
        self.mantissa * 10_i128.pow(u32::from(precision - self.decimals))
    }
}

/// Appends `value` / 10^`precision` with at least `precision_min` decimals; trailing zeros beyond
/// these are omitted.
pub(crate) fn print(value: i128, precision: u8, precision_min: u8, out: &mut Vec<u8>) {
    let (mut decimals, mut magnitude) = (precision, value.unsigned_abs());
    while decimals > precision_min && magnitude.is_multiple_of(10) {
        decimals -= 1;
        magnitude /= 10;
    }
    // Digits are written from the last to the first; 40 bytes hold any i128 with a point.
    let (mut text, mut start, mut left) = ([0_u8; 64], 64, magnitude);
    let mut printed = 0;
    while left > 0 || printed <= usize::from(decimals) {
        if decimals > 0 && printed == usize::from(decimals) {
            start -= 1;
            text[start] = b'.';
        }
        start -= 1;
        text[start] = b'0' + (left % 10) as u8;
        left /= 10;
        printed += 1;
    }
    if value < 0 {
        start -= 1;
        text[start] = b'-';
    }
    out.extend_from_slice(&text[start..]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(value: i128, precision: u8, least: u8) -> String {
        let mut out = Vec::new();
        print(value, precision, least, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn decimals_are_printed_as_they_were_read() {
        for (text, value, precision, least) in [
            ("0", 0, 0, 0),
            ("0", 0, 3, 0),
            ("0.0", 0, 3, 1),
            ("0.000", 0, 3, 3),
            ("-0.5", -500, 3, 0),
            ("-97.743", -97_743_000, 6, 0),
            ("1.50", 150, 2, 2),
            ("1.5", 1_500, 3, 1),
            ("10", 10, 0, 0),
            ("100", 1_000, 1, 0),
            ("18446744073709551615", i128::from(u64::MAX), 0, 0),
            ("-9223372036854775808", i128::from(i64::MIN), 0, 0),
        ] {
            let read = Decimal::parse(text.as_bytes()).unwrap();
            assert_eq!(read.scaled(precision), value, "{text}");
            assert_eq!(printed(value, precision, least), text);
        }
    }

    #[test]
    fn other_texts_are_no_canonical_decimals() {
        let texts = "|-|+1|01|00|-0|-0.0|.5|1.|1e3| 1|1 |1,0|--1|a|1.2.3|18446744073709551616|\
                     99999999999999999999|0x10|NaN|inf";
        for text in texts.split('|') {
            assert_eq!(Decimal::parse(text.as_bytes()), None, "{text}");
        }
    }

    #[test]
    fn every_integer_comes_back_at_every_precision() {
        for value in (-2_000..2_000).chain([i64::MAX, i64::MIN]) {
            for precision in 0..=18 {
                for least in 0..=precision {
                    let text = printed(value.into(), precision, least);
                    let back = Decimal::parse(text.as_bytes()).unwrap();
                    assert_eq!(back.scaled(precision), value.into(), "{text}");
                    assert!(back.decimals == least || !back.ends_in_zero, "{text}");
                }
            }
        }
    }
}
