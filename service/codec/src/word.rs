//! Bit patterns of 8, 16, 32 or 64 bits, the form in which all values are encoded.
//!
//! Arithmetic wraps (FORMAT.md, section 5.1). Only the four unsigned types implement `Word`.

use std::fmt::Debug;
use std::ops::{BitAnd, BitOr};

use crate::value_type::ValueType;

/// An unsigned integer as wide as the values of a node.
pub(crate) trait Word:
    Copy
    + Debug
    + Default
    + Ord
    + Send
    + Sync
    + BitAnd<Output = Self>
    + BitOr<Output = Self>
    + Into<u64>
    + 'static
{
    /// Width in bits.
    const BITS: u32;
    /// Width in bytes.
    const BYTES: usize;
    /// The unsigned value type of this width.
    const UNSIGNED: ValueType;

    /// The low bits of a wider pattern.
    fn low(pattern: u64) -> Self;
    /// Sum modulo 2^W.
    fn plus(self, other: Self) -> Self;
    /// Difference modulo 2^W.
    fn minus(self, other: Self) -> Self;
    /// Product modulo 2^W.
    fn times(self, other: Self) -> Self;
    /// Shifted to higher bits; `count` is below W.
    fn shift_up(self, count: u32) -> Self;
    /// Least width that holds it as unsigned.
    fn bits(self) -> u32;
    /// A signed difference as a small unsigned number.
    fn zigzag(self) -> Self;
    /// Inverse of [`Word::zigzag`].
    fn unzigzag(self) -> Self;
    /// The value at the start of little-endian `bytes`, which hold at least one.
    fn read(bytes: &[u8]) -> Self;
    /// Appends its little-endian bytes.
    fn write(self, out: &mut Vec<u8>);
    /// Its 64-bit pattern, sign-extended if `signed`, else zero-extended.
    fn extend(self, signed: bool) -> u64;
}

macro_rules! word {
    ($unsigned:ty, $signed:ty, $value_type:ident) => {
        impl Word for $unsigned {
            const BITS: u32 = <$unsigned>::BITS;
            const BYTES: usize = size_of::<$unsigned>();
            const UNSIGNED: ValueType = ValueType::$value_type;

            #[inline(always)]
            fn low(pattern: u64) -> Self {
                pattern as Self
            }
            #[inline(always)]
            fn plus(self, other: Self) -> Self {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn minus(self, other: Self) -> Self {
                self.wrapping_sub(other)
            }
            #[inline(always)]
            fn times(self, other: Self) -> Self {
                self.wrapping_mul(other)
            }
            #[inline(always)]
            fn shift_up(self, count: u32) -> Self {
                self << count
            }
            #[inline(always)]
            fn bits(self) -> u32 {
                Self::BITS - self.leading_zeros()
            }
            #[inline(always)]
            fn zigzag(self) -> Self {
                let signed = self as $signed;
                ((signed << 1) ^ (signed >> (Self::BITS - 1))) as Self
            }
            #[inline(always)]
            fn unzigzag(self) -> Self {
                (self >> 1) ^ (self & 1).wrapping_neg()
            }
            #[inline(always)]
            fn read(bytes: &[u8]) -> Self {
                let bytes = bytes.first_chunk().expect("callers hand over whole values");
                Self::from_le_bytes(*bytes)
            }
            fn write(self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_le_bytes());
            }
            #[inline(always)]
            fn extend(self, signed: bool) -> u64 {
                if signed { i64::from(self as $signed) as u64 } else { self.into() }
            }
        }
    };
}

word!(u8, i8, U8);
word!(u16, i16, U16);
word!(u32, i32, U32);
word!(u64, i64, U64);

/// Mapping of differences to unsigned numbers (`mode` in FORMAT.md, section 5.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Mode {
    /// The difference modulo 2^W, unchanged: for ascending values, or if the child is `scale`.
    Plain = 0,
    /// Zigzag: small magnitudes become small numbers.
    Zigzag = 1,
}

impl Mode {
    /// The mode with this code on the wire.
    pub(crate) fn from_code(code: u64) -> Option<Self> {
        match code {
            0 => Some(Self::Plain),
            1 => Some(Self::Zigzag),
            _ => None,
        }
    }

    /// Its code on the wire.
    pub(crate) const fn code(self) -> u32 {
        self as u32
    }

    /// The stored form of a difference.
    #[inline(always)]
    pub(crate) fn store<T: Word>(self, difference: T) -> T {
        match self {
            Self::Plain => difference,
            Self::Zigzag => difference.zigzag(),
        }
    }

    /// Replaces the stored form of each difference by the difference.
    pub(crate) fn unstore<T: Word>(self, stored: &mut [T]) {
        if self == Self::Zigzag {
            for value in stored {
                *value = value.unzigzag();
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zigzag_orders_by_magnitude_and_round_trips() {
        let signed = [0_i8, -1, 1, -2, 2, 127, -128];
        let expected = [0_u8, 1, 2, 3, 4, 254, 255];
        for (value, zigzag) in signed.into_iter().zip(expected) {
            assert_eq!((value as u8).zigzag(), zigzag);
            assert_eq!(zigzag.unzigzag(), value as u8);
        }
        assert_eq!(u64::MAX.bits(), 64);
        assert_eq!(0_u16.bits(), 0);
        assert_eq!(0xff_u8.extend(true), u64::MAX);
    }
}
