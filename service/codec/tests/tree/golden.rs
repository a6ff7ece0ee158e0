//! Golden files: a block for each
//! encoding.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, Column, CpuCodec, FixColumns, FixRow, Tree, Values,
    compact, encode_column,
};

use crate::GOLDEN;
use crate::sample::tree;
use crate::walk::SPACE;

/// 2,100 rows to which every encoding of integers applies.
fn fixes() -> FixColumns {
    let mut columns = FixColumns::new();
    for row in 0..2100_i64 {
        let (object, step) = (row % 5, (row / 5) as i32);
        let jump = if row % 700 == 3 { 1_000_000 } else { 0 };
        let bend = step * step % 97;
        columns.push_row(FixRow {
            speed_mm_s: (7000 + bend) as u32,
            state: (row / 900) as u32,
            altitude_mm: 100 * bend - 3000,
            ..FixRow::new(
                (object * 31 + 1000) as u64,
                1_700_000_000_000 + row / 7 * 1000,
                100 * (step * 11 + bend) + 50 + jump,
                -900_000 + object as i32 * 5000 + 3 * step,
            )
        });
    }
    columns
}

fn compare(name: &str, plan: &BlockPlan, planned: &[Column]) {
    let columns = fixes();
    let mut encoded = Vec::new();
    let outcome = CpuCodec.encode_planned(&columns, plan, &SPACE, 7, &mut encoded).unwrap();
    for column in planned {
        let found = outcome.iter().find(|outcome| outcome.column == *column).unwrap();
        assert!(found.is_planned, "{name}: {} stayed raw", column.name());
    }
    GOLDEN.assert_is(name, &encoded);
    let block = Block::parse(Bytes::from(encoded), &Budget::default()).unwrap();
    let header = block.header();
    let version = format!("v{}.{}.block", header.version_major, header.version_minor);
    assert!(name.ends_with(&version), "{name}: {version}");
    assert_eq!(block.decode().as_ref(), Ok(&columns), "{name}");
}

/// The plan with these trees, raw elsewhere.
fn plan<const N: usize>(trees: [(Column, &str); N]) -> BlockPlan {
    trees.into_iter().fold(BlockPlan::raw(), |plan, (column, text)| plan.with(column, tree(text)))
}

#[test]
fn plan_of_fixes_version_1_1() {
    compare("plan_of_fixes_v1.1.block", &BlockPlan::fixes(), &[Column::Object, Column::X]);
}

#[test]
fn tile_encodings_version_1_1() {
    let plan = plan([
        (Column::Object, "scale(afl)"),
        (Column::Time, "divisor(delta(patch(afl)))"),
        (Column::X, "delta2.z(patch(afl))"),
        (Column::Y, "delta.z(afl)"),
        (Column::Speed, "rle(afl, afl)"),
        (Column::State, "delta.z(rle(afl, afl))"),
    ]);
    let planned = [Column::Object, Column::Time, Column::X, Column::Y, Column::State];
    compare("tile_encodings_v1.1.block", &plan, &planned);
}

#[test]
fn dictionaries_and_constants_version_1_1() {
    let plan = plan([
        (Column::Object, "dict.4(afl, const)"),
        (Column::Time, "dict.65536(rle(afl, afl))"),
        (Column::X, "patch(divisor.100.50(patch(afl)))"),
        (Column::Altitude, "dict.50(patch(afl), scale(afl))"),
    ]);
    let planned = [Column::Object, Column::Time, Column::X, Column::Altitude];
    compare("dictionaries_and_constants_v1.1.block", &plan, &planned);
}

#[test]
fn keyed_encodings_version_1_1() {
    let plan = plan([
        (Column::X, "divisor(keyed_delta.z(patch(afl), scale(afl)))"),
        (Column::Y, "keyed_delta(afl, scale(afl))"),
        (Column::Speed, "keyed_delta2.z(patch(afl), scale(afl))"),
        (Column::Altitude, "group(delta.z(afl))"),
    ]);
    let planned = [Column::X, Column::Y, Column::Speed, Column::Altitude];
    compare("keyed_encodings_v1.1.block", &plan, &planned);
}

#[test]
fn codes_version_1_2() {
    let plan = plan([
        (Column::Object, "dict.65536(huffman)"),
        (Column::Time, "divisor(delta.z(huffman))"),
        (Column::X, "keyed_delta2.z(huffman, scale(huffman))"),
        (Column::Y, "patch(huffman)"),
        (Column::Speed, "huffman"),
        (Column::State, "rle(huffman, huffman)"),
    ]);
    let planned = [Column::Object, Column::Time, Column::X, Column::Y, Column::Speed];
    compare("codes_v1.2.block", &plan, &planned);
}

#[test]
fn compact_versions() {
    let plan = plan([
        (Column::Object, "dict.65536(huffman_long)"),
        (Column::Time, "divisor(delta.z(patch(afl)))"),
        (Column::X, "keyed_delta2.z(huffman_long, scale(afl))"),
        (Column::Y, "delta2.z(huffman_long)"),
        (Column::Speed, "rle(huffman_long, huffman_long)"),
        (Column::State, "gfc"),
    ]);
    let columns = fixes();
    let mut encoded = Vec::new();
    CpuCodec.encode_planned(&columns, &plan, &SPACE, 7, &mut encoded).unwrap();
    let plain = encoded.clone();
    compact(&mut encoded).unwrap();
    GOLDEN.assert_is("compact_v2.0.block", &encoded);
    let first = GOLDEN.bytes("compact_v1.3.block");
    assert!(encoded.len() + 150 < first.len() && first.len() < plain.len());
    for bytes in [encoded, first] {
        let block = Block::parse(Bytes::from(bytes), &Budget::default()).unwrap();
        assert_eq!((block.header().version_major, block.header().version_minor), (1, 3));
        assert!(block.bytes() == &plain);
        assert_eq!(block.decode().as_ref(), Ok(&columns));
    }
}

#[test]
fn the_examples_of_the_format_are_what_it_says() {
    let encode = |values| encode_column(&Values::U32(values), &Tree::Afl, None).unwrap().sections;
    let small = encode(vec![3, 1, 7, 0, 2]);
    assert_eq!(small[0], [0, 0, 0, 0, 5, 0, 3, 0]);
    assert_eq!(small[1], [0xcb, 0x21, 0, 0]);
    let varied = encode([[1; 32], [5; 32]].concat());
    assert_eq!(varied[0], [0, 0, 0, 0, 0x40, 0, 1, 2]);
    let bytes = Values::U8(vec![9, 9, 9, 2, 9]);
    let coded = encode_column(&bytes, &Tree::Huffman, None).unwrap().sections;
    assert_eq!(coded[0], [0, 1, 1, 0]);
    assert_eq!(coded[1], [0, 0, 0, 0, 5, 0x90, 0, 0]);
    assert_eq!(coded[2], [0x33, 0xc3, 0, 0]);
    let fives = [0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6];
    assert_eq!(varied[1], [&[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &fives].concat());
}
