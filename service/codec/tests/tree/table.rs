//! Tables: any types, any trees, keys,
//! and hostile bytes.

use std::fs;
use std::ops::Range;
use std::path::PathBuf;

use bytes::Bytes;
use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_codec::{
    Block, BlockError, Budget, Table, TableColumn, TableValues, Tree, Values, encode_table,
};
use shoal_testkit::{
    Random,
    seal::{HEADER, seal, set},
};

use crate::GOLDEN;
use crate::sample::{SHAPES, TYPES, column, tree, trees};

fn parse(bytes: &[u8]) -> Result<Table, BlockError> {
    Table::parse(Bytes::copy_from_slice(bytes), &Budget::default())
}

/// Rows of a column of numbers.
fn numbers(table: &Table, id: u16, rows: Range<usize>) -> Values {
    match table.decode(id, rows).unwrap() {
        Some(TableValues::Numbers(values)) => values,
        other => panic!("column {id} has {other:?}"),
    }
}

/// Bytes that a table of these columns takes at most: FORMAT.md, section 8.
fn size_max<'a>(rows: usize, columns: impl Iterator<Item = &'a Values> + Clone) -> usize {
    let entries: usize = columns.clone().map(|_| 56).sum();
    let raw = |values: &Values| (rows * values.value_type().width_bytes()).next_multiple_of(64);
    128 + entries.next_multiple_of(64) + columns.map(raw).sum::<usize>()
}

#[test]
fn tables_of_any_columns_round_trip_whole_and_in_parts() {
    let seed = 71;
    let mut chance = Random::new(seed);
    let trees = trees();
    for case in 0..300 {
        let rows = if case % 60 == 0 { 66_000 } else { chance.below(2500) };
        let keys: Vec<u64> = (0..rows).map(|_| chance.word() % 40).collect();
        let mut columns = vec![(256, Values::U64(keys), tree("dict.65536(afl)"))];
        for index in 0..chance.below(6) {
            let (value_type, shape) = (TYPES[chance.below(10)], SHAPES[chance.below(12)]);
            let tree = trees[chance.below(trees.len())].clone();
            columns.push((
                300 + 7 * index as u16,
                column(&mut chance, value_type, shape, rows),
                tree,
            ));
        }
        let wanted: Vec<TableColumn<'_>> = columns
            .iter()
            .map(|(id, values, tree)| TableColumn::numbers(*id, values, tree))
            .collect();
        let mut bytes = Vec::new();
        let outcome = encode_table(&wanted, Some(256), case, &mut bytes).unwrap();
        assert_eq!(outcome.len(), columns.len());
        let bound = size_max(rows, columns.iter().map(|(_, values, _)| values));
        assert!(bytes.len() <= bound, "seed {seed}, case {case}: {} > {bound}", bytes.len());
        let table = parse(&bytes).unwrap();
        assert_eq!((table.rows(), table.header().sequence), (rows, case));
        let start = chance.below(rows + 1);
        let end = start + chance.below(rows - start + 1);
        for (id, values, tree) in &columns {
            let back = numbers(&table, *id, 0..rows);
            assert!(back == *values, "seed {seed}, case {case}, {tree}");
            let part = numbers(&table, *id, start..end);
            assert!(part == values.slice(start, end), "seed {seed}, case {case}, {tree}");
        }
        for (from, to) in [(0, rows), (start, end), (start, start)] {
            let all = table.decode_all(from..to).unwrap();
            let same = |((_, values, _), back): (&(u16, Values, Tree), &TableValues)| {
                *back == TableValues::Numbers(values.slice(from, to))
            };
            assert_eq!(all.len(), columns.len());
            assert!(columns.iter().zip(&all).all(same), "seed {seed}, case {case}");
        }
        assert!(table.decode_all(start..rows + 1).is_err());
        assert!(table.decode(299, 0..rows).unwrap().is_none());
    }
}

/// Floats in every float encoding, and a keyed integer column.
fn sample() -> Vec<(u16, Values, Tree)> {
    let key = Values::U16((0..1100).map(|row| row % 7).collect());
    let walk =
        Values::I64((0..1100).map(|row| row % 7 * 100_000 + row / 7 * (row / 7) % 97).collect());
    let waves = Values::F64((0..1100).map(|row| 1e3 + f64::from(row) / 8192.0).collect());
    let mut prices: Vec<f64> = (0..1100).map(|row| f64::from(row % 130) / 100.0).collect();
    (prices[7], prices[1050]) = (f64::NAN, -0.0);
    let halves = Values::F32((0..1100).map(|row| row as f32 / 2.0 - 90.5).collect());
    vec![
        (256, key, tree("dict.65536(afl)")),
        (257, walk, tree("keyed_delta.z(patch(afl), scale(afl))")),
        (258, waves, tree("gfc")),
        (259, Values::F64(prices), tree("patch(float_to_int.2(patch(afl)))")),
        (300, halves, tree("float_to_int(delta.z(afl))")),
    ]
}

