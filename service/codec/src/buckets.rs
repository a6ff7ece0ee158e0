//! Buckets, which are the symbols of Huffman codes (FORMAT.md, section 6.17).
//!
//! A bucket is a range of values that agree in their bit length and the next `split` bits.

use crate::huffman_code::SYMBOLS_MAX;
use crate::word::Word;

/// The division of values into buckets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Buckets {
    /// Number of bits below the highest set bit that distinguish buckets.
    pub(crate) split: u32,
}

impl Buckets {
    /// The greatest split of a type of `bits` bits.
    pub(crate) fn finest(bits: u32) -> Self {
        let finest = match bits {
            8 => 8,
            16 => 4,
            32 => 3,
            _ => 2,
        };
        Self { split: finest }
    }

    /// Number of symbols of a type of `bits` bits; `None` if a code cannot have that many.
    pub(crate) fn limit(self, bits: u32) -> Option<usize> {
        let Self { split } = self;
        (split <= bits && split <= 8)
            .then(|| ((bits - split + 1) as usize) << split)
            .filter(|symbols| *symbols <= SYMBOLS_MAX)
    }

    /// Symbol of a value and the number of its low bits that follow.
    #[inline(always)]
    pub(crate) fn symbol(self, value: u64) -> (usize, u32) {
        let low_bits = (u64::BITS - value.leading_zeros()).saturating_sub(self.split + 1);
        ((low_bits << self.split) as usize + (value >> low_bits) as usize, low_bits)
    }

    /// The bits above the low bits of a symbol's values, and the number of low bits.
    pub(crate) fn parts(self, symbol: usize) -> (u32, u32) {
        let symbol = symbol as u32;
        let low_bits = (symbol >> self.split).saturating_sub(1);
        (symbol - (low_bits << self.split), low_bits)
    }
}

/// How often each symbol occurs at the finest split.
pub(crate) fn frequencies<T: Word>(values: &[T]) -> [u32; SYMBOLS_MAX] {
    let finest = Buckets::finest(T::BITS);
    let mut frequencies = [0; SYMBOLS_MAX];
    values.iter().for_each(|value| frequencies[finest.symbol((*value).into()).0] += 1);
    frequencies
}

/// Low bits of the values of a symbol at the finest split of a type of `bits` bits.
pub(crate) fn low_bits(symbol: usize, bits: u32) -> u32 {
    Buckets::finest(bits).parts(symbol).1
}
