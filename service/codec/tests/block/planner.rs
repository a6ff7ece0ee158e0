//! The planner finds good trees, adapts to the
//! data, and is deterministic.

use shoal_codec::{
    Aim, Block, Budget, Column, ColumnPlanner, CpuCodec, FixColumns, FixRow, SpaceKind, SpaceTag,
    Tree, Values, encode_column,
};
use shoal_testkit::Random;

const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };

/// Plans, encodes and observes one batch; gives the tree and the bytes of its sections.
fn run(planner: &mut ColumnPlanner, values: &Values) -> (Tree, usize) {
    let tree = planner.plan(values, None);
    let encoded = encode_column(values, &tree, None)
        .unwrap_or_else(|_| encode_column(values, &Tree::Raw, None).unwrap());
    let bytes = encoded.sections.iter().map(Vec::len).sum::<usize>().max(1);
    planner.observe(values.len() * values.value_type().width_bytes(), bytes);
    (tree, bytes)
}

fn steps(rows: u32) -> Values {
    Values::U32((0..rows).map(|row| row / 40 * 1000).collect())
}

fn noise(chance: &mut Random, rows: usize, limit: u64) -> Values {
    Values::U32((0..rows).map(|_| (chance.word() % limit) as u32).collect())
}

#[test]
fn the_first_batch_is_explored_and_takes_what_it_finds() {
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    let (tree, bytes) = run(&mut planner, &steps(50_000));
    assert!(bytes * 50 < 200_000, "{tree}: {bytes} bytes");
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    let equal = Values::F64(vec![f64::NAN; 5000]);
    assert_eq!(run(&mut planner, &equal).0, Tree::Const);
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    let all = noise(&mut Random::new(81), 5000, 1 << 32);
    assert_eq!(run(&mut planner, &all).0, Tree::Raw);
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    assert_eq!(run(&mut planner, &Values::I8(Vec::new())).0, Tree::Const);
}

/// Values of any magnitude up to 14 bits, small ones more often.
fn skewed(chance: &mut Random, rows: usize) -> Values {
    let value = |_| (chance.word() % (2 << chance.word().trailing_zeros().min(13))) as u32;
    Values::U32((0..rows).map(value).collect())
}

#[test]
fn aims_weigh_bytes_against_speed() {
    let planned = |aim, values: &Values| run(&mut ColumnPlanner::new(1, aim), values);
    let values = skewed(&mut Random::new(85), 50_000);
    let [fast, balanced, small] = Aim::ALL.map(|aim| planned(aim, &values));
    assert!(!fast.0.to_string().contains("huffman"), "{}", fast.0);
    assert_eq!((&small.0, &balanced.0), (&Tree::HuffmanLong, &Tree::Huffman));
    assert!(small.1 <= balanced.1, "{} bytes, balanced {}", small.1, balanced.1);
    assert!(small.1 * 10 < fast.1 * 9, "{} bytes, {} without codes", small.1, fast.1);
    // Codes save nothing if all values are equally frequent.
    let even = noise(&mut Random::new(86), 50_000, 1 << 11);
    let [fast, balanced, small] = Aim::ALL.map(|aim| planned(aim, &even));
    assert_eq!((&balanced, small.1 <= fast.1), (&fast, true));
    for aim in Aim::ALL {
        assert_eq!(aim.to_string().parse(), Ok(aim));
    }
    assert!("smallest".parse::<Aim>().unwrap_err().to_string().contains("balanced"));
}

#[test]
fn attributes_may_have_an_aim_of_their_own() {
    let mut chance = Random::new(88);
    let mut columns = FixColumns::new();
    let mut skewed = || (chance.word() % (2 << chance.word().trailing_zeros().min(13))) as u32;
    for row in 0..20_000 {
        let speed_mm_s = skewed();
        columns.push_row(FixRow { speed_mm_s, ..FixRow::new(row, 0, skewed() as i32, 0) });
    }
    let small = shoal_codec::Planner::new(1, Aim::Small);
    for (mut planner, coded) in [
        (small.clone(), vec![Column::X, Column::Speed]),
        (small.with_attributes(Aim::Fast), vec![Column::X]),
    ] {
        let plan = planner.plan(&columns).unwrap();
        let has_codes = |column: &Column| plan.tree(*column).to_string().contains("huffman");
        let found: Vec<_> = [Column::X, Column::Speed].into_iter().filter(has_codes).collect();
        assert_eq!(found, coded);
    }
}

#[test]
fn text_takes_strings_where_the_aim_allows_codes() {
    let mut chance = Random::new(87);
    let words: Vec<String> =
        (0..200).map(|_| format!("{:x} ", chance.word() % (1 << 20))).collect();
    let text: String = (0..20_000).map(|_| words[chance.below(200)].as_str()).collect();
    let values = Values::U8(text.into_bytes());
    let trees = Aim::ALL.map(|aim| run(&mut ColumnPlanner::new(1, aim), &values).0.to_string());
    assert!(!trees[0].contains("lzw"), "{trees:?}");
    assert!(trees[1].starts_with("lzw.64(") && trees[2].starts_with("lzw.256("), "{trees:?}");
}

