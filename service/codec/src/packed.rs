//! Bit packing: `packed(n, w)` of FORMAT.md, section 5.1.
//!
//! Whole groups of 32 values use loops that the compiler unrolls for each width. The values after
//! the last whole group are packed one by one, and unpacked as a group that is padded with zeros.
//! Callers check lengths and widths.

use crate::tile::GROUP_VALUES;
use crate::word::Word;

/// Bytes of a word.
pub(crate) const WORD_BYTES: usize = 4;
/// Bytes of a whole group of the greatest width.
const GROUP_BYTES_MAX: usize = GROUP_VALUES * 8;

/// Words of packed(count, width).
pub(crate) fn words(count: usize, width: u32) -> usize {
    (count * width as usize).div_ceil(32)
}

/// Calls a function that is generic over type and width, with the width as a constant.
macro_rules! with_width {
    ($width:expr, $function:ident::<$type:ty> $arguments:tt) => {
        match_width!($width, $function, $type, $arguments,
            1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31
            32 33 34 35 36 37 38 39 40 41 42 43 44 45 46 47 48 49 50 51 52 53 54 55 56 57 58 59 60
            61 62 63 64)
    };
}

/// Renders the match over all widths for [`with_width`].
macro_rules! match_width {
    ($width:expr, $function:ident, $type:ty, $arguments:tt, $($constant:literal)*) => {
        match $width {
            $(
                // The compiler drops instances above the width of the type.
                $constant if $constant <= <$type>::BITS => {
                    $function::<$type, $constant> $arguments
                }
            )*
            width => unreachable!("widths are checked, {width} is above the type's"),
        }
    };
}

/// Bits 0 to `width` - 1.
const fn mask(width: usize) -> u64 {
    if width >= 64 { u64::MAX } else { (1 << width) - 1 }
}

/// Bytes from `first` on.
#[inline(always)]
fn read<const BYTES: usize>(group: &[u8], first: usize) -> [u8; BYTES] {
    *group[first..].first_chunk().expect("callers stay within the group")
}

/// Returns the `W` bits of a group from bit `bit` on with one read. The read starts at the byte of
/// the first bit, or earlier if it would otherwise pass the end of the group.
#[inline(always)]
fn bits_at<const W: usize>(group: &[u8], bit: usize) -> u64 {
    let first = |bytes: usize| (bit / 8).min(W * WORD_BYTES - bytes);
    let pattern = match W {
        1 => u64::from(u32::from_le_bytes(read(group, 0))) >> bit,
        2..=57 => u64::from_le_bytes(read(group, first(8))) >> (bit - 8 * first(8)),
        _ => (u128::from_le_bytes(read(group, first(16))) >> (bit - 8 * first(16))) as u64,
    };
    pattern & mask(W)
}

/// Unpacks one group of constant width.
#[inline(always)]
fn unpack_width<T: Word, const W: usize>(group: &[u8], out: &mut [T; GROUP_VALUES]) {
    // Eight values at a time, because the compiler does not unroll loops of 32 values. Only
    // unrolled loops have constant shifts.
    for (octet, values) in out.as_chunks_mut::<8>().0.iter_mut().enumerate() {
        for (index, value) in values.iter_mut().enumerate() {
            *value = T::low(bits_at::<W>(group, (octet * 8 + index) * W));
        }
    }
}

/// Unpacks a whole group from its `width` words.
#[inline]
pub(crate) fn unpack_group<T: Word>(bytes: &[u8], width: u32, out: &mut [T; GROUP_VALUES]) {
    if width == 0 {
        *out = [T::default(); GROUP_VALUES];
        return;
    }
    let bytes = &bytes[..width as usize * WORD_BYTES];
    with_width!(width, unpack_width::<T>(bytes, out));
}

