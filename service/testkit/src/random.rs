//! The random numbers of all tests.

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};

/// A stream of random numbers, fixed by its seed, the same on every machine.
#[derive(Clone, Debug)]
pub struct Random(SplitMix64);

/// Integer types that [`Random::below`] accepts.
pub trait Limit: Copy {
    /// The limit as 64 bits.
    fn to_word(self) -> u64;
    /// A number below a limit of this type.
    fn from_word(word: u64) -> Self;
}

macro_rules! limits {
    ($($of:ty),+) => {
        $(
            impl Limit for $of {
                #[allow(clippy::cast_lossless, reason = "not every type is lossless")]
                fn to_word(self) -> u64 {
                    self as u64
                }

                fn from_word(word: u64) -> Self {
                    word as Self
                }
            }
        )+
    };
}
limits!(u32, u64, usize, i32, i64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(SplitMix64::from_seed(seed.to_le_bytes()))
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// A number from 0 to below `end`, which is above 0.
    ///
    /// # Panics
    /// When `end` is 0 or below.
    pub fn below<N: Limit + PartialOrd + Default>(&mut self, end: N) -> N {
        assert!(end > N::default(), "no number is below the limit");
        // The high half of a product: no division, bias below 2^-32 for the small ends used here.
        let product = u128::from(self.word()) * u128::from(end.to_word());
        N::from_word((product >> 64) as u64)
    }

    /// A number in the closed range.
    pub fn between(&mut self, min: i64, max: i64) -> i64 {
        let span = max.wrapping_sub(min) as u64;
        if span == u64::MAX {
            return self.word() as i64;
        }
        min.wrapping_add(self.below(span + 1) as i64)
    }

    /// A number in the closed range of quanta.
    pub fn quanta(&mut self, min: i32, max: i32) -> i32 {
        self.between(i64::from(min), i64::from(max)) as i32
    }

    /// True with probability 1 / `of`.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// A random element of a non-empty slice.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// A number in `[min, max)`.
    pub fn real(&mut self, min: f64, max: f64) -> f64 {
        min + (max - min) * self.unit()
    }

    /// A 64-bit number; often 0, the maximum or another small or extreme value.
    pub fn edgy(&mut self) -> u64 {
        match self.below(6) {
            0 => 0,
            1 => u64::MAX,
            2 => 1 << self.below(64),
            3 => (1 << self.below(64)) - 1,
            4 => self.below(200),
            _ => self.word(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stream_is_the_published_one() {
        // SplitMix64 (Steele, Lea, Flood 2014): a published test vector, from seed 1234567.
        let mut random = Random::new(1_234_567);
        let words: Vec<u64> = (0..3).map(|_| random.word()).collect();
        assert_eq!(
            words,
            [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423]
        );
    }

    #[test]
    fn numbers_stay_in_their_ranges_and_reach_their_ends() {
        let mut random = Random::new(1);
        let seen: std::collections::BTreeSet<i64> =
            (0..1_000).map(|_| random.between(-2, 2)).collect();
        assert!(seen.into_iter().eq(-2..=2));
        assert!((0..1_000).all(|_| random.below(3_usize) < 3));
        assert!((0..1_000).map(|_| random.real(5.0, 6.0)).all(|real| (5.0..6.0).contains(&real)));
        assert!((0..100).any(|_| random.between(i64::MIN, i64::MAX) < 0));
    }
}
