//! Fuzz targets: each decoder by its sections, blocks and tables of any plan with recomputed
//! checksums, the text of trees.
//!
//! A reader may accept or refuse but must not panic; accepted input has the rows that it states.
//! `bound.rs` sets the length of a run.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, Budget, CpuCodec, Encoding, Grouping, Keys, Table, TableColumn, Tree,
    Values, decode_column, encode_column, encode_table,
};
use shoal_testkit::{
    Bound, Random, fuzz_seed,
    seal::{HEADER, seal},
};

use crate::sample::{SHAPES, TYPES, column, trees};
use crate::walk::{SPACE, any_plan, walks};

const SEED: u64 = 61;

/// One to four changes of bits, bytes and lengths.
fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    for _ in 0..=chance.below(3) {
        let length = bytes.len();
        if length == 0 {
            bytes.push(chance.edgy() as u8);
            continue;
        }
        // The beginning has counts and offsets, so it is changed more often.
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

/// A target for each decoder that reads sections; `const` has none, its plan is fuzzed in blocks.
macro_rules! decoders {
    ($($target:ident: $encoding:ident),* $(,)?) => {
        $(
            #[test]
            fn $target() {
                decoder(Encoding::$encoding);
            }
        )*
    };
}

decoders! {
    fuzz_decoder_raw: Raw,
    fuzz_decoder_afl: Afl,
    fuzz_decoder_delta: Delta,
    fuzz_decoder_delta2: Delta2,
    fuzz_decoder_scale: Scale,
    fuzz_decoder_divisor: Divisor,
    fuzz_decoder_float_to_int: FloatToInt,
    fuzz_decoder_patch: Patch,
    fuzz_decoder_rle: Rle,
    fuzz_decoder_dict: Dict,
    fuzz_decoder_gfc: Gfc,
    fuzz_decoder_huffman: Huffman,
    fuzz_decoder_stateless: Stateless,
    fuzz_decoder_lzw: Lzw,
    fuzz_decoder_huffman_long: HuffmanLong,
    fuzz_decoder_group: Group,
    fuzz_decoder_keyed_delta: KeyedDelta,
    fuzz_decoder_keyed_delta2: KeyedDelta2,
}

/// True if the tree has a node of the encoding.
fn has(tree: &Tree, encoding: Encoding) -> bool {
    tree.encoding() == encoding || tree.children().into_iter().any(|child| has(child, encoding))
}

/// Mutated sections of trees with the encoding.
fn decoder(encoding: Encoding) {
    let mut chance = Random::new(fuzz_seed(SEED));
    let mut trees = trees();
    trees.retain(|tree| has(tree, encoding));
    let (mut accepted, mut refused, mut bound) = (0_u64, 0, Bound::new(8000));
    while bound.is_open() {
        let rows = 1 + chance.below(1200);
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 9).collect();
        let grouping = Grouping::new(&keys);
        let value_type = TYPES[chance.below(TYPES.len())];
        let shape = SHAPES[chance.below(SHAPES.len())];
        let values = column(&mut chance, value_type, shape, rows);
        let tree = &trees[chance.below(trees.len())];
        let keys = Keys { grouping: &grouping, column: 1 };
        let Ok(encoded) = encode_column(&values, tree, Some(keys)) else {
            continue;
        };
        for _ in 0..40 {
            if !bound.goes_on() {
                break;
            }
            let mut mutant = encoded.clone();
            let section = chance.below(mutant.sections.len());
            mutate(&mut chance, &mut mutant.sections[section]);
            match decode_column(&mutant, Some(&grouping), &Budget::default()) {
                Ok(values) => {
                    assert_eq!(values.len(), rows, "{tree}");
                    accepted += 1;
                }
                Err(_) => refused += 1,
            }
        }
    }
    let counts = format!("{accepted} accepted, {refused} refused");
    assert!(accepted.min(refused) > bound.done() / 800, "{counts}: the target is lopsided");
}

