//! Compact blocks: they expand to the block that they stand for, and damaged ones are refused.
//!
//! The fuzz target changes their bodies and recomputes the checksums.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockError, Budget, CpuCodec, FixColumns, Table, TableColumn, Values,
    compact, encode_table,
};

use crate::bound::{Bound, seed};
use crate::random::Random;
use crate::sample::{SHAPES, TYPES, column, tree, trees};
use crate::seal::{BLOCK_BYTES, HEADER, seal_compact, set, u64_at};
use crate::walk::{SPACE, any_plan, walks};

fn parse(bytes: &[u8]) -> Result<Table, BlockError> {
    Table::parse(Bytes::copy_from_slice(bytes), &Budget::default())
}

/// A table of any columns, keyed by the first.
fn any_table(chance: &mut Random, rows: usize) -> Vec<u8> {
    let trees = trees();
    let keys: Vec<u64> = (0..rows).map(|_| chance.next() % 40).collect();
    let mut columns = vec![(Values::U64(keys), tree("dict.65536(huffman_long)"))];
    for _ in 0..chance.below(6) {
        let (value_type, shape) = (TYPES[chance.below(10)], SHAPES[chance.below(12)]);
        let tree = trees[chance.below(trees.len())].clone();
        columns.push((column(chance, value_type, shape, rows), tree));
    }
    let columns: Vec<TableColumn<'_>> = (256..)
        .zip(&columns)
        .map(|(id, (values, tree))| TableColumn::numbers(id, values, tree))
        .collect();
    let mut bytes = Vec::new();
    encode_table(&columns, Some(256), 7, &mut bytes).unwrap();
    bytes
}

/// The compact form; `None` if the block is no larger.
fn compacted(block: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = block.to_vec();
    compact(&mut bytes).unwrap();
    (bytes.len() < block.len()).then_some(bytes)
}

#[test]
fn compact_tables_expand_to_the_same_bytes() {
    let seed = 91;
    let mut chance = Random::new(seed);
    for case in 0..300 {
        let rows = if case % 60 == 0 { 66_000 } else { chance.below(5000) };
        let block = any_table(&mut chance, rows);
        let Some(mut bytes) = compacted(&block) else {
            panic!("seed {seed}, case {case}: {} bytes stay", block.len());
        };
        let (table, expanded) = (parse(&block).unwrap(), parse(&bytes).unwrap());
        assert_eq!(expanded.header().version_minor, 3, "seed {seed}, case {case}");
        assert!(!expanded.header().is_compact(), "seed {seed}, case {case}");
        assert!(expanded.bytes()[HEADER..] == block[HEADER..], "seed {seed}, case {case}");
        assert_eq!((expanded.stored_bytes(), table.stored_bytes()), (bytes.len(), block.len()));
        assert_eq!(bytes.len() % 8, 0);
        let same = bytes.clone();
        compact(&mut bytes).unwrap();
        assert!(bytes == same, "a compact block stays");
    }
}

#[test]
fn compact_fixes_expand_to_the_same_rows() {
    let mut chance = Random::new(92);
    for (rows, objects) in [(0, 1), (1, 1), (3_000, 7), (70_000, 900)] {
        let columns = walks(&mut chance, rows, objects);
        let mut block = Vec::new();
        CpuCodec.encode_planned(&columns, &any_plan(&mut chance), &SPACE, 3, &mut block).unwrap();
        let bytes = compacted(&block).unwrap();
        let back = Block::parse(bytes.into(), &Budget::default()).unwrap();
        assert_eq!(back.decode().as_ref(), Ok(&columns));
        assert!(back.bytes()[HEADER..] == block[HEADER..]);
    }
}

#[test]
fn a_byte_that_is_missing_or_changed_is_refused() {
    let mut chance = Random::new(93);
    let bytes = compacted(&any_table(&mut chance, 3_000)).unwrap();
    for cut in 0..bytes.len() {
        assert!(parse(&bytes[..cut]).is_err(), "the first {cut} bytes");
    }
    for place in 0..bytes.len() {
        let mut changed = bytes.clone();
        changed[place] ^= 1 << chance.below(8);
        assert!(parse(&changed).is_err(), "byte {place}");
    }
}

