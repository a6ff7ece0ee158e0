//! A hash of words under a key that clients do not know.
//!
//! The hash is the upper half of `a * word + b` modulo 2^128 (Dietzfelbinger, STACS 1996), followed
//! by a bijection. For random `a` and `b` and any two words, all pairs of hashes are equally
//! likely, so two words chosen without the key collide no more often than random ones. Hashes
//! reveal the key, so every table draws a new key when it grows.

use std::hash::{BuildHasher as _, RandomState};

/// 2^64 over the golden ratio, odd (Knuth, volume 3, section 6.4).
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The key, and the hash under it.
#[derive(Clone, Copy)]
pub struct UniversalHash {
    a: u128,
    b: u128,
}

impl UniversalHash {
    /// The hash with this key.
    fn new(key: [u64; 4]) -> Self {
        let [a, a_high, b, b_high] = key.map(u128::from);
        Self { a: a_high << 64 | a, b: b_high << 64 | b }
    }

    /// Creates a hash with a random key.
    #[must_use]
    pub fn random() -> Self {
        let state = RandomState::new();
        Self::new(std::array::from_fn(|word| state.hash_one(word)))
    }

    /// The hash of a word.
    #[inline(always)]
    #[must_use]
    pub fn hash(&self, word: u64) -> u64 {
        let upper = (self.a.wrapping_mul(u128::from(word)).wrapping_add(self.b) >> 64) as u64;
        // Without this step, equidistant words would keep their order.
        (upper ^ upper >> 32).wrapping_mul(MULTIPLIER)
    }
}

/// Prints no key.
impl std::fmt::Debug for UniversalHash {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("UniversalHash").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_upper_half_of_a_product_and_a_sum_decides() {
        let hash = UniversalHash::new([5, 7, 11, 13]);
        // (7 * 2^64 + 5) * word + 13 * 2^64 + 11; halves below 2^32 are only multiplied.
        assert_eq!(hash.hash(0), 13_u64.wrapping_mul(MULTIPLIER));
        assert_eq!(hash.hash(3), (7 * 3 + 13_u64).wrapping_mul(MULTIPLIER));
        let upper = (7_u64 << 63).wrapping_add(2 + 13);
        assert_eq!(hash.hash(1 << 63), (upper ^ upper >> 32).wrapping_mul(MULTIPLIER));
        assert_eq!(format!("{hash:?}"), "UniversalHash { .. }");
    }

    #[test]
    fn every_random_key_is_another() {
        let hashes: Vec<u64> = (0..100).map(|_| UniversalHash::random().hash(0)).collect();
        let different: std::collections::HashSet<&u64> = hashes.iter().collect();
        assert_eq!(different.len(), hashes.len());
    }
}