fn encode(columns: &[(u16, Values, Tree)]) -> Vec<u8> {
    let columns: Vec<TableColumn<'_>> =
        columns.iter().map(|(id, values, tree)| TableColumn::numbers(*id, values, tree)).collect();
    let mut bytes = Vec::new();
    let outcome = encode_table(&columns, Some(256), 5, &mut bytes).unwrap();
    assert!(outcome.iter().all(|column| column.is_planned), "{outcome:?}");
    bytes
}

#[test]
fn table_of_floats_version_1_1() {
    let encoded = encode(&sample());
    GOLDEN.assert_is("table_v1.1.block", &encoded);
    let table = parse(&encoded).unwrap();
    for (id, values, _) in sample() {
        assert!(numbers(&table, id, 0..1100) == values, "column {id}");
    }
}

#[test]
fn tables_and_blocks_of_fixes_are_distinguished() {
    let bytes = encode(&sample());
    let error = Block::parse(Bytes::copy_from_slice(&bytes), &Budget::default()).unwrap_err();
    assert_eq!(error, BlockError::RequiredFlags { required: 2, unknown: 2 });
    let golden = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let fixes = fs::read(golden.join("mandatory_v1.0.block")).unwrap();
    let error = parse(&fixes).unwrap_err().to_string();
    assert!(error.contains("no table"), "{error}");
}

#[test]
fn hostile_tables_are_refused() {
    let assert_refused = |offset: usize, field: &[u8], expected: &str| {
        let mut bytes = encode(&sample());
        bytes[offset..offset + field.len()].copy_from_slice(field);
        seal(&mut bytes);
        let error = parse(&bytes).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    };
    let cases: [(usize, &[u8], &str); 9] = [
        (HEADER, &3_u16.to_le_bytes(), "none of a table"),
        (HEADER, &9000_u16.to_le_bytes(), "ascending"),
        (HEADER, &257_u16.to_le_bytes(), "twice"),
        (HEADER + 2, &[4], "decoded length"),
        (HEADER + 2, &[11], "1 to 10"),
        (48, &1_i64.to_le_bytes(), "base time 0"),
        (60, &1_u32.to_le_bytes(), "no times"),
        (68, &1_i32.to_le_bytes(), "no box"),
        (88, &1_f64.to_le_bytes(), "planar from 0, 0"),
    ];
    for (offset, field, expected) in cases {
        assert_refused(offset, field, expected);
    }
    // The first node of the second entry is keyed, and its first parameter names the key column.
    let first_entry = 24 + 2 * 24 + 3 * 8;
    let parameter = HEADER + first_entry + 24 + 12;
    for key in [257_u32, 258, 1, 0x1_0100, 0] {
        assert_refused(parameter, &key.to_le_bytes(), "key column");
    }
    let mut bytes = encode(&sample());
    set(&mut bytes, parameter, 256_u32.to_le_bytes());
    seal(&mut bytes);
    parse(&bytes).unwrap();
}

#[test]
fn columns_that_make_no_table_are_refused() {
    let (values, short) = (Values::U8(vec![1, 2]), Values::F32(vec![1.0]));
    let column = |id, values| TableColumn::numbers(id, values, &Tree::Raw);
    let mut out = vec![1];
    for (columns, key, expected) in [
        (vec![column(255, &values)], None, "ascend from 256"),
        (vec![column(300, &values), column(300, &values)], None, "ascend"),
        (vec![column(300, &values), column(301, &short)], None, "1 values"),
        (vec![column(300, &short)], Some(300), "no integer column"),
        (vec![column(300, &values)], Some(301), "no integer column"),
    ] {
        let error = encode_table(&columns, key, 0, &mut out).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(out.is_empty());
    }
    let many = Values::U8(vec![0; BLOCK_ROWS_MAX as usize + 1]);
    let error = encode_table(&[column(256, &many)], None, 0, &mut out).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "rows", .. }), "{error}");
    assert!(encode_table(&[], None, 0, &mut out).unwrap().is_empty());
    assert_eq!(parse(&out).unwrap().rows(), 0);
}

#[test]
fn a_directory_that_would_be_too_long_keeps_columns_raw() {
    let values = Values::U32((0..3000).map(|row| row / 40 * 5).collect());
    let tree = tree("rle(rle(rle(afl, afl), rle(afl, afl)), rle(afl, afl))");
    let columns: Vec<TableColumn<'_>> =
        (0..60).map(|index| TableColumn::numbers(256 + index, &values, &tree)).collect();
    let mut bytes = Vec::new();
    let outcome = encode_table(&columns, None, 0, &mut bytes).unwrap();
    let planned = outcome.iter().filter(|column| column.is_planned).count();
    assert!((1..60).contains(&planned), "{planned} columns took their trees");
    let table = parse(&bytes).unwrap();
    for index in 0..60 {
        assert!(numbers(&table, 256 + index, 0..3000) == values);
    }
}
