//! Columns outside blocks: every tree, type, shape and size, whole and damaged.
//!
//! SHOAL_CODEC_COLUMNS sets the number of random columns, SHOAL_MUTATIONS the number of damaged
//! columns.

use shoal_codec::{
    Budget, EncodedTree, Grouping, Keys, Tree, ValueType, Values, decode_column, encode_column,
};
use shoal_gpu::EncodedColumn;
use shoal_testkit::Random;

use crate::sample::{ROWS, SHAPES, TYPES, column, tree, trees, typed};

const SEED: u64 = 81;
/// Columns that are copied to the device together.
const BATCH: usize = 500;

/// A column, the keys that order it, and their origin.
struct Sample {
    key: EncodedTree,
    grouping: Grouping,
    encoded: EncodedTree,
    values: Values,
    name: String,
}

/// Keys of a random width, number of distinct values, and distance from each other.
fn keys(chance: &mut Random, rows: usize) -> (EncodedTree, Grouping) {
    let objects = 1 + chance.word() % [1, 9, 400, 5000, 60_000][chance.below(5)];
    let spread = [1, 1_000_003, 1 << 40][chance.below(3)];
    let keys: Vec<u64> =
        (0..rows).map(|_| (chance.word() % objects).wrapping_mul(spread)).collect();
    let types = [ValueType::U64, ValueType::U32, ValueType::U16, ValueType::I64, ValueType::I8];
    let keys = typed(types[chance.below(types.len())], &keys);
    let trees =
        ["raw", "afl", "dict.65536(afl)", "dict.65536(patch(afl))", "dict.5(afl, afl)"].map(tree);
    let encoded = encode_column(&keys, &trees[chance.below(trees.len())], None);
    let encoded = encoded.unwrap_or_else(|_| encode_column(&keys, &Tree::Raw, None).unwrap());
    (encoded, Grouping::new(&keys.keys()))
}

fn sample(
    chance: &mut Random,
    (value_type, shape): (usize, usize),
    rows: usize,
    tree: &Tree,
) -> Option<Sample> {
    let (value_type, shape) = (TYPES[value_type], SHAPES[shape]);
    let values = column(chance, value_type, shape, rows);
    let (key, grouping) = keys(chance, rows);
    let with = Keys { grouping: &grouping, column: 1 };
    let encoded = encode_column(&values, tree, Some(with)).ok()?;
    let name = format!("seed {SEED}, {rows} rows, {value_type:?}, {shape:?}, {tree}");
    Some(Sample { key, grouping, encoded, values, name })
}

/// Checks that the values round-trip.
fn check(samples: &[Sample]) {
    let columns =
        samples.iter().map(|it| EncodedColumn { encoded: &it.encoded, key: Some(&it.key) });
    let decoded = super::decoder::decoder().columns(&columns.collect::<Vec<_>>()).unwrap();
    for (sample, decoded) in samples.iter().zip(decoded) {
        match decoded {
            Ok(values) => assert!(values == sample.values, "{}: other values", sample.name),
            Err(error) => panic!("{}: {error}", sample.name),
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn every_type_shape_and_size_round_trips_through_every_tree() {
    let mut chance = Random::new(SEED);
    let trees = trees();
    let mut applied = vec![0; trees.len()];
    for rows in ROWS {
        let mut samples = Vec::new();
        for value_type in 0..TYPES.len() {
            for shape in 0..SHAPES.len() {
                let step = if rows > 3000 { 17 } else { 3 };
                let first = chance.below(step);
                for index in (first..trees.len()).step_by(step) {
                    let sample = sample(&mut chance, (value_type, shape), rows, &trees[index]);
                    applied[index] += usize::from(sample.is_some());
                    samples.extend(sample);
                }
            }
        }
        check(&samples);
    }
    for (tree, applied) in trees.iter().zip(applied) {
        assert!(applied > 10, "{tree} applied {applied} times only: it is not tested");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn random_columns_round_trip() {
    let mut chance = Random::new(SEED + 1);
    let trees = trees();
    let mut left = super::decoder::count("SHOAL_CODEC_COLUMNS", 2000);
    while left > 0 {
        let mut samples = Vec::new();
        while samples.len() < left.min(BATCH) {
            let rows = chance.below(300) * chance.below(9);
            let kind = (chance.below(TYPES.len()), chance.below(SHAPES.len()));
            let tree = &trees[chance.below(trees.len())];
            samples.extend(sample(&mut chance, kind, rows, tree));
        }
        check(&samples);
        left -= samples.len();
    }
}

/// Changes up to three bytes, but no length. At least half of the changes are in the first 64
/// bytes of a section.
pub(crate) fn damage(chance: &mut Random, encoded: &mut EncodedTree) {
    for _ in 0..=chance.below(3) {
        let section = chance.below(encoded.sections.len());
        let bytes = &mut encoded.sections[section];
        if bytes.is_empty() {
            continue;
        }
        let limit = if chance.below(2) == 0 { bytes.len().min(64) } else { bytes.len() };
        let place = chance.below(limit);
        match chance.below(5) {
            0..3 => bytes[place] ^= 1 << chance.below(8),
            3 => bytes[place] = chance.edgy() as u8,
            _ => bytes[place] = bytes[place].wrapping_add(1),
        }
    }
}

/// Checks that device and CPU accept and refuse the same columns and return the same values.
fn check_damaged(samples: &[Sample], mutants: &[(usize, EncodedTree)]) -> [usize; 2] {
    let columns: Vec<EncodedColumn<'_>> = mutants
        .iter()
        .map(|(sample, encoded)| EncodedColumn { encoded, key: Some(&samples[*sample].key) })
        .collect();
    // The decoder takes the error of a refused column from the CPU, and fails if the CPU accepts
    // it.
    let decoded = super::decoder::decoder().columns(&columns).unwrap();
    let mut counts = [0; 2];
    for ((number, encoded), found) in mutants.iter().zip(decoded) {
        let Sample { name, grouping, .. } = &samples[*number];
        let expected = decode_column(encoded, Some(grouping), &Budget::default());
        counts[usize::from(expected.is_err())] += 1;
        match (expected, found) {
            (Ok(expected), Ok(found)) => assert!(expected == found, "{name}: other values"),
            (Err(expected), Err(found)) => assert_eq!(expected, found, "{name}"),
            (expected, found) => panic!("{name}: {:?}, device {:?}", expected.err(), found.err()),
        }
    }
    counts
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn damaged_columns_are_refused_where_the_cpu_refuses_them() {
    let mut chance = Random::new(SEED + 2);
    let trees = trees();
    let mutations = super::decoder::count("SHOAL_MUTATIONS", 6000);
    let (mut accepted, mut refused) = (0, 0);
    while accepted + refused < mutations {
        let mut samples = Vec::new();
        while samples.len() < 50 {
            let kind = (chance.below(TYPES.len()), chance.below(SHAPES.len()));
            let (rows, tree) = (chance.below(1300), &trees[chance.below(trees.len())]);
            let sample = sample(&mut chance, kind, rows, tree);
            samples.extend(sample.filter(|sample| !sample.encoded.sections.is_empty()));
        }
        let mutant = |number: usize| {
            let mut encoded = samples[number].encoded.clone();
            damage(&mut chance, &mut encoded);
            (number, encoded)
        };
        let mutants: Vec<_> = (0..samples.len()).cycle().take(1000).map(mutant).collect();
        let counts = check_damaged(&samples, &mutants);
        accepted += counts[0];
        refused += counts[1];
    }
    println!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) > mutations / 20, "the test is lopsided");
}