#[test]
fn a_fallen_ratio_is_corrected_at_the_next_batch() {
    let seed = 82;
    let mut chance = Random::new(seed);
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    // Too few rows to be looked at before.
    let (first, _) = run(&mut planner, &steps(5_000));
    let (kept, _) = run(&mut planner, &steps(5_000));
    assert_eq!(kept, first, "a tree that does well is kept");
    let (_, fallen) = run(&mut planner, &thousands(&mut chance, 5_000));
    let (corrected, bytes) = run(&mut planner, &thousands(&mut chance, 5_000));
    assert_ne!(corrected, first);
    assert!(bytes * 2 < fallen, "{corrected}: {bytes}, before {fallen}");
}

/// Multiples of 1000, as `steps` gives, so that a tree for `steps` applies but compresses badly.
fn thousands(chance: &mut Random, rows: usize) -> Values {
    Values::U32((0..rows).map(|_| chance.below(1000) as u32 * 1000).collect())
}

#[test]
fn a_batch_of_another_character_has_another_tree_at_once() {
    let seed = 86;
    let mut chance = Random::new(seed);
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    let mut trees = Vec::new();
    for turn in 0..8 {
        for batch in 0..3 {
            let (values, bytes_max) = match turn % 2 {
                0 => (thousands(&mut chance, 40_000), 40_000 * 11 / 8),
                // The tree of the other batches also compresses these well, but their own tree does
                // much better.
                _ => (steps(40_000), 40_000 / 8),
            };
            let (tree, bytes) = run(&mut planner, &values);
            assert!(bytes < bytes_max, "turn {turn}, batch {batch}: {tree}: {bytes} bytes");
            trees.push(tree);
        }
    }
    trees.dedup();
    assert_eq!(trees.len(), 8, "a tree is kept while its character lasts");
}

#[test]
fn a_tree_that_no_longer_applies_is_corrected_at_once() {
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    let equal = |value: u32| Values::U32(vec![value; 5000]);
    assert_eq!(run(&mut planner, &equal(7)).0, Tree::Const);
    let (tree, bytes) = run(&mut planner, &steps(5000));
    assert!(tree != Tree::Const && bytes * 10 < 20_000, "{tree}: {bytes} bytes");
}

#[test]
fn a_later_exploration_takes_effect_eight_batches_on() {
    let mut planner = ColumnPlanner::new(1, Aim::Fast);
    // No batch compresses worse than expected, so no correction follows. Batch 64 finds the better
    // tree, which takes effect at batch 72.
    let mut chance = Random::new(83);
    let mut trees = Vec::new();
    for batch in 0..80 {
        let values = match batch {
            0..64 => noise(&mut chance, 3000, 1000),
            _ => steps(3000),
        };
        trees.push(planner.plan(&values, None));
        planner.observe(1000, 1);
    }
    assert!(trees[..72].iter().all(|tree| *tree == trees[0]), "changed early");
    assert_ne!(trees[72], trees[0]);
    assert!(trees[72..].iter().all(|tree| *tree == trees[72]));
}

#[test]
fn equal_streams_give_equal_plans() {
    let run_all = || {
        let mut chance = Random::new(84);
        let mut planner = ColumnPlanner::new(9, Aim::Fast);
        let batch = |chance: &mut Random, number: u64| match number % 10 {
            0..5 => noise(chance, 2000, 50 + number),
            _ => steps(2000),
        };
        (0..90).map(|number| run(&mut planner, &batch(&mut chance, number))).collect::<Vec<_>>()
    };
    assert_eq!(run_all(), run_all());
}

#[test]
fn a_stream_of_fixes_shrinks_and_comes_back() {
    let seed = 85;
    let mut chance = Random::new(seed);
    let mut planner = shoal_codec::Planner::new(1, Aim::Fast);
    let mut places = [(0_i32, 0_i32); 30];
    let mut bytes = Vec::new();
    for sequence in 0..12 {
        let mut columns = FixColumns::new();
        for row in 0..4000_i64 {
            let object = chance.below(30);
            let (x, y) = &mut places[object];
            *x += 100 * (chance.below(9) - 4);
            *y += 100 * (chance.below(9) - 4);
            let time_ms = (sequence * 4000 + row) / 8 * 1000;
            columns.push_row(FixRow::new(7000 + object as u64, time_ms, *x, *y));
        }
        let stream = u64::try_from(sequence).unwrap();
        planner.encode(&CpuCodec, &columns, &SPACE, stream, &mut bytes).unwrap();
        let block = Block::parse(bytes.clone().into(), &Budget::default()).unwrap();
        assert_eq!(block.decode().unwrap(), columns, "seed {seed}, block {sequence}");
        assert!(bytes.len() * 6 < columns.len() * 20, "block {sequence}: {} bytes", bytes.len());
    }
}
