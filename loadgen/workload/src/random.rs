//! Seeded random numbers, the same for a seed in every version.
//!
//! Streams of a workload (such as hot-spots, road networks and windows) use Xoshiro256++. The
//! random numbers of one object use splitmix64 (Steele, Lea, Flood, OOPSLA 2014), either as a
//! generator with 8 bytes of state (`object_stream`) or as a hash (`key` and `lane`).

use rand_xoshiro::rand_core::{Rng, SeedableRng};
use rand_xoshiro::{SplitMix64, Xoshiro256PlusPlus};

/// Weyl increment of splitmix64, the golden ratio in 64 bits.
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The purpose of a stream; streams of one seed for two purposes differ.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Domain {
    Windows = 1,
    Objects = 2,
    Sample = 3,
    Hotspots = 4,
    Places = 5,
    Groups = 6,
    Mix = 7,
    Regions = 9,
}

/// The finaliser of splitmix64 (Stafford's variant 13): a bijection that spreads every bit.
pub(crate) fn mix64(value: u64) -> u64 {
    let value = (value ^ (value >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let value = (value ^ (value >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ (value >> 31)
}

/// A hash of a seed, a purpose and an index.
pub(crate) fn key(seed: u64, domain: Domain, index: u64) -> u64 {
    let seed = mix64(seed.wrapping_add(GOLDEN).wrapping_add((domain as u64) << 56));
    mix64(seed ^ mix64(index.wrapping_add(GOLDEN)))
}

/// The `lane`-th 64 random bits of a key: the splitmix64 output at that distance.
pub(crate) fn lane(key: u64, lane: u64) -> u64 {
    mix64(key.wrapping_add(lane.wrapping_add(1).wrapping_mul(GOLDEN)))
}

/// The random numbers of a workload.
pub(crate) fn stream(seed: u64, domain: Domain, index: u64) -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(key(seed, domain, index))
}

/// The random numbers of one object.
pub(crate) fn object_stream(seed: u64, object: u64) -> SplitMix64 {
    SplitMix64::from_seed(key(seed, Domain::Objects, object).to_le_bytes())
}

/// Converts 64 random bits to a double in `[0, 1)` with 53 random bits.
pub(crate) fn unit_of(bits: u64) -> f64 {
    (bits >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
}

/// The next double in `[0, 1)`.
pub(crate) fn unit(random: &mut impl Rng) -> f64 {
    unit_of(random.next_u64())
}

/// The next integer in `0..bound` by multiplication (bias below `bound` / 2^64).
pub(crate) fn below(random: &mut impl Rng, bound: usize) -> usize {
    ((u128::from(random.next_u64()) * bound as u128) >> 64) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_are_the_published_splitmix64_sequence() {
        let mut stream = SplitMix64::from_seed(1_234_567_u64.to_le_bytes());
        // The sequence of seed 1234567 printed with the reference implementation by S. Vigna.
        let published = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        for (index, expected) in published.into_iter().enumerate() {
            assert_eq!(stream.next_u64(), expected);
            assert_eq!(lane(1_234_567, index as u64), expected);
        }
    }

    #[test]
    fn units_and_bounds_stay_in_range() {
        assert_eq!(unit_of(0).to_bits(), 0.0_f64.to_bits());
        assert!(unit_of(u64::MAX) < 1.0);
        let mut random = stream(7, Domain::Windows, 0);
        let mut seen = [0_u32; 7];
        for _ in 0..7_000 {
            seen[below(&mut random, 7)] += 1;
        }
        assert!(seen.iter().all(|&count| (850..1_150).contains(&count)), "seed 7: {seen:?}");
    }
}
