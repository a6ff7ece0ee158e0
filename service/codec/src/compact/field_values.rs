//! The values of a field of all tiles: packed as they are or as differences, whichever is smaller
//! (FORMAT.md, sections 11.3 and 12).
//!
//! Values and differences are taken modulo 2^bits of the field, and read as signed numbers where
//! that makes their magnitudes smaller.

use crate::compact::Form;
use crate::compact::body::{Body, mask, put_packed, put_signed, unzigzag};
use crate::error::BlockError;

/// Marks values that are stored as differences.
const IS_DIFFERENCES: u8 = 0x80;
/// Heads from here to below [`IS_DIFFERENCES`] encode one value that all tiles share.
const CONSTANT_HEAD: u8 = 65;
/// Greatest value that a head can encode.
const CONSTANT_MAX: u64 = (IS_DIFFERENCES - 1 - CONSTANT_HEAD) as u64;

/// The low `bits` of a value as a signed number.
fn signed(value: u64, bits: u32) -> i64 {
    let shift = u64::BITS - bits;
    ((value << shift) as i64) >> shift
}

/// Appends the values of a field of `bits` bits; `is_signed` is true if they are signed.
pub(super) fn put(values: &[u64], bits: u32, is_signed: bool, out: &mut Vec<u8>) {
    let Some((first, rest)) = values.split_first() else { return };
    if *first <= CONSTANT_MAX && rest.iter().all(|value| value == first) {
        return out.push(CONSTANT_HEAD + *first as u8);
    }
    let number = |value: u64| if is_signed { signed(value, bits) } else { value as i64 };
    let (mut plain, mut differences) = (Vec::new(), Vec::new());
    let numbers: Vec<i64> = values.iter().map(|value| number(*value)).collect();
    put_above_least(0, &numbers, None, &mut plain);
    let steps: Vec<i64> =
        values.windows(2).map(|pair| signed(pair[1].wrapping_sub(pair[0]), bits)).collect();
    if !steps.is_empty() {
        put_above_least(IS_DIFFERENCES, &steps, Some(numbers[0]), &mut differences);
    }
    let is_shorter = !steps.is_empty() && differences.len() < plain.len();
    out.append(if is_shorter { &mut differences } else { &mut plain });
}

/// Appends one byte of width and `flag`, the first value if there is one (for differences), the
/// least of `numbers`, and the packed distances of all numbers from the least.
fn put_above_least(flag: u8, numbers: &[i64], first: Option<i64>, out: &mut Vec<u8>) {
    let least = numbers.iter().copied().min().unwrap_or(0);
    let above = |number: &i64| number.wrapping_sub(least) as u64;
    let greatest = numbers.iter().map(above).max().unwrap_or(0);
    let width = u64::BITS - greatest.leading_zeros();
    out.push(width as u8 | flag);
    if let Some(first) = first {
        put_signed(first, out);
    }
    put_signed(least, out);
    put_packed(numbers.iter().map(above), width, out);
}

/// Appends the next `count` values of a field of `bits` bits to `out`.
pub(super) fn read(
    form: Form,
    count: usize,
    bits: u32,
    body: &mut Body<'_>,
    out: &mut Vec<u64>,
) -> Result<(), BlockError> {
    if count == 0 {
        return Ok(());
    }
    let [head] = body.take("field")?;
    if form == Form::Second && (CONSTANT_HEAD..IS_DIFFERENCES).contains(&head) {
        out.resize(out.len() + count, u64::from(head - CONSTANT_HEAD) & mask(bits));
        return Ok(());
    }
    let (is_differences, width) = (head & IS_DIFFERENCES != 0, u32::from(head & 0x7f));
    if width > u64::BITS {
        return body.fault(format!("a field has {width} bits, the limit is 64"));
    }
    let packed = if is_differences { count - 1 } else { count };
    match form {
        Form::First => {
            let least = body.number()?;
            body.packed(packed, width, out)?;
            out.iter_mut().for_each(|value| *value = value.wrapping_add(least));
            if is_differences {
                let first = body.number()?;
                sum(first, out, |zigzag| unzigzag(zigzag) as u64);
            }
        }
        Form::Second => {
            let first = if is_differences { Some(body.signed()? as u64) } else { None };
            let least = body.signed()? as u64;
            body.packed(packed, width, out)?;
            out.iter_mut().for_each(|value| *value = value.wrapping_add(least));
            if let Some(first) = first {
                sum(first, out, |difference| difference);
            }
        }
    }
    out.iter_mut().for_each(|value| *value &= mask(bits));
    Ok(())
}

/// Replaces differences by values: `first`, then one running sum for each difference.
fn sum(first: u64, values: &mut Vec<u64>, difference: impl Fn(u64) -> u64) {
    let mut value = first;
    for each in &mut *values {
        let next = value.wrapping_add(difference(*each));
        (*each, value) = (value, next);
    }
    values.push(value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_come_back() {
        let wide = u64::MAX;
        for (bits, is_signed, values) in [
            (8, false, &[][..]),
            (8, false, &[0]),
            (64, true, &[wide]),
            (16, false, &[7, 7, 7]),
            (64, false, &[0, wide, 0, 1 << 63]),
            (32, true, &[wide & mask(32), 1023, 2047, 3071]),
            (32, true, &[1_000_000, 1_000_003, 999_990, 1_000_001]),
            (32, false, &[1 << 31, (1 << 31) - 1, wide & mask(32), 0]),
            (8, false, &[255, 0, 255, 1]),
            (11, false, &[63, 63]),
        ] {
            let mut bytes = Vec::new();
            put(values, bits, is_signed, &mut bytes);
            let mut back = Vec::new();
            let mut body = Body::new(&bytes, 0);
            read(Form::Second, values.len(), bits, &mut body, &mut back).unwrap();
            assert_eq!((back.as_slice(), body.rest().len()), (values, 0));
            for cut in 0..bytes.len() {
                let mut body = Body::new(&bytes[..cut], 0);
                let result = read(Form::Second, values.len(), bits, &mut body, &mut Vec::new());
                assert!(result.is_err(), "{values:?}, {cut}");
            }
        }
    }

    #[test]
    fn small_values_take_few_bytes() {
        let bytes = |values: &[u64], is_signed| {
            let mut bytes = Vec::new();
            put(values, 32, is_signed, &mut bytes);
            bytes
        };
        assert_eq!(bytes(&[62; 40], false), [CONSTANT_HEAD + 62]);
        assert_eq!(bytes(&[63; 40], false), [0, 126]);
        // -1, then 1,024 more in each tile: one width, first value and difference.
        assert_eq!(bytes(&[0xffff_ffff, 1023, 2047, 3071], true), [0x80, 1, 0x80, 0x10]);
        // -2 to 1: two bits each above -2.
        assert_eq!(bytes(&[0xffff_fffe, 1, 0xffff_ffff, 0], true), [2, 3, 0b1001_1100]);
    }
}
