//! The generators of Dzitkowski's thesis (Warsaw 2016), written from its description: Time, Pattern
//! A, Pattern B, each with a share of outliers.
//!
//! Values are i32 from one seeded stream, so a seed produces the same values in every version.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shoal_codec::Values;

use super::data_set::DataSet;

/// Upper bound of the levels of both patterns; the maxima of Pattern A are equal to it.
const LEVEL_MAX: i32 = 100_000;
/// Values of one step of Pattern A, and of each part of Pattern B.
const LENGTH: usize = 50;
/// In the alternating part of Pattern B, each value is less than this far from [`LEVEL_MAX`] or 0.
const NEAR: u64 = 16;
/// On average, one in this many values of Time is greater than its predecessor.
const STEP_IN: u64 = 4;

/// One generator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Generator {
    /// Non-decreasing; each value is one above the last with a fixed probability, else equal to it.
    Time,
    /// Steps of equal values, one maximum before each.
    PatternA,
    /// Values alternating near the maximum and near the minimum, then a falling and a rising ramp.
    PatternB,
}

impl Generator {
    /// All three.
    pub(super) const ALL: [Self; 3] = [Self::Time, Self::PatternA, Self::PatternB];

    /// Its name in tables.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::PatternA => "pattern-a",
            Self::PatternB => "pattern-b",
        }
    }
}

/// An endless column of one generator with a share of outliers.
pub(super) struct Stream {
    generator: Generator,
    /// Outliers per 2^32 values.
    outliers: u64,
    random: Xoshiro256PlusPlus,
    /// Time's last value.
    time: i32,
    /// The rest of the current step or pattern, next value last.
    pending: Vec<i32>,
}

impl Stream {
    /// A stream with a share `outliers` of outliers, 0 to 1.
    pub(super) fn new(generator: Generator, outliers: f64, seed: u64) -> Self {
        let outliers = (outliers * (1_u64 << 32) as f64) as u64;
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { generator, outliers, random, time: 0, pending: Vec::new() }
    }

    /// The next values.
    pub(super) fn values(&mut self, count: usize) -> Vec<i32> {
        (0..count).map(|_| self.value()).collect()
    }

    fn value(&mut self) -> i32 {
        let value = match self.generator {
            Generator::Time => {
                let step = self.below(STEP_IN) == 0;
                self.time = self.time.wrapping_add(i32::from(step));
                self.time
            }
            Generator::PatternA => self.next_pending(Self::step),
            Generator::PatternB => self.next_pending(Self::pattern),
        };
        // An outlier is arbitrary; it is always drawn, so that shares do not shift other values.
        let (draw, any) = (self.random.next_u64(), self.random.next_u64());
        if draw >> 32 < self.outliers { any as i32 } else { value }
    }

    fn next_pending(&mut self, more: fn(&mut Self) -> Vec<i32>) -> i32 {
        loop {
            if let Some(value) = self.pending.pop() {
                return value;
            }
            self.pending = more(self);
            self.pending.reverse();
        }
    }

    /// One maximum, then a step of equal values.
    fn step(&mut self) -> Vec<i32> {
        let level = self.below(LEVEL_MAX as u64) as i32;
        let mut values = vec![level; LENGTH + 1];
        values[0] = LEVEL_MAX;
        values
    }

    /// Alternating near the maximum and the minimum, then down, then up.
    fn pattern(&mut self) -> Vec<i32> {
        let mut values = Vec::with_capacity(3 * LENGTH);
        for index in 0..LENGTH {
            let distance = self.below(NEAR) as i32;
            values.push(if index % 2 == 0 { LEVEL_MAX - distance } else { distance });
        }
        let ramp = |index: usize| (LEVEL_MAX as usize * index / LENGTH) as i32;
        values.extend((1..=LENGTH).rev().map(ramp));
        values.extend((0..LENGTH).map(ramp));
        values
    }

    /// An integer below `bound`, with a bias of less than `bound` / 2^64.
    fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.random.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

/// A column of one generator; its name carries the share of outliers, if any.
pub(super) fn data_set(generator: Generator, outliers: f64, rows: usize, seed: u64) -> DataSet {
    let values = Stream::new(generator, outliers, seed).values(rows);
    let name = match outliers {
        0.0 => generator.name().to_owned(),
        share => format!("{}, {}% outliers", generator.name(), share * 100.0),
    };
    DataSet::of_column(&name, "value", Values::I32(values))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generators_have_their_shapes() {
        let time = Stream::new(Generator::Time, 0.0, 1).values(4_000);
        assert!(time.windows(2).all(|pair| (0..=1).contains(&(pair[1] - pair[0]))));
        assert!((800..1_200).contains(&time[3_999]), "a quarter of the values step");

        let steps = Stream::new(Generator::PatternA, 0.0, 1).values(2 * (LENGTH + 1));
        for step in steps.chunks(LENGTH + 1) {
            assert_eq!(step[0], LEVEL_MAX);
            assert!(step[1..].iter().all(|value| *value == step[1] && *value < LEVEL_MAX));
        }

        let pattern = Stream::new(Generator::PatternB, 0.0, 1).values(3 * LENGTH);
        let near = NEAR as i32;
        let (high, low) = (LEVEL_MAX - near..=LEVEL_MAX, 0..near);
        assert!(pattern[..LENGTH].iter().step_by(2).all(|value| high.contains(value)));
        assert!(pattern[1..LENGTH].iter().step_by(2).all(|value| low.contains(value)));
        assert!(pattern[LENGTH..2 * LENGTH].is_sorted_by(|a, b| a > b));
        assert!(pattern[2 * LENGTH..].is_sorted_by(|a, b| a < b));
    }

    #[test]
    fn outliers_have_their_share_and_do_not_change_other_values() {
        let rows = 100_000;
        let plain = Stream::new(Generator::PatternB, 0.0, 3).values(rows);
        let with = Stream::new(Generator::PatternB, 0.01, 3).values(rows);
        let changed = plain.iter().zip(&with).filter(|(plain, with)| plain != with).count();
        assert!((800..1_200).contains(&changed), "{changed} outliers");
        assert_eq!(with, Stream::new(Generator::PatternB, 0.01, 3).values(rows));
    }
}