#[test]
fn fuzz_planned_block() {
    let mut chance = Random::new(fuzz_seed(SEED));
    let budget = Budget { rows_max: 4000, ..Budget::default() };
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.is_open() {
        let rows = chance.below(1500);
        let objects = 1 + chance.word() % 30;
        let columns = walks(&mut chance, rows, objects);
        let plan = any_plan(&mut chance);
        let mut whole = Vec::new();
        CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut whole).unwrap();
        for _ in 0..50 {
            if !bound.goes_on() {
                break;
            }
            let bytes = sealed_mutant(&mut chance, &whole);
            let Ok(block) = Block::parse(Bytes::from(bytes), &budget) else {
                continue;
            };
            let Ok(decoded) = block.decode() else {
                continue;
            };
            assert_eq!(decoded.len(), block.rows(), "execution {}", bound.done());
            decoded.check().unwrap();
            accepted += 1;
        }
    }
    assert!(accepted > bound.done() / 50, "only {accepted} accepted: sealing does not work");
}

/// A block or table with changes in its directory or payload, and with recomputed checksums.
fn sealed_mutant(chance: &mut Random, whole: &[u8]) -> Vec<u8> {
    let mut bytes = whole.to_vec();
    let directory = HEADER + chance.below(1200).min(whole.len() - HEADER - 1);
    let place = [directory, HEADER + chance.below(whole.len() - HEADER)][chance.below(2)];
    let mut tail = bytes.split_off(place);
    mutate(chance, &mut tail);
    tail.resize(whole.len() - place, 0);
    bytes.append(&mut tail);
    seal(&mut bytes);
    bytes
}

#[test]
fn fuzz_table_parser() {
    let mut chance = Random::new(fuzz_seed(SEED));
    let trees = trees();
    let budget = Budget { rows_max: 4000, ..Budget::default() };
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.is_open() {
        let rows = chance.below(1500);
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
        let mut columns = vec![(256, Values::U64(keys), Tree::Afl)];
        for index in 0..chance.below(4_u32) as u16 {
            let (value_type, shape) = (TYPES[chance.below(10)], SHAPES[chance.below(12)]);
            let values = column(&mut chance, value_type, shape, rows);
            columns.push((300 + index, values, trees[chance.below(trees.len())].clone()));
        }
        let wanted: Vec<TableColumn<'_>> = columns
            .iter()
            .map(|(id, values, tree)| TableColumn::numbers(*id, values, tree))
            .collect();
        let mut whole = Vec::new();
        encode_table(&wanted, Some(256), 1, &mut whole).unwrap();
        for _ in 0..50 {
            if !bound.goes_on() {
                break;
            }
            let bytes = sealed_mutant(&mut chance, &whole);
            let Ok(table) = Table::parse(Bytes::from(bytes), &budget) else {
                continue;
            };
            for chunk in table.chunks() {
                if let Ok(Some(values)) = table.decode(chunk.id, 0..table.rows()) {
                    assert_eq!(values.len(), table.rows(), "execution {}", bound.done());
                    accepted += 1;
                }
            }
        }
    }
    assert!(
        accepted > bound.done() / 50,
        "only {accepted} columns accepted: sealing does not work"
    );
}

#[test]
fn fuzz_tree_text() {
    let mut chance = Random::new(fuzz_seed(SEED));
    let texts: Vec<String> = trees().iter().map(ToString::to_string).collect();
    let (mut accepted, mut bound) = (0, Bound::new(100_000));
    while bound.goes_on() {
        let mut text = texts[chance.below(texts.len())].clone().into_bytes();
        for _ in 0..chance.below(3) {
            let other = texts[chance.below(texts.len())].as_bytes();
            let (from, to) = (chance.below(other.len()), chance.below(text.len() + 1));
            match chance.below(3) {
                0 => drop(text.splice(to..to, other[from..].iter().copied())),
                1 => text.truncate(to),
                _ => mutate(&mut chance, &mut text),
            }
        }
        let text = String::from_utf8_lossy(&text);
        if let Ok(tree) = text.parse::<Tree>() {
            assert_eq!(tree.to_string().parse(), Ok(tree), "{text}");
            accepted += 1;
        }
    }
    let executions = bound.done();
    assert!(accepted > executions / 20 && accepted < executions, "{accepted} of {executions}");
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
