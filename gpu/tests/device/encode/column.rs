//! Encodes single columns of every type, shape, size and tree, and computes their statistics.

use shoal_codec::{
    EncodedTree, Grouping, Keys, NotApplicable, Statistics, Tree, Values, encode_column,
};
use shoal_gpu::{EncodeError, Encoder, Gpu};
use shoal_testkit::Random;

use crate::sample::{ROWS, SHAPES, TYPES, column, trees};

/// Number of random columns, unless `SHOAL_TEST_COLUMNS` sets it.
const COLUMNS: usize = 1_000;

pub(crate) fn encoder() -> Encoder {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Encoder::new(&gpu, 8 << 30).unwrap()
}

/// The number of random columns.
fn columns() -> usize {
    let given = std::env::var("SHOAL_TEST_COLUMNS");
    given.map_or(COLUMNS, |given| given.parse().expect("SHOAL_TEST_COLUMNS is a number"))
}

/// The device's result.
fn on_device(
    encoder: &mut Encoder,
    values: &Values,
    tree: &Tree,
    keys: &Values,
) -> Result<EncodedTree, NotApplicable> {
    match encoder.encode_column(values, tree, Some((keys, 1))) {
        Ok(encoded) => Ok(encoded),
        Err(EncodeError::NotApplicable(reason)) => Err(NotApplicable { reason }),
        Err(error) => panic!("{tree}: {error}"),
    }
}

/// Checks that device and CPU encode the values alike. Returns true if the tree applies to them.
pub(crate) fn agrees(
    encoder: &mut Encoder,
    values: &Values,
    tree: &Tree,
    (keys, grouping): (&Values, &Grouping),
    context: &str,
) -> bool {
    let expected = encode_column(values, tree, Some(Keys { grouping, column: 1 }));
    let found = on_device(encoder, values, tree, keys);
    match (expected, found) {
        (Ok(expected), Ok(found)) => {
            assert_eq!(found.plan, expected.plan, "{context}");
            for (number, pair) in found.sections.iter().zip(&expected.sections).enumerate() {
                let (found, expected) = pair;
                let differs = found.iter().zip(expected).position(|(one, other)| one != other);
                assert_eq!(differs, None, "{context}: first byte of section {number} that differs");
                assert_eq!(found.len(), expected.len(), "{context}: section {number}");
            }
            true
        }
        (Err(_), Err(_)) => false,
        (Ok(_), Err(refusal)) => panic!("{context}: {}", refusal.reason),
        (Err(refusal), Ok(_)) => panic!("{context}: made, the CPU says {}", refusal.reason),
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn every_type_shape_and_size_is_encoded_as_on_the_cpu() {
    let seed = 61;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let trees = trees();
    let mut applied = vec![0; trees.len()];
    for rows in ROWS {
        let objects = [1, 7, 3000][chance.below(3)];
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % objects).collect();
        let grouping = Grouping::new(&keys);
        let keys = Values::U64(keys);
        for value_type in TYPES {
            for shape in SHAPES {
                let values = column(&mut chance, value_type, shape, rows);
                // Each column is encoded with a few trees; a column of few rows with more trees.
                let step = if rows > 3000 { 41 } else { 7 };
                for index in (chance.below(step)..trees.len()).step_by(step) {
                    let tree = &trees[index];
                    let context =
                        format!("seed {seed}, {rows} rows, {value_type:?}, {shape:?}, {tree}");
                    let keys = (&keys, &grouping);
                    let is_made = agrees(&mut encoder, &values, tree, keys, &context);
                    applied[index] += usize::from(is_made);
                }
            }
        }
    }
    for (tree, applied) in trees.iter().zip(applied) {
        assert!(applied > 2, "{tree} applied {applied} times only: it is not tested");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn random_columns_are_encoded_as_on_the_cpu() {
    let seed = 62;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let trees = trees();
    for case in 0..columns() {
        let rows = chance.below(300) * chance.below(9);
        let value_type = TYPES[chance.below(TYPES.len())];
        let shape = SHAPES[chance.below(SHAPES.len())];
        let tree = &trees[chance.below(trees.len())];
        let objects = 1 + chance.word() % 400;
        let keys: Vec<u64> = (0..rows).map(|_| (chance.word() % objects) << 50).collect();
        let grouping = Grouping::new(&keys);
        let values = column(&mut chance, value_type, shape, rows);
        let context =
            format!("seed {seed}, case {case}, {rows} rows, {value_type:?}, {shape:?}, {tree}");
        agrees(&mut encoder, &values, tree, (&Values::U64(keys), &grouping), &context);
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn several_segments_are_grouped_as_on_the_cpu() {
    let seed = 63;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    for objects in [3, 5000, 1 << 40] {
        let rows = 200_000;
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % objects).collect();
        let grouping = Grouping::new(&keys);
        let keys = Values::U64(keys);
        for (value_type, tree) in TYPES.into_iter().zip(trees().iter().rev()) {
            let values = column(&mut chance, value_type, SHAPES[6], rows);
            let context = format!("seed {seed}, {objects} objects, {value_type:?}, {tree}");
            agrees(&mut encoder, &values, tree, (&keys, &grouping), &context);
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn keys_of_any_type_and_distance_are_grouped_as_on_the_cpu() {
    let seed = 65;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    let trees: Vec<Tree> = trees().into_iter().filter(Tree::is_keyed).collect();
    // The kernel has a counter for each of 8192 neighbouring keys. These spans (least key, number
    // of keys) begin at various keys, and some have more than 8192 keys.
    let spans = [(0, 1), (5, 2), (8190, 8192), (8191, 8192), (3, 8193), (1000, 60_000)];
    for rows in [1, 1000, 65_536, 70_001, 131_072] {
        for (least, span) in spans {
            let keys: Vec<u64> = (0..rows).map(|_| least + chance.word() % span).collect();
            // Runs of one key: one atomic instruction counts several rows of a key.
            let runs: Vec<u64> = (0..rows).map(|row| keys[row / 7 * 7]).collect();
            for keys in [keys, runs] {
                let tree = &trees[chance.below(trees.len())];
                let value_type = TYPES[chance.below(TYPES.len())];
                let values = column(&mut chance, value_type, SHAPES[6], rows);
                let grouping = Grouping::new(&keys);
                let context =
                    format!("seed {seed}, {rows} rows, {span} keys, {value_type:?}, {tree}");
                let narrow: Vec<u16> = keys.iter().map(|key| *key as u16).collect();
                let half = keys.iter().map(|key| *key as u32 + 0x7fff_f001).collect();
                let wide = keys.iter().map(|key| *key + (1 << 47) - 77).collect();
                let mut all = vec![Values::U16(narrow), Values::U32(half), Values::U64(wide)];
                if least + span <= 256 {
                    all.push(Values::U8(keys.iter().map(|key| *key as u8).collect()));
                }
                for keys in all {
                    agrees(&mut encoder, &values, tree, (&keys, &grouping), &context);
                }
            }
        }
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn statistics_are_those_of_the_cpu() {
    let seed = 64;
    let (mut chance, mut encoder) = (Random::new(seed), encoder());
    for rows in ROWS.into_iter().chain([65_537, 140_000]) {
        for value_type in TYPES {
            for shape in SHAPES {
                let values = column(&mut chance, value_type, shape, rows);
                let found = encoder.statistics(&values).unwrap();
                let context = format!("seed {seed}, {rows} rows, {value_type:?}, {shape:?}");
                assert_eq!(found, Statistics::of_values(&values), "{context}");
            }
        }
    }
}
