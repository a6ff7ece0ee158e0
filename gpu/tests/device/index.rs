//! Trees on the device return the same places and entries as sorted lists.
//!
//! Needs an NVIDIA GPU, as the conformance suite does: run with `--include-ignored`. Everything is
//! seeded; a failing assertion names its seed.

use std::collections::BTreeMap;

use shoal_gpu::{DeviceIndex, DeviceKey, DevicePlaces, DeviceTree, Gpu};
use shoal_history::{FAN_OUT, ObjectTime};
use shoal_testkit::Random;

/// Device memory of the tests.
const BUDGET_BYTES: u64 = 4 << 30;
/// Numbers of keys: near the sizes at which a node or level is full, and many keys.
const SIZES: [usize; 14] =
    [0, 1, 2, 15, 16, 17, 255, 256, 257, 4_096, 4_097, 65_537, 300_000, 1_000_000];
const THREADS: [u32; 6] = [1, 2, 4, 8, 16, 32];

fn device<K: DeviceKey>() -> DeviceIndex<K> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    DeviceIndex::new(&gpu, BUDGET_BYTES).unwrap()
}

/// A random key: one of about `range` keys, rarely one of the least or greatest keys of the type.
trait Drawn: DeviceKey {
    fn draw(random: &mut Random, range: u64) -> Self;
}

impl Drawn for u64 {
    fn draw(random: &mut Random, range: u64) -> Self {
        match random.below(1_000) {
            0 => random.below(3),
            1 => Self::MAX - random.below(3),
            _ => (Self::MAX / 2).wrapping_add(random.below(range)),
        }
    }
}

impl Drawn for ObjectTime {
    fn draw(random: &mut Random, range: u64) -> Self {
        let object = u64::draw(random, range / 8 + 1);
        let time = match random.below(200) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => random.between(-8, 8),
        };
        Self { object, time }
    }
}

/// Distinct sorted keys, at most `length`.
fn sorted<K: Drawn>(random: &mut Random, length: usize) -> Vec<K> {
    let range = *random.pick(&[length as u64 + 1, 5 * length as u64 + 1, u64::MAX]);
    let mut keys: Vec<K> = (0..length).map(|_| K::draw(random, range)).collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}

/// Requests: the least and the greatest key, existing keys, keys in their range, and any keys.
fn requests<K: Drawn>(random: &mut Random, keys: &[K], length: usize) -> Vec<K> {
    let draw = |number: usize| match random.below(3) {
        _ if number == 0 => K::LEAST,
        _ if number == 1 => K::GREATEST,
        0 if !keys.is_empty() => *random.pick(keys),
        1 => K::draw(random, u64::MAX),
        _ => K::draw(random, 2 * keys.len() as u64 + 1),
    };
    (0..length).map(draw).collect()
}

/// Checks the inner keys, and searches with each number of threads per request.
fn check_tree<K: Drawn>(seed: u64, size: usize) {
    let mut random = Random::new(seed);
    let keys: Vec<K> = sorted(&mut random, size);
    let fill = 1 + random.below(K::LEAF_KEYS as u64) as usize;
    let case = format!("seed {seed}, {} keys, {fill} a leaf", keys.len());
    let mut index = device::<K>();
    let there = index.keys(&keys).unwrap();
    let values: Vec<u32> = keys.iter().map(|_| random.word() as u32).collect();
    let tree = index.build(&there, Some(&values), fill).unwrap();

    let inner = index.inner_keys(&tree).unwrap();
    let expected = |number: usize| match tree.shape().leaf_of_key(number) {
        Some(leaf) => keys[leaf * fill + fill - 1],
        None if number.is_multiple_of(FAN_OUT) => K::LEAST,
        None => K::GREATEST,
    };
    assert!(inner.iter().enumerate().all(|(at, key)| *key == expected(at)), "{case}: inner keys");

    let length = *random.pick(&[1, 5, 1_000, 4_099]);
    let asked = requests(&mut random, &keys, length);
    let there = index.keys(&asked).unwrap();
    let place = |rank: usize| ((rank / fill) * K::LEAF_KEYS + rank % fill) as u32;
    // The place after the last key in the last leaf.
    let end = keys.len().checked_sub(1).map_or(0, |last| place(last) + 1);
    let first = |key: &K| keys.partition_point(|at| at < key);
    let place_of = |rank: usize| if rank < keys.len() { place(rank) } else { end };
    let places: Vec<u32> = asked.iter().map(|key| place_of(first(key))).collect();
    for threads in THREADS {
        let mut found = index.places(length).unwrap();
        index.find(&tree, &there, threads, &mut found).unwrap();
        assert_eq!(index.download(&found, length).unwrap(), places, "{case}: {threads} threads");
    }
    let last = |key: &K| keys.partition_point(|at| at <= key).checked_sub(1);
    let places: Vec<u32> =
        asked.iter().map(|key| last(key).map_or(DevicePlaces::NONE, place)).collect();
    let mut found = index.places(length).unwrap();
    index.find_last(&tree, &there, &mut found).unwrap();
    assert_eq!(index.download(&found, length).unwrap(), places, "{case}: last");
    check_scan(&mut index, &tree, &keys, &values, &asked, &case);
}

/// Checks ranges between neighbouring requests, some of them empty.
fn check_scan<K: Drawn>(
    index: &mut DeviceIndex<K>,
    tree: &DeviceTree<K>,
    keys: &[K],
    values: &[u32],
    asked: &[K],
    case: &str,
) {
    let ranges: Vec<(K, K)> = asked.windows(2).take(40).map(|pair| (pair[0], pair[1])).collect();
    let scanned = index.scan(tree, &ranges).unwrap();
    assert_eq!(scanned.firsts.len(), ranges.len() + 1, "{case}");
    for ((low, high), bound) in ranges.into_iter().zip(scanned.firsts.windows(2)) {
        let places = bound[0] as usize..bound[1] as usize;
        let found = scanned.keys[places.clone()].iter().zip(&scanned.values[places]);
        let rank = |bound: K| keys.partition_point(|key| *key < bound);
        let ranks = rank(low)..rank(high).max(rank(low));
        let expected = keys[ranks.clone()].iter().zip(&values[ranks]);
        assert!(found.eq(expected), "{case}: from {low:?} to {high:?}");
    }
}

