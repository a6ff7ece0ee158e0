//! Object numbers in texts.

/// Reads an object number: decimal, with or without `.0` as some programs write integers, or
/// hexadecimal if the column is (see [`super::ColumnChoice::is_hexadecimal`]). `None` if the text is
/// none.
#[inline]
#[must_use]
pub fn object_number(text: &str, is_hexadecimal: bool) -> Option<u64> {
    if is_hexadecimal {
        return u64::from_str_radix(text, 16).ok();
    }
    short_number(text).or_else(|| text.parse().ok()).or_else(|| {
        let (whole, decimals) = text.split_once('.')?;
        if decimals.bytes().all(|digit| digit == b'0') { whole.parse().ok() } else { None }
    })
}

/// Reads up to 18 decimal digits, which cannot overflow: most numbers of files. `None` for any other
/// text.
#[inline]
pub(crate) fn short_number(text: &str) -> Option<u64> {
    let bytes = text.as_bytes();
    if !(1..=18).contains(&bytes.len()) {
        return None;
    }
    let mut value = 0;
    for byte in bytes {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = 10 * value + u64::from(digit);
    }
    Some(value)
}

/// Says which object the rows have that state none.
#[must_use]
pub fn object_default_note(object: &str) -> String {
    format!("object = {object} where there is none")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_decimal_or_hexadecimal() {
        assert_eq!(object_number("002442103", false), Some(2_442_103));
        assert_eq!(object_number("7.0", false), Some(7));
        assert_eq!(object_number("7.5", false), None);
        assert_eq!(object_number("-1", false), None);
        assert_eq!(object_number("18446744073709551615", false), Some(u64::MAX));
        assert_eq!(short_number("999999999999999999"), Some(999_999_999_999_999_999));
        for text in ["", "-1", "+1", "1e3", "1234567890123456789", "1:", "1/"] {
            assert_eq!(short_number(text), None, "{text}");
        }
        assert_eq!(object_number("4b1803", true), Some(0x004b_1803));
        assert_eq!(object_number("bus-7", true), None);
    }
}
