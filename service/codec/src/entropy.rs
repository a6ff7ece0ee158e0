//! Lower bounds of the bytes that Huffman codes take, from bucket histograms.
//!
//! While a tree of fixed widths is encoded, the values of each leaf that `huffman` may replace are
//! counted. A code takes at least the entropy of the buckets plus the low bits of the values, so a
//! planner skips codes whose bound exceeds the best tree. All results are integers (Q16).

use crate::buckets::{frequencies, low_bits};
use crate::huffman_code::SYMBOLS_MAX;
use crate::tree::Tree;
use crate::word::Word;

/// Fractional bits of a fixed-point number.
const Q: u32 = 16;

/// The bound of one tree, summed over its leaves.
#[derive(Clone, Debug, Default)]
pub(crate) struct LeafEntropy {
    bits_q16: u64,
    /// True if no code replaces the next `afl` leaf.
    is_kept: bool,
}

impl LeafEntropy {
    /// Lower bound of the bytes of codes and low bits.
    pub(crate) fn bytes(&self) -> usize {
        (self.bits_q16 >> (Q + 3)) as usize
    }

    /// Adds the bound for `values` if `entropy_coded` in `planner/candidates.rs` replaces `tree`, a
    /// node of the tree, by a Huffman leaf.
    pub(crate) fn add<T: Word>(&mut self, tree: &Tree, values: &[T]) {
        match tree {
            Tree::Scale(child) if **child == Tree::Afl => self.is_kept = true,
            Tree::Patch(child) if **child == Tree::Afl => {
                self.is_kept = true;
                self.bits_q16 += least_bits_q16(values);
            }
            Tree::Afl if self.is_kept => self.is_kept = false,
            Tree::Afl => self.bits_q16 += least_bits_q16(values),
            _ => {}
        }
    }
}

/// Lower bound of the bits of these values in Q16. This is the entropy of their buckets plus the
/// number of low bits.
fn least_bits_q16<T: Word>(values: &[T]) -> u64 {
    let counts: [u32; SYMBOLS_MAX] = frequencies(values);
    let total = values.len() as u64;
    let mut bits = total * log2_q16(total);
    let mut low = 0;
    for (symbol, count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
        let count = u64::from(*count);
        // The logarithm of the count is rounded up, so that the result is a lower bound.
        bits = bits.saturating_sub(count * (log2_q16(count) + 1));
        low += count * u64::from(low_bits(symbol, T::BITS));
    }
    bits + (low << Q)
}

/// The logarithm to base 2, rounded down; 0 for 0.
fn log2_q16(value: u64) -> u64 {
    if value == 0 {
        return 0;
    }
    let whole = value.ilog2();
    // The mantissa lies in [1, 2), in Q31; each squaring gives the next bit of the logarithm.
    let mut mantissa = u128::from(value) << 31 >> whole;
    let mut log = u64::from(whole);
    for _ in 0..Q {
        mantissa = (mantissa * mantissa) >> 31;
        let bit = mantissa >> 32 & 1;
        mantissa >>= bit;
        log = log << 1 | bit as u64;
    }
    log
}

#[cfg(test)]
mod tests {
    use shoal_testkit::Random;

    use super::*;
    use crate::tree_encode::encode_tree;
    use crate::value_type::ValueType;

    #[test]
    fn logarithms_are_rounded_down() {
        for value in (1..3_000).chain([u64::from(u32::MAX), u64::MAX]) {
            let exact = (value as f64).log2() * 65_536.0;
            let found = log2_q16(value) as f64;
            assert!(found <= exact + 1e-3 && exact - found < 3.0, "{value}: {found} {exact}");
        }
    }

    #[test]
    fn no_code_is_below_its_bound() {
        let mut random = Random::new(5);
        for spread in [1, 4, 9, 20, 31] {
            for rows in [1, 2, 63, 1_024, 20_000] {
                let values: Vec<u32> = (0..rows)
                    .map(|_| {
                        let bits = random.word().trailing_zeros() * 2 % (spread + 1);
                        random.below(1_u32 << bits)
                    })
                    .collect();
                let coded = encode_tree(ValueType::U32, &values, &Tree::Huffman, None).unwrap();
                let bytes: usize = coded.sections.iter().map(Vec::len).sum();
                let bound = (least_bits_q16(&values) >> (Q + 3)) as usize;
                assert!(bound <= bytes, "{rows} rows of {spread} bits: {bound} > {bytes}");
                assert!(rows < 20_000 || bytes * 9 < bound * 10 + 9_000, "{bound} of {bytes}");
            }
        }
    }
}
