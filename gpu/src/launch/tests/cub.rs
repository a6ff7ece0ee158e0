//! CUB's sorts and scans and the engine's sort of matches, against the standard library.

use shoal_testkit::Random;

use super::bench::{BOUNDARIES, Bench, seeds};
use crate::launch::{AnswerListsArgument, MatchesArgument, Scratch};
use shoal_engine::layout::{Lengths, SORT_TILE, WARP_QUERY_MATCHES, WARP_SORT_MATCHES};

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
    // All calls share one scratch buffer, which must serve small calls after large ones.
    let mut scratch = Scratch::new(&bench.memory).unwrap();
    for length in lengths(&mut random) {
        let bits = *random.pick(&[1, 7, 20, 32]);
        let keys = keys(&mut random, length, bits);
        // Above the sorted bits, keys may hold anything.
        let rest = if bits < 32 { (seed as u32) << bits } else { 0 };
        let keys: Vec<u32> = keys.into_iter().map(|key| key | rest).collect();
        let values: Vec<u32> = (0..length as u32).collect();
        let from = (bench.upload(&keys), bench.upload(&values));
        let to = (bench.zeros(length), bench.zeros(length));
        let pairs = ((&from.0, &from.1), (&to.0, &to.1));
        scratch.sort_pairs(&bench.stream, pairs.0, pairs.1, length as u32, bits).unwrap();
        let mut sorted: Vec<(u32, u32)> = keys.into_iter().zip(values).collect();
        sorted.sort_by_key(|(key, _)| *key);
        let (keys, values): (Vec<u32>, Vec<u32>) = sorted.into_iter().unzip();
        assert_eq!(bench.download(&to.0, length), keys, "{length} keys of {bits} bits");
        assert_eq!(bench.download(&to.1, length), values, "values of {length} keys of {bits} bits");
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
        let there = bench.upload(&values);
        let sums = bench.zeros::<u32>(length);
        scratch.sum_before(&bench.stream, &there, &sums, length as u32).unwrap();
        let expected: Vec<u32> = before(&values).map(|sum| sum as u32).collect();
        assert_eq!(bench.download(&sums, length), expected, "{length} values below {end}");
        // The wide sums exceed 32 bits.
        values.iter_mut().for_each(|value| *value |= 0xffff_0000);
        let (there, sums) = (bench.upload(&values), bench.zeros::<u64>(length));
        scratch.sum_before(&bench.stream, &there, &sums, length as u32).unwrap();
        let expected: Vec<u64> = before(&values).collect();
        assert_eq!(bench.download(&sums, length), expected, "{length} wide values");
    }
}

/// Exclusive prefix sums.
fn before(values: &[u32]) -> impl Iterator<Item = u64> {
    values.iter().scan(0, |sum, value| {
        let before = *sum;
        *sum += u64::from(*value);
        Some(before)
    })
}

/// The queries with medium and with long answers, in the order of stage query, which lists the
/// longest from the back.
fn listed_queries(bounds: &[u64]) -> (Lengths, Vec<u32>, Vec<u32>) {
    let counts: Vec<u64> = bounds.windows(2).map(|bound| bound[1] - bound[0]).collect();
    let (mut medium, mut long) = (vec![0; counts.len()], vec![0; counts.len()]);
    let mut lengths =
        Lengths { longest: counts.iter().copied().max().unwrap_or(0), ..Lengths::default() };
    for (query, count) in (0..).zip(counts) {
        if count > u64::from(SORT_TILE) {
            lengths.longer_queries += 1;
            let at = long.len() - lengths.longer_queries as usize;
            long[at] = query;
        } else if count > u64::from(WARP_SORT_MATCHES) {
            long[lengths.long_queries as usize] = query;
            lengths.long_queries += 1;
        } else if count > u64::from(WARP_QUERY_MATCHES) {
            medium[lengths.medium_queries as usize] = query;
            lengths.medium_queries += 1;
        }
    }
    (lengths, medium, long)
}

seeds!(matches_of_each_query_are_sorted);
fn matches_of_each_query_are_sorted(seed: u64) {
    let bench = Bench::new();
    let mut random = Random::new(seed);
    for queries in [1, 2, 31, 33, 1_025] {
        let mut bounds = vec![0_u64];
        let mut pairs: Vec<(u64, u32)> = Vec::new();
        // Ids that differ in all bits, in few of the lower, or everywhere but in the highest.
        let (bits, prefix) = (*random.pick(&[64, 21, 40]), random.word());
        let id =
            |word: u64| if bits < 64 { prefix >> bits << bits | word >> (64 - bits) } else { word };
        for _ in 0..queries {
            let length = match random.below(12) {
                0 => 0,
                1 => *random.pick(&[
                    64, 65, 128, 129, 255, 256, 257, 4_095, 4_096, 4_097, 8_192, 8_193, 30_000,
                ]),
                2 => *random.pick(&BOUNDARIES),
                _ => random.below(40) as usize,
            };
            let ids: std::collections::HashSet<u64> =
                (0..length).map(|_| id(random.word())).collect();
            pairs.extend(ids.into_iter().zip(pairs.len() as u32..));
            bounds.push(pairs.len() as u64);
        }
        let (objects, slots): (Vec<u64>, Vec<u32>) = pairs.iter().copied().unzip();
        let from = (bench.upload(&objects), bench.upload(&slots));
        let to = (bench.zeros(pairs.len()), bench.zeros(pairs.len()));
        let (lengths, medium, long) = listed_queries(&bounds);
        let (medium, long) = (bench.upload(&medium), bench.upload(&long));
        let (there, lengths_there) = (bench.upload(&bounds), bench.upload(&[lengths]));
        let lists = AnswerListsArgument::new(queries as usize, &lengths_there, &medium, &long);
        let found = MatchesArgument::new(&from.0, &from.1, pairs.len());
        let sorted = MatchesArgument::new(&to.0, &to.1, pairs.len());
        let kernels = &bench.gpu.kernels;
        kernels.sort(&bench.stream, &there, queries, &lengths, &lists, &found, &sorted).unwrap();
        for bound in bounds.windows(2) {
            pairs[bound[0] as usize..bound[1] as usize].sort_unstable();
        }
        let (objects, slots): (Vec<u64>, Vec<u32>) = pairs.iter().copied().unzip();
        assert_eq!(bench.download(&to.0, objects.len()), objects, "ids of {queries} queries");
        assert_eq!(bench.download(&to.1, slots.len()), slots, "slots of {queries} queries");
    }
}
