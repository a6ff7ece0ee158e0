//! Hashes of answers.

use std::ops::Range;

use rayon::prelude::*;
use shoal_engine::AnswerSet;

/// A hash of answers in the order of the queries: FNV-1a, 64 bits over 64-bit words.
pub(crate) struct AnswerHash(u64);

impl AnswerHash {
    pub(crate) fn new() -> Self {
        Self(0xCBF2_9CE4_8422_2325)
    }

    pub(crate) fn add(&mut self, answers: &AnswerSet) {
        for answer in answers.iter() {
            self.add_answer(answer.total, answer.objects);
        }
    }

    /// Adds one answer: the number of matching objects, and the objects returned.
    pub(crate) fn add_answer(&mut self, total: u64, objects: &[u64]) {
        self.add_word(total);
        objects.iter().for_each(|object| self.add_word(*object));
    }

    pub(crate) fn finish(&self) -> String {
        format!("{:016x}", self.0)
    }

    pub(crate) fn add_word(&mut self, word: u64) {
        self.0 = (self.0 ^ word).wrapping_mul(0x0000_0100_0000_01B3);
    }
}

/// Tasks that sum up totals, so that a reader keeps up with the fastest backend. More would take
/// cores from it.
const TOTALS_TASKS: usize = 4;

/// The number of matches of many queries, and a hash of each number with the index of its query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Totals {
    queries: u64,
    pub(crate) matches: u64,
    hash: u64,
}

impl Totals {
    /// Adds the answers of the next `queries` queries; `totals` returns the number of matches of
    /// each query of a range.
    pub(crate) fn add<I: Iterator<Item = u64>>(
        &mut self,
        queries: usize,
        totals: impl Fn(Range<usize>) -> I + Sync,
    ) {
        let first = self.queries;
        let sum = |a: (u64, u64), b: (u64, u64)| (a.0 + b.0, a.1.wrapping_add(b.1));
        let part = |number: usize| {
            let bound = |number| queries * number / TOTALS_TASKS;
            let range = bound(number)..bound(number + 1);
            let indexes = first + range.start as u64..;
            let hashed = totals(range)
                .zip(indexes)
                .map(|(matches, index)| (matches, mixed(index ^ matches.rotate_right(32))));
            hashed.fold((0, 0), sum)
        };
        let parts = (0..TOTALS_TASKS).into_par_iter().map(part);
        let (matches, hash) = parts.reduce(Default::default, sum);
        self.queries += queries as u64;
        self.matches += matches;
        self.hash = self.hash.wrapping_add(hash);
    }

    pub(crate) fn hash(&self) -> String {
        format!("{:016x}", self.hash)
    }
}

/// SplitMix64's output function, a bijection: spreads the bits of a number.
pub(crate) fn mixed(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn totals_depend_on_the_order_but_not_on_the_calls() {
        let numbers: Vec<u64> = (0..20_000).map(|at| at * at % 97).collect();
        let totals = |numbers: &[u64], calls: usize| {
            let mut totals = Totals::default();
            for part in numbers.chunks(numbers.len().div_ceil(calls)) {
                totals.add(part.len(), |range| part[range].iter().copied());
            }
            totals
        };
        let once = totals(&numbers, 1);
        assert_eq!(once.matches, numbers.iter().sum::<u64>());
        assert_eq!(once, totals(&numbers, 7));
        let mut swapped = numbers;
        swapped.swap(3, 4);
        assert_ne!(once.hash(), totals(&swapped, 1).hash());
    }
}
