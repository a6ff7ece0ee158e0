//! Compact blocks expand to the block that they stand for, and damaged ones are refused.
//!
//! The fuzz target changes their bodies and recomputes the checksums.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockError, Budget, CpuCodec, FixColumns, FixRow, SpaceTag, Table,
    TableColumn, Values, bytes_to_header, compact, encode_table, rewrite_prepared,
};
use shoal_testkit::{
    Bound, Random, fuzz_seed,
    seal::{BLOCK_BYTES, COMPACT_BLOCK_BYTES, COMPACT_HEADER_BYTES, HEADER, seal, set, u16_at},
};

use crate::GOLDEN;
use crate::sample::{SHAPES, TYPES, column, tree, trees};
use crate::walk::{SPACE, any_plan, walks};

/// Files of compact blocks of the first form.
const FIRST_FORM: [&str; 3] =
    ["compact_afl_v1.3.block", "compact_v1.3.block", "compact_text_columns_v1.4.block"];

fn parse(bytes: &[u8]) -> Result<Table, BlockError> {
    Table::parse(Bytes::copy_from_slice(bytes), &Budget::default())
}

/// A table of any columns, keyed by the first.
fn any_table(chance: &mut Random, rows: usize) -> Vec<u8> {
    let trees = trees();
    let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
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

/// The compact form, which must be smaller.
fn compacted(block: &[u8]) -> Vec<u8> {
    let mut bytes = block.to_vec();
    compact(&mut bytes).unwrap();
    assert!(bytes.len() < block.len(), "{} bytes stay", block.len());
    assert_eq!(u16_at(&bytes, 8), Some(2));
    bytes
}

/// Offset of the body of a compact block.
fn body_at(bytes: &[u8]) -> usize {
    bytes[COMPACT_HEADER_BYTES].into()
}

#[test]
fn tables_expand_to_the_same_bytes() {
    let seed = 91;
    let mut chance = Random::new(seed);
    for case in 0..300 {
        let rows = if case % 60 == 0 { 66_000 } else { chance.below(5000) };
        let block = any_table(&mut chance, rows);
        let mut bytes = compacted(&block);
        let (table, expanded) = (parse(&block).unwrap(), parse(&bytes).unwrap());
        assert!(!expanded.header().is_compact(), "seed {seed}, case {case}");
        assert!(expanded.bytes() == &block, "seed {seed}, case {case}");
        assert_eq!((expanded.stored_bytes(), table.stored_bytes()), (bytes.len(), block.len()));
        let same = bytes.clone();
        compact(&mut bytes).unwrap();
        assert!(bytes == same, "a compact block stays");
    }
}

#[test]
fn fixes_expand_to_the_same_bytes_in_any_space() {
    let mut chance = Random::new(92);
    let spaces = [
        SPACE,
        SpaceTag { quantum: 0.01, ..SPACE },
        SpaceTag { quantum: 1.0 / 3.0, ..SPACE },
        SpaceTag { quantum: 1.0, origin_x: -0.0, ..SPACE },
        SpaceTag { quantum: f64::MIN_POSITIVE, origin_y: -1e300, ..SPACE },
    ];
    for space in spaces {
        for (rows, objects) in [(0, 1), (1, 1), (3_000, 7), (70_000, 900)] {
            let columns = walks(&mut chance, rows, objects);
            let (plan, mut block) = (any_plan(&mut chance), Vec::new());
            CpuCodec.encode_planned(&columns, &plan, &space, 3, &mut block).unwrap();
            let back = Block::parse(compacted(&block).into(), &Budget::default()).unwrap();
            assert_eq!(back.decode().as_ref(), Ok(&columns));
            assert!(back.bytes() == &block);
        }
    }
}

#[test]
fn limits_of_every_field_come_back() {
    let mut columns = FixColumns::new();
    columns.push_row(FixRow::new(u64::MAX, i64::MIN, i32::MIN, i32::MAX));
    columns.push_row(FixRow::new(0, i64::MIN + i64::from(u32::MAX), i32::MAX, i32::MIN));
    let mut block = Vec::new();
    CpuCodec.encode(&columns, &SPACE, u64::MAX, &mut block).unwrap();
    let back = Block::parse(compacted(&block).into(), &Budget::default()).unwrap();
    assert!(back.bytes() == &block);
    assert_eq!(back.decode().as_ref(), Ok(&columns));
}

#[test]
fn what_a_compact_block_does_not_store_keeps_a_block_as_it_is() {
    let whole = any_table(&mut Random::new(95), 2_000);
    // A newer minor version, an optional flag.
    for (place, field) in [(10, [9, 0]), (16, [1, 0])] {
        let mut block = whole.clone();
        set(&mut block, place, field);
        seal(&mut block);
        let same = block.clone();
        compact(&mut block).unwrap();
        assert!(block == same, "{place}");
    }
    let mut damaged = whole;
    damaged[HEADER] ^= 1;
    let same = damaged.clone();
    compact(&mut damaged).unwrap_err();
    assert!(damaged == same);
}

#[test]
fn a_small_block_takes_few_bytes() {
    let mut columns = FixColumns::new();
    for row in 0..20 {
        columns.push_row(FixRow::new(7, 1_700_000_000_000 + row, row as i32, 5));
    }
    let mut block = Vec::new();
    CpuCodec.encode(&columns, &SPACE, 1, &mut block).unwrap();
    // The values take 400 bytes. Header, entries and padding take 560 bytes in the block and 59
    // bytes in its compact form.
    assert_eq!((block.len(), compacted(&block).len()), (960, 459));
}

#[test]
fn base_time_and_sequence_are_rewritten_in_place() {
    let mut columns = walks(&mut Random::new(96), 500, 9);
    let mut block = Vec::new();
    CpuCodec.encode(&columns, &SPACE, 1, &mut block).unwrap();
    let mut bytes = compacted(&block);
    let base_time_ms = Block::parse(bytes.clone().into(), &Budget::default()).unwrap();
    let base_time_ms = base_time_ms.header().base_time_ms;
    rewrite_prepared(&mut bytes, base_time_ms + 777, 99).unwrap();
    let back = Block::parse(bytes.clone().into(), &Budget::default()).unwrap();
    columns.time_ms.iter_mut().for_each(|time_ms| *time_ms += 777);
    assert_eq!((back.header().sequence, back.decode().as_ref()), (99, Ok(&columns)));
    CpuCodec.encode(&columns, &SPACE, 99, &mut block).unwrap();
    assert!(bytes == compacted(&block));
    assert!(rewrite_prepared(&mut bytes, i64::MAX, 0).is_err());
    assert!(rewrite_prepared(&mut bytes[..400], 0, 0).is_err());
    assert!(bytes == compacted(&block));
    for bit in 0..8 * body_at(&bytes) {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(rewrite_prepared(&mut damaged, 0, 0).is_err(), "header bit {bit}");
    }
}

#[test]
fn the_first_bytes_tell_how_many_to_read() {
    let block = any_table(&mut Random::new(97), 700);
    let needed = |bytes: &[u8]| bytes_to_header(bytes.first_chunk().unwrap()).unwrap();
    let bytes = compacted(&block);
    assert_eq!((needed(&block), needed(&bytes)), (HEADER, bytes.len()));
}

#[test]
fn a_byte_that_is_missing_added_or_changed_is_refused() {
    let mut chance = Random::new(93);
    let mut seeds: Vec<Vec<u8>> = FIRST_FORM.map(|name| GOLDEN.bytes(name)).into();
    seeds.push(compacted(&any_table(&mut chance, 3_000)));
    for bytes in seeds {
        let parse = |bytes: &[u8]| {
            let (bytes, budget) = (Bytes::copy_from_slice(bytes), Budget::default());
            Table::parse(bytes.clone(), &budget).is_ok() || Block::parse(bytes, &budget).is_ok()
        };
        assert!(parse(&bytes));
        for cut in (0..bytes.len()).step_by(1 + bytes.len() / 2_000) {
            assert!(!parse(&bytes[..cut]), "the first {cut} bytes");
        }
        assert!(!parse(&[&bytes[..], &[0]].concat()));
        for place in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[place] ^= 1 << chance.below(8);
            assert!(!parse(&changed), "byte {place}");
        }
    }
}