/// Inserts entries into a model of the leaves: all entries of a leaf or, if they do not fit, none.
/// Returns the refused entries.
fn insert_into_model<K: Drawn>(
    leaves: &mut [BTreeMap<K, u32>],
    bounds: &[K],
    entries: &[(K, u32)],
) -> Vec<usize> {
    let leaf_of = |key: &K| bounds.partition_point(|bound| bound < key);
    let mut refused = Vec::new();
    let mut first = 0;
    while first < entries.len() {
        let leaf = leaf_of(&entries[first].0);
        let end = entries.partition_point(|(key, _)| leaf_of(key) <= leaf);
        let mut filled = leaves[leaf].clone();
        filled.extend(entries[first..end].iter().copied());
        if filled.len() <= K::LEAF_KEYS {
            leaves[leaf] = filled;
        } else {
            refused.extend(first..end);
        }
        first = end;
    }
    refused
}

fn check_insertions<K: Drawn>(seed: u64) {
    let mut random = Random::new(seed);
    let size = *random.pick(&SIZES[..12]);
    let keys: Vec<K> = sorted(&mut random, size);
    let fill = 1 + random.below(K::LEAF_KEYS as u64) as usize;
    let values: Vec<u32> = (0..keys.len() as u32).collect();
    let mut index = device::<K>();
    let mut tree = index.build(&index.keys(&keys).unwrap(), None, fill).unwrap();
    let pairs: Vec<(K, u32)> = keys.iter().copied().zip(values).collect();
    let mut leaves: Vec<BTreeMap<K, u32>> =
        pairs.chunks(fill).map(|leaf| leaf.iter().copied().collect()).collect();
    leaves.resize_with(leaves.len().max(1), BTreeMap::new);
    // All but the last leaf have a bound.
    let greatest = |leaf: &BTreeMap<K, u32>| *leaf.last_key_value().unwrap().0;
    let bounds: Vec<K> = leaves[..leaves.len() - 1].iter().map(greatest).collect();
    for round in 0..6 {
        let case = format!("seed {seed}, {} keys, {fill} a leaf, round {round}", keys.len());
        let length = *random.pick(&[1, 3, 64, 5_000]);
        let mut asked = requests(&mut random, &keys, length);
        asked.sort_unstable();
        asked.dedup();
        let values: Vec<u32> = asked.iter().map(|_| random.word() as u32).collect();
        let refused = index.insert(&mut tree, &asked, &values).unwrap();
        let entries: Vec<(K, u32)> = asked.iter().copied().zip(values).collect();
        let expected = insert_into_model(&mut leaves, &bounds, &entries);
        assert_eq!(refused, expected, "{case}: refused");
        let scanned = index.scan(&tree, &[(K::LEAST, K::GREATEST)]).unwrap();
        let found = scanned.keys.iter().copied().zip(scanned.values.iter().copied());
        let all = leaves.iter().flatten().map(|(key, value)| (*key, *value));
        assert!(found.eq(all.filter(|(key, _)| *key < K::GREATEST)), "{case}: entries");
        check_places(&index, &tree, &leaves, &asked, &case);
    }
}

/// Checks searches after insertions.
fn check_places<K: Drawn>(
    index: &DeviceIndex<K>,
    tree: &DeviceTree<K>,
    leaves: &[BTreeMap<K, u32>],
    asked: &[K],
    case: &str,
) {
    let mut place_of = BTreeMap::new();
    for (number, leaf) in leaves.iter().enumerate() {
        place_of.extend(leaf.keys().zip((number * K::LEAF_KEYS) as u32..));
    }
    let end = (leaves.len() - 1) * K::LEAF_KEYS + leaves[leaves.len() - 1].len();
    let there = index.keys(asked).unwrap();
    let mut found = index.places(asked.len()).unwrap();
    index.find(tree, &there, 8, &mut found).unwrap();
    let first = |key: &K| place_of.range(*key..).next().map_or(end as u32, |(_, place)| *place);
    let expected: Vec<u32> = asked.iter().map(first).collect();
    assert_eq!(index.download(&found, asked.len()).unwrap(), expected, "{case}: first");
    index.find_last(tree, &there, &mut found).unwrap();
    let last = |key: &K| place_of.range(..=*key).next_back();
    let last = |key: &K| last(key).map_or(DevicePlaces::NONE, |(_, place)| *place);
    let expected: Vec<u32> = asked.iter().map(last).collect();
    assert_eq!(index.download(&found, asked.len()).unwrap(), expected, "{case}: last");
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn trees_of_words_equal_the_cpu() {
    SIZES.iter().zip(0..).for_each(|(size, seed)| check_tree::<u64>(seed, *size));
    (100..130).for_each(|seed| check_tree::<u64>(seed, 40 * seed as usize));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn trees_of_pairs_equal_the_cpu() {
    SIZES.iter().zip(0..).for_each(|(size, seed)| check_tree::<ObjectTime>(seed, *size));
    (200..230).for_each(|seed| check_tree::<ObjectTime>(seed, 30 * seed as usize));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn insertions_of_words_equal_the_model() {
    (0..40).for_each(check_insertions::<u64>);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn insertions_of_pairs_equal_the_model() {
    (0..40).for_each(check_insertions::<ObjectTime>);
}
