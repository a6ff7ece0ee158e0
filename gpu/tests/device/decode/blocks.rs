//! Decodes blocks of fixes and tables: blocks of any plan, many blocks at once, and damaged blocks.
//!
//! The number of damaged blocks is a tenth of SHOAL_MUTATIONS.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, CpuCodec, FixColumns, Table, TableColumn, Tree, Values,
    compact, encode_table,
};
use shoal_testkit::{
    Random,
    seal::{HEADER, seal},
};

use crate::sample::{SHAPES, TYPES, column, trees};
use crate::walk::{SPACE, any_plan, walks};

const SEED: u64 = 91;

/// The plan of fixes, or a random tree for each column.
pub(crate) fn some_plan(chance: &mut Random) -> BlockPlan {
    if chance.below(3) == 0 { BlockPlan::fixes() } else { any_plan(chance) }
}

pub(crate) fn encode(columns: &FixColumns, plan: &BlockPlan) -> Vec<u8> {
    let mut bytes = Vec::new();
    CpuCodec.encode_planned(columns, plan, &SPACE, 1, &mut bytes).unwrap();
    bytes
}

/// Returns the block, converted to its compact form with a probability of one half.
fn any_form(chance: &mut Random, mut bytes: Vec<u8>) -> Vec<u8> {
    if chance.below(2) == 0 {
        compact(&mut bytes).unwrap();
    }
    bytes
}

fn parse(bytes: Vec<u8>) -> Block {
    Block::parse(bytes.into(), &Budget::default()).unwrap()
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn blocks_of_any_plan_round_trip_together() {
    let mut chance = Random::new(SEED);
    let (mut blocks, mut expected) = (Vec::new(), Vec::new());
    for case in 0..300 {
        let rows = if case % 100 == 0 { 140_000 } else { chance.below(3000) };
        let objects = 1 + chance.word() % 500;
        let columns = walks(&mut chance, rows, objects);
        let bytes = encode(&columns, &some_plan(&mut chance));
        blocks.push(parse(any_form(&mut chance, bytes)));
        expected.push(columns);
    }
    let decoded = super::decoder::decoder().blocks(&blocks).unwrap();
    for (case, (found, expected)) in decoded.into_iter().zip(expected).enumerate() {
        assert_eq!(found.unwrap(), expected, "seed {SEED}, case {case}");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn tables_of_any_columns_round_trip() {
    let mut chance = Random::new(SEED + 1);
    let trees = trees();
    let mut decoder = super::decoder::decoder();
    for case in 0..60 {
        let rows = if case % 20 == 0 { 66_000 } else { chance.below(2500) };
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
        let keys = (256, Values::U64(keys), Tree::Dict(65_536, Tree::Afl.into(), None));
        let mut columns = vec![keys];
        for index in 0..1 + chance.below(8) {
            let kind = (TYPES[chance.below(10)], SHAPES[chance.below(12)]);
            let tree = trees[chance.below(trees.len())].clone();
            let values = column(&mut chance, kind.0, kind.1, rows);
            columns.push((300 + 7 * index as u16, values, tree));
        }
        let wanted: Vec<TableColumn<'_>> = columns
            .iter()
            .map(|(id, values, tree)| TableColumn::numbers(*id, values, tree))
            .collect();
        let mut bytes = Vec::new();
        encode_table(&wanted, Some(256), case, &mut bytes).unwrap();
        let bytes = any_form(&mut chance, bytes);
        let table = Table::parse(bytes.into(), &Budget::default()).unwrap();
        let decoded = decoder.table(&table).unwrap();
        for ((_, values, tree), found) in columns.iter().zip(decoded) {
            assert!(found.unwrap() == *values, "seed {SEED}, case {case}, {tree}");
        }
    }
}

/// A block with up to four flipped bits, if it still parses.
pub(crate) fn damaged(chance: &mut Random, whole: &[u8]) -> Option<Block> {
    let mut bytes = whole.to_vec();
    for _ in 0..=chance.below(3) {
        // A place in the limits of the header, in the directory, or anywhere in the block.
        let places = [56 + chance.below(24), HEADER + chance.below(600), chance.below(1 << 30)];
        let place = places[chance.below(3)] % bytes.len();
        bytes[place] ^= 1 << chance.below(8);
    }
    seal(&mut bytes);
    Block::parse(Bytes::from(bytes), &Budget::default()).ok()
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn damaged_blocks_are_refused_as_the_cpu_refuses_them() {
    let mut chance = Random::new(SEED + 2);
    let mutations = super::decoder::count("SHOAL_MUTATIONS", 6000) / 10;
    let mut decoder = super::decoder::decoder();
    let mut counts = [0; 2];
    while counts[0] + counts[1] < mutations {
        let rows = chance.below(1500);
        let objects = 1 + chance.word() % 30;
        let columns = walks(&mut chance, rows, objects);
        let whole = encode(&columns, &some_plan(&mut chance));
        let whole = any_form(&mut chance, whole);
        let mut blocks = Vec::new();
        for _ in 0..100 {
            blocks.extend(damaged(&mut chance, &whole));
        }
        let decoded = decoder.blocks(&blocks).unwrap();
        for (block, found) in blocks.iter().zip(decoded) {
            let expected = block.decode();
            counts[usize::from(expected.is_err())] += 1;
            assert_eq!(found, expected, "seed {SEED}");
        }
    }
    println!("{} accepted, {} refused", counts[0], counts[1]);
    assert!(counts[0].min(counts[1]) > mutations / 20, "the test is lopsided");
}