/// The block with `new` in place of the `count` bytes at `place`, and with correct lengths and
/// checksums.
fn spliced(bytes: &[u8], place: usize, count: usize, new: &[u8]) -> Vec<u8> {
    let mut changed = bytes.to_vec();
    changed.splice(place..place + count, new.iter().copied());
    if place < body_at(bytes) {
        changed[COMPACT_HEADER_BYTES] = (body_at(bytes) + new.len() - count) as u8;
    }
    let length = changed.len() as u32;
    set(&mut changed, COMPACT_BLOCK_BYTES, length.to_le_bytes());
    seal(&mut changed);
    changed
}

#[test]
fn bodies_that_do_not_expand_are_refused() {
    let values = Values::U32((0..3_000).map(|row| row * row % 977).collect());
    let afl = tree("delta.z(afl)");
    let column = TableColumn::numbers(256, &values, &afl);
    let mut block = Vec::new();
    encode_table(&[column], None, 0, &mut block).unwrap();
    let bytes = compacted(&block);
    let body = body_at(&bytes);
    // Column, type; delta, afl, words; bases.
    assert_eq!(bytes[body..body + 4], [1, 3, 0x23, 2]);
    let refused = |place: usize, count: usize, new: &[u8], problem: &str| {
        let error = parse(&spliced(&bytes, body + place, count, new)).unwrap_err().to_string();
        assert!(error.contains(problem), "{place}: {error} lacks {problem}");
    };
    refused(0, 1, &[0xff, 0xff, 0x7f], "column is 2097151");
    refused(0, 1, &[0xff, 0xff, 0x03], "column 255 + 65535 exceeds 65535");
    refused(1, 1, &[11], "unknown value type");
    refused(1, 1, &[0x43, 0xb8, 0x17], "part is 4");
    refused(1, 1, &[0x13, 0xff, 0xff, 0xff, 0x07], "16777215 values");
    refused(2, 1, &[31], "encoding 31");
    refused(2, 1, &[0x83], "delta has head 0x83");
    refused(2, 1, &[0x43], "delta has head 0x43");
    refused(3, 1, &[0x22], "afl has head 0x22");
    refused(2, 1, &[3; 17], "more than 16 nodes");
    refused(4, 2, &[0xff, 0xff, 0x03], "sections at byte");
    refused(4, 2, &[0xff; 11], "more than 64 bits");
    refused(6, 1, &[193], "65 bits, the limit is 64");
    let end = bytes.len() - body;
    refused(end, 0, &[0], "1 bytes follow the last section");
    let tight = Budget { bytes_max: bytes.len(), ..Budget::default() };
    let error = Table::parse(Bytes::copy_from_slice(&bytes), &tight).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "expanded bytes", .. }), "{error}");
    let few = Budget { rows_max: 2_999, ..Budget::default() };
    let error = Table::parse(Bytes::from(bytes), &few).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "rows", .. }), "{error}");
}