/// Packs one group of constant width.
#[inline(always)]
fn pack_width<T: Word, const W: usize>(values: &[T; GROUP_VALUES], out: &mut [u8]) {
    let mut words = [0_u32; 66];
    for (index, value) in values.iter().enumerate() {
        let (first, shift) = (index * W / 32, index * W % 32);
        let pattern: u64 = (*value).into();
        let low = pattern << shift;
        words[first] |= low as u32;
        if shift + W > 32 {
            words[first + 1] |= (low >> 32) as u32;
        }
        if shift + W > 64 {
            words[first + 2] |= (pattern >> (64 - shift)) as u32;
        }
    }
    for (word, bytes) in words[..W].iter().zip(out.as_chunks_mut::<WORD_BYTES>().0) {
        *bytes = word.to_le_bytes();
    }
}

/// Appends a whole group; its values have at most `width` bits.
#[inline]
pub(crate) fn pack_group<T: Word>(values: &[T; GROUP_VALUES], width: u32, out: &mut Vec<u8>) {
    if width == 0 {
        return;
    }
    let start = out.len();
    out.resize(start + width as usize * WORD_BYTES, 0);
    let bytes = &mut out[start..];
    with_width!(width, pack_width::<T>(values, bytes));
}

/// Appends packed(n, width) of values that have at most `width` bits.
pub(crate) fn pack<T: Word>(values: &[T], width: u32, out: &mut Vec<u8>) {
    let (mut held, mut held_bits) = (0_u128, 0);
    for value in values {
        let pattern: u64 = (*value).into();
        held |= u128::from(pattern) << held_bits;
        held_bits += width;
        while held_bits >= 32 {
            out.extend_from_slice(&(held as u32).to_le_bytes());
            held >>= 32;
            held_bits -= 32;
        }
    }
    if held_bits > 0 {
        out.extend_from_slice(&(held as u32).to_le_bytes());
    }
}

/// Fills `out` from packed(n, width) in `bytes`.
pub(crate) fn unpack<T: Word>(bytes: &[u8], width: u32, out: &mut [T]) {
    let (groups, rest) = out.as_chunks_mut::<GROUP_VALUES>();
    let mut bytes = bytes;
    for group in groups {
        let packed;
        (packed, bytes) = bytes.split_at(width as usize * WORD_BYTES);
        unpack_group(packed, width, group);
    }
    if rest.is_empty() {
        return;
    }
    // The last values are unpacked as a whole group whose missing words are 0.
    let part = words(rest.len(), width) * WORD_BYTES;
    let mut padded = [0; GROUP_BYTES_MAX];
    padded[..part].copy_from_slice(&bytes[..part]);
    let mut group = [T::default(); GROUP_VALUES];
    unpack_group(&padded, width, &mut group);
    rest.copy_from_slice(&group[..rest.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<T: Word>() {
        for width in 0..=T::BITS {
            let pattern = |index: usize| {
                let mixed = (index as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
                T::low(mixed.rotate_left(17) & mask(width as usize))
            };
            let values: [T; GROUP_VALUES] = std::array::from_fn(pattern);
            let (mut group, mut slow) = (Vec::new(), Vec::new());
            pack_group(&values, width, &mut group);
            pack(&values, width, &mut slow);
            assert_eq!(group, slow, "width {width}");
            assert_eq!(group.len(), words(GROUP_VALUES, width) * WORD_BYTES);
            let (mut fast_back, mut slow_back) = ([T::default(); 32], [T::default(); 32]);
            unpack_group(&group, width, &mut fast_back);
            unpack(&group, width, &mut slow_back);
            assert_eq!((fast_back, slow_back), (values, values), "width {width}");
            for count in 0..=3 * GROUP_VALUES {
                let values: Vec<T> = (0..count).map(pattern).collect();
                let (mut bytes, mut back) = (Vec::new(), vec![T::default(); count]);
                pack(&values, width, &mut bytes);
                assert_eq!(bytes.len(), words(count, width) * WORD_BYTES);
                unpack(&bytes, width, &mut back);
                assert_eq!(back, values);
            }
        }
    }

    #[test]
    fn every_width_of_every_type_round_trips() {
        round_trip::<u8>();
        round_trip::<u16>();
        round_trip::<u32>();
        round_trip::<u64>();
    }
}
