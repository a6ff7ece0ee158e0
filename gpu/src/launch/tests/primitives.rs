//! Do CUB's sorts and scans, as we call them, do what the standard library does?

use shoal_engine::conformance::random::Random;

use super::bench::{BOUNDARIES, Bench, seeds};
use crate::launch::Scratch;

/// Lengths to try: the boundaries, and one that needs many blocks.
fn lengths(random: &mut Random) -> Vec<usize> {
    let mut lengths = BOUNDARIES.to_vec();
    lengths.push(random.between(50_000, 300_000) as usize);
    lengths
}

/// Keys of `bits` bits, few of them different.
fn keys(random: &mut Random, length: usize, bits: u32) -> Vec<u32> {
    let end = 1_u64 << bits;
    let several = *random.pick(&[1, 3, 1_000, u64::MAX]);
    (0..length).map(|_| random.below(end.min(several)) as u32).collect()
}

seeds!(pairs_are_sorted_stably);
fn pairs_are_sorted_stably(seed: u64) {
    let bench = Bench::new();
    let mut random = Random::new(seed);
    // One scratch for all: it must serve small calls after large ones.
    let mut scratch = Scratch::new(&bench.memory).unwrap();
    for length in lengths(&mut random) {
        let bits = *random.pick(&[1, 7, 20, 32]);
        let keys = keys(&mut random, length, bits);
        // Above the bits that are sorted by, keys may hold anything.
        let rest = if bits < 32 { (seed as u32) << bits } else { 0 };
        let keys: Vec<u32> = keys.into_iter().map(|key| key | rest).collect();
        let values: Vec<u32> = (0..length as u32).collect();
        let from = (bench.there(&keys), bench.there(&values));
        let to = (bench.room(length), bench.room(length));
        let pairs = ((&from.0, &from.1), (&to.0, &to.1));
        scratch.sort_pairs(&bench.stream, pairs.0, pairs.1, length as u32, bits).unwrap();
        let mut sorted: Vec<(u32, u32)> = keys.into_iter().zip(values).collect();
        sorted.sort_by_key(|(key, _)| *key);
        let (keys, values): (Vec<u32>, Vec<u32>) = sorted.into_iter().unzip();
        assert_eq!(bench.here(&to.0, length), keys, "{length} keys of {bits} bits");
        assert_eq!(bench.here(&to.1, length), values, "values of {length} keys of {bits} bits");
    }
}

seeds!(values_are_summed_up);
fn values_are_summed_up(seed: u64) {
    let bench = Bench::new();
    let mut random = Random::new(seed);
    let mut scratch = Scratch::new(&bench.memory).unwrap();
    for length in lengths(&mut random) {
        let end = *random.pick(&[1, 2, 100, 1 << 14]);
        let mut values: Vec<u32> = (0..length).map(|_| random.below(end) as u32).collect();
        let there = bench.there(&values);
        let sums = bench.room::<u32>(length);
        scratch.sum_before(&bench.stream, &there, &sums, length as u32).unwrap();
        let expected: Vec<u32> = before(&values).map(|sum| sum as u32).collect();
        assert_eq!(bench.here(&sums, length), expected, "{length} values below {end}");
        // The wide sums go beyond 32 bits.
        values.iter_mut().for_each(|value| *value |= 0xffff_0000);
        let (there, sums) = (bench.there(&values), bench.room::<u64>(length));
        scratch.sum_before_wide(&bench.stream, &there, &sums, length as u32).unwrap();
        let expected: Vec<u64> = before(&values).collect();
        assert_eq!(bench.here(&sums, length), expected, "{length} wide values");
    }
}

/// The sums of all values before each.
fn before(values: &[u32]) -> impl Iterator<Item = u64> {
    values.iter().scan(0, |sum, value| {
        let before = *sum;
        *sum += u64::from(*value);
        Some(before)
    })
}

seeds!(segments_are_sorted_apart);
fn segments_are_sorted_apart(seed: u64) {
    let bench = Bench::new();
    let mut random = Random::new(seed);
    let mut scratch = Scratch::new(&bench.memory).unwrap();
    for segments in [1, 2, 31, 33, 1_025] {
        let mut bounds = vec![0_u64];
        let mut pairs: Vec<(u64, u32)> = Vec::new();
        for _ in 0..segments {
            let length = match random.below(8) {
                0 => 0,
                1 => 5_000,
                2 => *random.pick(&BOUNDARIES),
                _ => random.below(40) as usize,
            };
            for _ in 0..length {
                let slot = pairs.len() as u32;
                pairs.push((random.word(), slot));
            }
            bounds.push(pairs.len() as u64);
        }
        let (objects, slots): (Vec<u64>, Vec<u32>) = pairs.iter().copied().unzip();
        let (from, to) = (
            (bench.there(&objects), bench.there(&slots)),
            (bench.room(pairs.len()), bench.room(pairs.len())),
        );
        let (length, there) = (pairs.len() as u32, bench.there(&bounds));
        let lists = ((&from.0, &from.1), (&to.0, &to.1));
        let of = (&there, segments);
        scratch.sort_segments(&bench.stream, lists.0, lists.1, length, of).unwrap();
        for bound in bounds.windows(2) {
            pairs[bound[0] as usize..bound[1] as usize].sort_unstable();
        }
        let (objects, slots): (Vec<u64>, Vec<u32>) = pairs.iter().copied().unzip();
        assert_eq!(bench.here(&to.0, objects.len()), objects, "ids of {segments} segments");
        assert_eq!(bench.here(&to.1, slots.len()), slots, "slots of {segments} segments");
    }
}
