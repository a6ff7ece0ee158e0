//! The random numbers of the suite.
//!
//! SplitMix64 (Steele, Lea, Flood 2014): one word of state, the same stream on every machine. Good
//! enough to pick test cases; not for statistics.

/// A stream of random numbers, fixed by its seed.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// The stream of a seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next 64 bits.
    pub fn word(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which is not 0.
    pub fn below(&mut self, end: u64) -> u64 {
        // The high half of a product: no division, bias below 2^-32 for the small ends used here.
        ((u128::from(self.word()) * u128::from(end)) >> 64) as u64
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

    /// True once in `of` times.
    pub fn once_in(&mut self, of: u64) -> bool {
        self.below(of) == 0
    }

    /// One of these.
    pub fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len() as u64) as usize]
    }

    /// A number in `[0, 1)`.
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 / (1_u64 << 53) as f64
    }
}
