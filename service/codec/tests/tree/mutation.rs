//! Chance attacks the decoders: mutated sections, and mutated blocks with checksums made right.
//!
//! A reader may accept or refuse, it must not panic, and what it accepts has the rows it says.
//! SHOAL_MUTATIONS sets the number of mutated sections, a third as many blocks are mutated; by hand
//! 10,000,000 of each were.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, Budget, CpuCodec, Grouping, Keys, decode_column, encode_column,
};

use crate::every_tree::{SPACE, any_plan, walks};
use crate::random::Random;
use crate::sample::{SHAPES, TYPES, column, trees};
use crate::seal::{HEADER, seal};

const SEED: u64 = 61;

fn executions() -> usize {
    let set = std::env::var("SHOAL_MUTATIONS").ok();
    set.map_or(60_000, |text| text.parse().expect("SHOAL_MUTATIONS is a number"))
}

/// One to four changes of bits, bytes and lengths.
fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=chance.below(3) {
        let length = bytes.len();
        if length == 0 {
            bytes.push(chance.edgy() as u8);
            continue;
        }
        // The beginnings hold counts and offsets, so they are hit more often.
        let limit = if chance.below(2) == 0 { length.min(64) } else { length };
        let place = chance.below(limit);
        match chance.below(8) {
            0..3 => bytes[place] ^= 1 << chance.below(8),
            3 => bytes[place] = chance.edgy() as u8,
            4 => bytes[place] = bytes[place].wrapping_add(1),
            5 if length >= place + 4 => {
                let field = (chance.edgy() as u32).to_le_bytes();
                bytes[place..place + 4].copy_from_slice(&field);
            }
            6 => bytes.truncate(place),
            _ => bytes.swap(place, chance.below(length)),
        }
    }
}

#[test]
fn no_mutated_section_panics() {
    println!("seed {SEED}");
    let mut chance = Random::new(SEED);
    let (trees, budget) = (trees(), Budget::default());
    let (mut accepted, mut refused) = (0, 0);
    let executions = executions();
    while accepted + refused < executions {
        let rows = chance.below(1200);
        let keys: Vec<u64> = (0..rows).map(|_| chance.next() % 9).collect();
        let grouping = Grouping::new(&keys);
        let value_type = TYPES[chance.below(TYPES.len())];
        let shape = SHAPES[chance.below(SHAPES.len())];
        let values = column(&mut chance, value_type, shape, rows);
        let tree = &trees[chance.below(trees.len())];
        let keys = Keys { grouping: &grouping, column: 1 };
        let Ok(encoded) = encode_column(&values, tree, Some(keys)) else {
            continue;
        };
        if encoded.sections.is_empty() {
            continue;
        }
        for _ in 0..40 {
            let mut mutant = encoded.clone();
            let section = chance.below(mutant.sections.len());
            mutate(&mut chance, &mut mutant.sections[section]);
            match decode_column(&mutant, Some(&grouping), &budget) {
                Ok(values) => {
                    assert_eq!(values.len(), rows, "seed {SEED}, {tree}");
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    let context = format!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) > executions / 20, "{context}: the test is lopsided");
}

#[test]
fn no_mutated_block_panics_or_lies() {
    println!("seed {SEED}");
    let mut chance = Random::new(SEED);
    let budget = Budget { rows_max: 4000, ..Budget::default() };
    let mut accepted = 0;
    let executions = executions() / 3;
    for execution in 0..executions.div_ceil(50) {
        let rows = chance.below(1500);
        let objects = 1 + chance.next() % 30;
        let columns = walks(&mut chance, rows, objects);
        let plan = any_plan(&mut chance);
        let mut whole = Vec::new();
        CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut whole).unwrap();
        for _ in 0..50 {
            let mut bytes = whole.clone();
            let directory = HEADER + chance.below(1200).min(whole.len() - HEADER - 1);
            let place = [directory, HEADER + chance.below(whole.len() - HEADER)][chance.below(2)];
            let mut tail = bytes.split_off(place);
            mutate(&mut chance, &mut tail);
            tail.resize(whole.len() - place, 0);
            bytes.append(&mut tail);
            seal(&mut bytes);
            let Ok(block) = Block::parse(Bytes::from(bytes), &budget) else {
                continue;
            };
            let Ok(decoded) = block.decode() else {
                continue;
            };
            assert_eq!(decoded.len(), block.rows(), "seed {SEED}, execution {execution}");
            decoded.check().unwrap();
            accepted += 1;
        }
    }
    assert!(accepted > executions / 50, "only {accepted} accepted: sealing does not work");
}

#[test]
fn every_flipped_bit_of_a_small_block_is_refused_or_harmless() {
    let mut chance = Random::new(SEED);
    let columns = walks(&mut chance, 70, 3);
    let plan = shoal_codec::BlockPlan::fixes();
    let mut whole = Vec::new();
    CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut whole).unwrap();
    for bit in 0..whole.len() * 8 {
        let mut bytes = whole.clone();
        bytes[bit / 8] ^= 1 << (bit % 8);
        let damaged = Block::parse(Bytes::from(bytes.clone()), &Budget::default());
        assert!(damaged.is_err(), "bit {bit} flipped unseen");
        seal(&mut bytes);
        if let Ok(block) = Block::parse(Bytes::from(bytes), &Budget::default()) {
            assert!(block.decode().is_err() || block.rows() == 70, "bit {bit}");
        }
    }
    for length in 0..whole.len() {
        let bytes = Bytes::copy_from_slice(&whole[..length]);
        assert!(Block::parse(bytes, &Budget::default()).is_err(), "{length} bytes");
    }
}
