//! Round trips: a tree that applies gives any
//! column back bit by bit.

use shoal_codec::{Budget, Grouping, Keys, Tree, Values, decode_column, encode_column};
use shoal_testkit::Random;

use crate::sample::{ROWS, SHAPES, TYPES, column, trees};

/// Encodes and decodes; true if the tree applied.
fn round_trips(values: &Values, tree: &Tree, grouping: &Grouping, context: &str) -> bool {
    let keys = Keys { grouping, column: 1 };
    let Ok(encoded) = encode_column(values, tree, Some(keys)) else {
        return false;
    };
    let again = encode_column(values, tree, Some(keys));
    assert_eq!(again.as_ref(), Ok(&encoded), "{context}: not a function of its input");
    match decode_column(&encoded, Some(grouping), &Budget::default()) {
        Ok(back) => assert!(back == *values, "{context}: other values came back"),
        Err(error) => panic!("{context}: {error}"),
    }
    true
}

#[test]
fn every_type_shape_and_size_round_trips_through_every_tree() {
    let seed = 41;
    let mut chance = Random::new(seed);
    let trees = trees();
    let mut applied = vec![0; trees.len()];
    for rows in ROWS {
        let objects = [1, 7, 3000][chance.below(3)];
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % objects).collect();
        let grouping = Grouping::new(&keys);
        for value_type in TYPES {
            for shape in SHAPES {
                let values = column(&mut chance, value_type, shape, rows);
                // Large columns take a few trees each, small ones all.
                let step = if rows > 3000 { 17 } else { 1 };
                let first = chance.below(step);
                for index in (first..trees.len()).step_by(step) {
                    let tree = &trees[index];
                    let context = format!("seed {seed}, {rows} rows, {shape:?}, {tree}");
                    applied[index] += usize::from(round_trips(&values, tree, &grouping, &context));
                }
            }
        }
    }
    for (tree, applied) in trees.iter().zip(applied) {
        assert!(applied > 20, "{tree} applied {applied} times only: it is not tested");
    }
}

#[test]
fn ten_thousand_random_columns_round_trip() {
    let seed = 42;
    let mut chance = Random::new(seed);
    let trees = trees();
    for case in 0..10_000 {
        let rows = chance.below(300) * chance.below(9);
        let value_type = TYPES[chance.below(TYPES.len())];
        let shape = SHAPES[chance.below(SHAPES.len())];
        let tree = &trees[chance.below(trees.len())];
        let objects = 1 + chance.word() % 400;
        let keys: Vec<u64> = (0..rows).map(|_| (chance.word() % objects) << 50).collect();
        let values = column(&mut chance, value_type, shape, rows);
        let context = format!("seed {seed}, case {case}, {rows} rows, {shape:?}, {tree}");
        round_trips(&values, tree, &Grouping::new(&keys), &context);
    }
}

#[test]
fn runs_of_every_length_round_trip_up_to_the_last_value() {
    let grouping = Grouping::new(&[]);
    let tree = Tree::Rle(Tree::Afl.into(), Tree::Afl.into());
    for first in 1..40 {
        for last in 1..40 {
            let runs = [vec![7; first], vec![8], vec![9; last]].concat();
            let context = format!("runs of {first}, 1 and {last} values");
            assert!(round_trips(&Values::U32(runs), &tree, &grouping, &context), "{context}");
        }
    }
}

#[test]
fn trees_that_the_format_does_not_allow_do_not_apply() {
    let values = Values::U32(vec![1, 2, 3]);
    let grouping = Grouping::new(&[1, 1, 2]);
    let keys = Some(Keys { grouping: &grouping, column: 1 });
    let group = || Box::new(Tree::Group(Box::new(Tree::Afl)));
    let deep = |tree: Tree| Tree::Scale(Tree::Scale(Tree::Scale(tree.into()).into()).into());
    encode_column(&values, &deep(Tree::Afl), keys).unwrap();
    let cases = [
        (deep(Tree::Scale(Tree::Afl.into())), "level"),
        (Tree::Group(group()), "second node"),
        (Tree::Rle(group(), Tree::Afl.into()), "every row"),
        (Tree::Rle(Tree::Raw.into(), Tree::Afl.into()), "every row"),
        (Tree::Gfc, "no float"),
        (Tree::FloatToInt(None, Tree::Afl.into()), "floats"),
        (Tree::Const, "equal values"),
        (Tree::Divisor(None, Tree::Afl.into()), "no divisor"),
        (Tree::Patch(Tree::Divisor(None, Tree::Afl.into()).into()), "from the plan"),
    ];
    for (tree, reason) in cases {
        let refusal = encode_column(&values, &tree, keys).unwrap_err();
        assert!(refusal.reason.contains(reason), "{tree}: {}", refusal.reason);
    }
    let refusal = encode_column(&values, &group(), None).unwrap_err();
    assert!(refusal.reason.contains("keys"), "{}", refusal.reason);
}
