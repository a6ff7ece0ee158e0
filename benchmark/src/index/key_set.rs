//! Sorted keys and requests for them, the same for a seed on any machine.

use rayon::prelude::*;
use shoal_history::{LEAF_BYTES, ObjectTime, TreeKey};

use super::options::{Distribution, KeyType};
use crate::harness::mixed;

/// Times of an object.
const OBJECT_TIMES: u64 = 512;
/// Milliseconds from one time of an object to the next, on average.
const STEP_MS: u64 = 60_000;
/// One of this many keys is hot.
const HOT_EVERY: u64 = 100;
/// Percent of skewed requests for hot keys.
const HOT_PERCENT: u64 = 90;

/// The random number of list position `place`, a function of `seed` and `place`.
fn random(seed: u64, place: u64) -> u64 {
    mixed((seed << 48).wrapping_add(place + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Scales a 64-bit random number to a number below `end`.
fn scaled(random: u64, end: u64) -> u64 {
    ((u128::from(random) * u128::from(end)) >> 64) as u64
}

/// A key that the benchmark makes.
pub(super) trait MadeKey: TreeKey {
    /// The keys of a leaf.
    type Keys: AsRef<[Self]> + AsMut<[Self]> + Copy + Send + Sync;

    const TYPE: KeyType;

    /// A leaf without keys.
    fn empty() -> Self::Keys;

    /// The key with this rank among `length` keys; keys ascend with the rank.
    fn of_rank(rank: u64, length: u64, random: u64) -> Self;

    /// The part of the key that an offset table uses: a whole word, or the object of a pair.
    fn prefix(self) -> u64;

    /// A hash of the key, equal to that of the kernels.
    fn hash(self) -> u64;
}

impl MadeKey for u64 {
    type Keys = [Self; LEAF_BYTES / size_of::<Self>()];

    const TYPE: KeyType = KeyType::Word;

    fn empty() -> Self::Keys {
        [Self::GREATEST; _]
    }

    fn of_rank(rank: u64, length: u64, random: u64) -> Self {
        // One key in each of `length` equal ranges, neither the least nor the greatest number.
        let range = Self::MAX / (length + 1);
        (rank * range + scaled(random, range)).max(1)
    }

    fn prefix(self) -> u64 {
        self
    }

    fn hash(self) -> u64 {
        mixed(self)
    }
}

impl MadeKey for ObjectTime {
    type Keys = [Self; LEAF_BYTES / size_of::<Self>()];

    const TYPE: KeyType = KeyType::Pair;

    fn empty() -> Self::Keys {
        [Self::GREATEST; _]
    }

    fn of_rank(rank: u64, _: u64, random: u64) -> Self {
        let time = rank % OBJECT_TIMES * STEP_MS + scaled(random, STEP_MS);
        Self { object: rank / OBJECT_TIMES, time: 1_700_000_000_000 + time as i64 }
    }

    fn prefix(self) -> u64 {
        self.object
    }

    fn hash(self) -> u64 {
        mixed(self.object.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(self.time as u64))
    }
}

/// `length` ascending keys.
pub(super) fn keys<K: MadeKey>(length: u32, seed: u64) -> Vec<K> {
    let length = u64::from(length);
    let key = |rank: u64| K::of_rank(rank, length, random(seed, rank));
    (0..length).into_par_iter().map(key).collect()
}

/// The ranks of the keys that requests ask for.
pub(super) fn ranks(length: u32, searches: u32, distribution: Distribution, seed: u64) -> Vec<u32> {
    let length = u64::from(length);
    let draw = |request: u64| {
        let word = random(!seed, request);
        let is_hot = distribution == Distribution::Skewed && mixed(!word) % 100 < HOT_PERCENT;
        let rank = if is_hot {
            scaled(word, length.div_ceil(HOT_EVERY)) * HOT_EVERY
        } else {
            scaled(word, length)
        };
        rank as u32
    };
    let mut ranks: Vec<u32> = (0..u64::from(searches)).into_par_iter().map(draw).collect();
    if distribution == Distribution::Sorted {
        ranks.par_sort_unstable();
    }
    ranks
}