#[test]
fn headers_against_the_rules_are_refused() {
    let mut columns = FixColumns::new();
    columns.push_row(FixRow::new(1, 1_000, 3, 4));
    let mut block = Vec::new();
    CpuCodec.encode(&columns, &SPACE, 0, &mut block).unwrap();
    let bytes = compacted(&block);
    // Flags, rows, columns; times; x; y; geographic, no origins, 7 decimals.
    assert_eq!(bytes[37..48], [0, 1, 4, 0, 0, 6, 0, 8, 0, 0x41, bytes[47]]);
    let refused = |place: usize, count: usize, new: &[u8], problem: &str| {
        let changed = spliced(&bytes, place, count, new);
        let error = Block::parse(changed.into(), &Budget::default()).unwrap_err().to_string();
        assert!(error.contains(problem), "{place}: {error} lacks {problem}");
    };
    refused(37, 1, &[4], "flags 0x00000004");
    refused(37, 1, &[16], "flags 0x00000010");
    refused(38, 1, &[0], "it must be 0 to 0 without rows");
    refused(39, 1, &[0x80, 0x80, 0x04], "columns is 65536");
    refused(39, 1, &[3], "bytes follow the last section");
    refused(39, 1, &[5], "chunk 4");
    let most = [0xff, 0xff, 0xff, 0xff, 0x0f];
    refused(40, 2, &[&most[..], &[1]].concat(), "times end above 32 bits");
    refused(40, 1, &[0xff, 0xff, 0xff, 0xff, 0x1f], "its field has fewer bits");
    refused(42, 1, &[0x80, 0x80, 0x80, 0x80, 0x10], "more than 32 bits");
    refused(43, 1, &most, "more than 32 bits");
    refused(42, 1, &[0xff; 10], "more than 64 bits");
    refused(46, 1, &[0x43], "space has the code 0x43");
    refused(46, 1, &[0xc1], "space has the code 0xc1");
    refused(46, 1, &[0x01], "space at byte");
    refused(46, 1, &[&[0x45][..], &f64::NAN.to_le_bytes(), &[0; 8]].concat(), "origin_x NaN");
    refused(46, 1, &[&[0x01][..], &0_f64.to_le_bytes()].concat(), "quantum 0");
    refused(47, 0, &[0], "1 bytes follow the header's fields");
    let late = [&i64::MAX.to_le_bytes()[..], &bytes[32..40], &[1]].concat();
    refused(24, 17, &late, "beyond the range of i64");
}

