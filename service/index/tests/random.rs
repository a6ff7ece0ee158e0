//! Random trees and operations against `BTreeMap`; each failure names its seed.

use std::collections::BTreeMap;
use std::ops::Bound;

use shoal_index::{Key, ObjectTime, Tree};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }
}

/// A key that the tests can draw.
trait Drawn: Key {
    /// A key out of about `range`, sometimes at the ends of all keys.
    fn draw(random: &mut Random, range: u64) -> Self;
}

impl Drawn for u64 {
    fn draw(random: &mut Random, range: u64) -> Self {
        match random.below(50) {
            0 => random.below(3),
            1 => Self::MAX - random.below(3),
            _ => (Self::MAX / 2).wrapping_add(random.below(range)),
        }
    }
}

impl Drawn for ObjectTime {
    fn draw(random: &mut Random, range: u64) -> Self {
        let object = u64::draw(random, range / 8 + 1);
        let time = match random.below(20) {
            0 => i64::MIN,
            1 => i64::MAX,
            _ => random.below(16) as i64 - 8,
        };
        Self { object, time }
    }
}

type Model<K> = BTreeMap<K, u32>;

fn built<K: Key>(model: &Model<K>, fill: usize) -> Tree<K, u32> {
    let (keys, values): (Vec<K>, Vec<u32>) =
        model.iter().map(|(key, value)| (*key, *value)).unzip();
    Tree::build(&keys, &values, fill).expect("the keys of a map ascend")
}

/// Compares every way to read with the model, for a key.
fn compare<K: Key>(tree: &Tree<K, u32>, model: &Model<K>, key: K, case: &str) {
    assert_eq!(tree.get(key), model.get(&key), "{case}: get {key:?}");
    let at = tree.lower_bound(key);
    let first = model.range(key..).next().map(|(key, value)| (*key, value));
    assert_eq!(tree.entry(at), first, "{case}: lower bound of {key:?}");
    let last = model.range(..=key).next_back().map(|(key, value)| (*key, value));
    assert_eq!(tree.last_not_above(key), last, "{case}: last not above {key:?}");
    let mut places = [0; 3];
    tree.lower_bounds(&[key, K::LEAST, key], &mut places);
    assert_eq!(places, [at, tree.lower_bound(K::LEAST), at], "{case}: many");
}

/// Compares everything with the model.
fn compare_all<K: Drawn>(tree: &Tree<K, u32>, model: &Model<K>, random: &mut Random, case: &str) {
    assert_eq!((tree.len(), tree.is_empty()), (model.len(), model.is_empty()), "{case}");
    let all = model.iter().map(|(key, value)| (*key, value));
    assert!(tree.iter().eq(all), "{case}: all entries");
    for key in [K::LEAST, K::GREATEST] {
        compare(tree, model, key, case);
    }
    for _ in 0..60 {
        let (low, high) = (K::draw(random, 3_000), K::draw(random, 3_000));
        compare(tree, model, low, case);
        let bound = |key, random: &mut Random| match random.below(3) {
            0 => Bound::Included(key),
            1 => Bound::Excluded(key),
            _ => Bound::Unbounded,
        };
        let range = (bound(low.min(high), random), bound(high.max(low), random));
        if low != high {
            let expected = model.range(range).map(|(key, value)| (*key, value));
            assert!(tree.range(range).eq(expected), "{case}: range {range:?}");
        }
    }
}

fn trees_equal_the_model<K: Drawn>() {
    for seed in 0..60 {
        let mut random = Random(seed);
        let sizes = [0, 1, 2, 15, 16, 17, 255, 256, 257, 300, 4_095, 4_097, 70_000];
        let length = sizes[random.below(sizes.len() as u64) as usize];
        let range = [length as u64 + 1, 4 * length as u64 + 1, u64::MAX][random.below(3) as usize];
        let draw = |_: usize| (K::draw(&mut random, range), random.next() as u32);
        let model: Model<K> = (0..length).map(draw).collect();
        let fill = 1 + random.below(K::LEAF_KEYS as u64) as usize;
        let tree = built(&model, fill);
        compare_all(&tree, &model, &mut random, &format!("seed {seed}, {length} of {fill}"));
    }
}

fn insertions_equal_the_model<K: Drawn>() {
    for seed in 0..40 {
        let mut random = Random(1_000 + seed);
        let range = [3_000, 100_000, u64::MAX][random.below(3) as usize];
        let first = random.below(3_000) as usize;
        let draw = |_: usize| (K::draw(&mut random, range), 0);
        let mut model: Model<K> = (0..first).map(draw).collect();
        let mut tree = built(&model, 1 + random.below(K::LEAF_KEYS as u64) as usize);
        for number in 0..6_000 {
            let (key, value) = (K::draw(&mut random, range), number);
            let case = format!("seed {seed}, insertion {number}");
            assert_eq!(tree.insert(key, value), model.insert(key, value), "{case}: {key:?}");
            compare(&tree, &model, key, &case);
            if number % 1_000 == 0 {
                compare_all(&tree, &model, &mut random, &case);
            }
        }
        compare_all(&tree, &model, &mut random, &format!("seed {seed}, all insertions"));
    }
}

#[test]
fn trees_of_words_equal_the_model() {
    trees_equal_the_model::<u64>();
}

#[test]
fn trees_of_pairs_equal_the_model() {
    trees_equal_the_model::<ObjectTime>();
}

#[test]
fn insertions_of_words_equal_the_model() {
    insertions_equal_the_model::<u64>();
}

#[test]
fn insertions_of_pairs_equal_the_model() {
    insertions_equal_the_model::<ObjectTime>();
}

#[test]
fn ascending_and_descending_insertions_equal_the_model() {
    for descends in [false, true] {
        let (mut tree, mut model) = (Tree::default(), Model::new());
        for number in 0..40_000_u64 {
            let key = if descends { 1_000_000 - number } else { number };
            assert_eq!(tree.insert(key, number as u32), model.insert(key, number as u32));
        }
        let case = format!("descends {descends}");
        compare_all(&tree, &model, &mut Random(7), &case);
        for key in 0..40_000 {
            compare(&tree, &model, if descends { 1_000_000 - key } else { key }, &case);
        }
        // Appended leaves are full; others keep at least half of their places.
        assert!(tree.bytes() < 40_000 * (8 + 4 + 1) * 5 / 2, "{} bytes", tree.bytes());
    }
}

#[test]
fn wrong_keys_are_refused() {
    let refused = |keys: &[u64], values: &[u32], fill| {
        Tree::build(keys, values, fill).expect_err("not built").to_string()
    };
    assert!(refused(&[1, 2, 2], &[0; 3], 16).contains("key 2 is not above key 1"));
    assert!(refused(&[1, 2], &[0; 3], 16).contains("2 keys have 3 values"));
    assert!(refused(&[1], &[0], 0).contains("0 keys a leaf is not between 1 and 16"));
    assert!(refused(&[1], &[0], 17).contains("17 keys a leaf"));
}