#[test]
fn bodies_that_do_not_expand_are_refused() {
    let values = Values::U32((0..3_000).map(|row| row * row % 977).collect());
    let afl = tree("afl");
    let column = TableColumn::numbers(256, &values, &afl);
    let mut block = Vec::new();
    encode_table(&[column], None, 0, &mut block).unwrap();
    let bytes = compacted(&block).unwrap();
    // Column, type, nodes; encoding, type, counts, values, parameters; lengths; fields.
    assert_eq!(bytes[HEADER..HEADER + 11], [0x80, 2, 3, 1, 2, 3, 0x20, 0, 0, 0, 24]);
    let field = HEADER + 13;
    let refused = |place: usize, changes: &[u8], problem: &str| {
        let mut changed = bytes.clone();
        changed[place..place + changes.len()].copy_from_slice(changes);
        seal_compact(&mut changed);
        let error = parse(&changed).unwrap_err().to_string();
        assert!(error.contains(problem), "{place}: {error} lacks {problem}");
    };
    refused(24, &[0xc0], "the header states 192");
    refused(HEADER + 2, &[11], "value type 11");
    refused(HEADER + 3, &[17], "17 nodes");
    refused(HEADER + 4, &[99], "encoding 99");
    refused(HEADER + 5, &[0], "value type 0");
    refused(HEADER + 6, &[0x10], "bytes follow the last section");
    refused(HEADER, &[0xff, 0xff, 0x7f], "its field has fewer bits");
    refused(HEADER + 7, &[0xff, 0x7f], "node lacks 16383 values");
    refused(HEADER + 10, &[0xff; 11], "more than 64 bits");
    refused(HEADER + 11, &[0xff, 0x7f], "sections at byte");
    refused(field, &[65], "65 bits, the limit is 64");
    let tight = Budget { bytes_max: bytes.len(), ..Budget::default() };
    let error = Table::parse(Bytes::copy_from_slice(&bytes), &tight).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "expanded bytes", .. }), "{error}");
    let few = Budget { rows_max: 2_999, ..Budget::default() };
    let error = Table::parse(Bytes::from(bytes), &few).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "rows", .. }), "{error}");
}

#[test]
fn fuzz_compact_block_parser() {
    let mut chance = Random::new(seed(94));
    let budget = Budget {
        rows_max: 3_000,
        bytes_max: 1 << 18,
        scratch_bytes_max: 1 << 20,
        text_bytes_max: 1 << 16,
    };
    let seeds: Vec<Vec<u8>> = (0..12)
        .map(|_| {
            let rows = 1 + chance.below(2_500);
            compacted(&any_table(&mut chance, rows)).unwrap()
        })
        .collect();
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.goes_on() {
        let mut bytes = seeds[chance.below(seeds.len())].clone();
        for _ in 0..=chance.below(3) {
            let limit =
                if chance.below(2) == 0 { (HEADER + 200).min(bytes.len()) } else { bytes.len() };
            let place = 8 + chance.below(limit - 8);
            match chance.below(5) {
                0 | 1 => bytes[place] ^= 1 << chance.below(8),
                2 => bytes[place] = chance.edgy() as u8,
                3 if place >= HEADER && bytes.len() > HEADER + 8 => {
                    bytes.truncate(bytes.len() - 8);
                }
                _ => bytes.swap(place.max(HEADER).min(limit - 1), limit - 1),
            }
        }
        let length = bytes.len() as u64;
        if u64_at(&bytes, BLOCK_BYTES) != Some(length) && chance.below(4) > 0 {
            set(&mut bytes, BLOCK_BYTES, length.to_le_bytes());
        }
        seal_compact(&mut bytes);
        let Ok(table) = Table::parse(Bytes::from(bytes), &budget) else {
            continue;
        };
        assert!(table.rows() <= 3_000 && table.bytes().len() <= 1 << 18);
        if let Ok(columns) = table.decode_all(0..table.rows()) {
            assert!(columns.iter().all(|values| values.len() == table.rows()));
            accepted += 1;
        }
    }
    let executions = bound.done();
    assert!(accepted > executions / 100, "only {accepted} accepted: sealing does not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}

#[test]
fn empty_blocks_are_compact_too() {
    let mut block = Vec::new();
    CpuCodec.encode(&FixColumns::new(), &SPACE, 1, &mut block).unwrap();
    let bytes = compacted(&block).unwrap();
    let back = Block::parse(bytes.into(), &Budget::default()).unwrap();
    assert_eq!((back.rows(), back.header().sequence), (0, 1));
}