#[test]
fn bodies_of_the_first_form_that_do_not_expand_are_refused() {
    let bytes = GOLDEN.bytes("compact_afl_v1.3.block");
    // Column, type, nodes; encoding, type, counts, values, parameters; lengths; fields.
    assert_eq!(bytes[HEADER..HEADER + 11], [0x80, 2, 3, 1, 2, 3, 0x20, 0, 0, 0, 24]);
    let field = HEADER + 13;
    let refused = |place: usize, changes: &[u8], problem: &str| {
        let mut changed = bytes.clone();
        changed[place..place + changes.len()].copy_from_slice(changes);
        seal(&mut changed);
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
    let values: Vec<u32> = (0..3_000).map(|row| row * row % 977).collect();
    let decoded = parse(&bytes).unwrap().decode_all(0..3_000).unwrap();
    assert_eq!(decoded.len(), 1);
    assert_eq!(decoded[0].clone().into_numbers(), Some(Values::U32(values)));
}

/// Compact blocks of both forms to change.
fn seeds(chance: &mut Random) -> Vec<Vec<u8>> {
    let mut seeds: Vec<Vec<u8>> = FIRST_FORM.map(|name| GOLDEN.bytes(name)).into();
    for _ in 0..10 {
        let rows = 1 + chance.below(2_500);
        seeds.push(compacted(&any_table(chance, rows)));
        let (columns, mut block) = (walks(chance, rows.min(300), 9), Vec::new());
        CpuCodec.encode_planned(&columns, &any_plan(chance), &SPACE, 3, &mut block).unwrap();
        seeds.push(compacted(&block));
    }
    seeds
}

/// One change to the bytes from the eighth on.
fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    let is_first = u16_at(bytes, 8) == Some(1);
    let header = if is_first { HEADER } else { body_at(bytes).min(bytes.len()) };
    if bytes.len() < HEADER {
        return;
    }
    let limit = match chance.below(3) {
        0 => header.max(COMPACT_HEADER_BYTES),
        1 => (header + 200).min(bytes.len()),
        _ => bytes.len(),
    };
    let place = 8 + chance.below(limit - 8);
    match chance.below(6) {
        0 | 1 => bytes[place] ^= 1 << chance.below(8),
        2 => bytes[place] = chance.edgy() as u8,
        3 if bytes.len() > header + 8 => bytes.truncate(bytes.len() - 8),
        4 if !is_first => bytes.insert(place.max(header), chance.edgy() as u8),
        _ => bytes.swap(place, limit - 1),
    }
    let length = bytes.len() as u64;
    if chance.below(4) > 0 && is_first {
        set(bytes, BLOCK_BYTES, length.to_le_bytes());
    } else if chance.below(4) > 0 {
        set(bytes, COMPACT_BLOCK_BYTES, (length as u32).to_le_bytes());
    }
}

#[test]
fn fuzz_compact_block_parser() {
    let mut chance = Random::new(fuzz_seed(94));
    let budget = Budget {
        rows_max: 3_000,
        bytes_max: 1 << 18,
        scratch_bytes_max: 1 << 20,
        text_bytes_max: 1 << 16,
    };
    let seeds = seeds(&mut chance);
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.goes_on() {
        let mut bytes = seeds[chance.below(seeds.len())].clone();
        for _ in 0..=chance.below(3) {
            mutate(&mut chance, &mut bytes);
        }
        seal(&mut bytes);
        let bytes = Bytes::from(bytes);
        if let Ok(table) = Table::parse(bytes.clone(), &budget) {
            assert!(table.rows() <= 3_000 && table.bytes().len() <= 1 << 18);
            if let Ok(columns) = table.decode_all(0..table.rows()) {
                assert!(columns.iter().all(|values| values.len() == table.rows()));
                accepted += 1;
            }
        } else if let Ok(block) = Block::parse(bytes, &budget) {
            assert!(block.rows() <= 3_000 && block.bytes().len() <= 1 << 18);
            if let Ok(columns) = block.decode() {
                assert_eq!(columns.len(), block.rows());
                accepted += 1;
            }
        }
    }
    let executions = bound.done();
    assert!(accepted > executions / 100, "only {accepted} accepted: sealing does not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}
