//! Released bytes stay readable, and the writer still writes them: one block for each encoding.
//!
//! The files were written once, by this test with SHOAL_WRITE_GOLDEN=yes; a file that exists is
//! never written again. A change that breaks this test breaks the format.

use std::fs;
use std::path::PathBuf;

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, Column, CpuCodec, DivisorChoice, FixColumns, FixRow,
    Mode, Tree, Values, encode_column,
};

use crate::walk::SPACE;

/// 2,100 rows that every encoding of integers has something to do with.
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
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let mut encoded = Vec::new();
    let outcome = CpuCodec.encode_planned(&columns, plan, &SPACE, 7, &mut encoded).unwrap();
    for column in planned {
        let found = outcome.iter().find(|outcome| outcome.column == *column).unwrap();
        assert!(found.is_planned, "{name}: {} stayed raw", column.name());
    }
    if !path.exists() && std::env::var("SHOAL_WRITE_GOLDEN").is_ok_and(|value| value == "yes") {
        fs::write(&path, &encoded).expect("the golden folder can be written");
    }
    let golden = fs::read(&path).expect("golden files are part of the tree");
    assert_eq!(encoded, golden, "{name}: the writer's bytes have changed");
    let block = Block::parse(Bytes::from(golden), &Budget::default()).unwrap();
    assert_eq!((block.header().version_major, block.header().version_minor), (1, 1));
    assert_eq!(block.decode().as_ref(), Ok(&columns), "{name}");
}

fn afl() -> Box<Tree> {
    Box::new(Tree::Afl)
}

fn patched() -> Box<Tree> {
    Box::new(Tree::Patch(afl()))
}

#[test]
fn plan_of_fixes_version_1_1() {
    compare("plan_of_fixes_v1.1.block", &BlockPlan::fixes(), &[Column::Object, Column::X]);
}

#[test]
fn tile_encodings_version_1_1() {
    let plan = BlockPlan::raw()
        .with(Column::Object, Tree::Scale(afl()))
        .with(Column::Time, Tree::Divisor(None, Tree::Delta(Mode::Plain, patched()).into()))
        .with(Column::X, Tree::Delta2(Mode::Zigzag, patched()))
        .with(Column::Y, Tree::Delta(Mode::Zigzag, afl()))
        .with(Column::Speed, Tree::Rle(afl(), afl()))
        .with(Column::State, Tree::Delta(Mode::Zigzag, Tree::Rle(afl(), afl()).into()));
    let planned = [Column::Object, Column::Time, Column::X, Column::Y, Column::State];
    compare("tile_encodings_v1.1.block", &plan, &planned);
}

#[test]
fn dictionaries_and_constants_version_1_1() {
    let choice = DivisorChoice { divisor: 100, remainder: 50 };
    let plan = BlockPlan::raw()
        .with(Column::Object, Tree::Dict(4, afl(), Some(Tree::Const.into())))
        .with(Column::Time, Tree::Dict(65_536, Tree::Rle(afl(), afl()).into(), None))
        .with(Column::X, Tree::Patch(Tree::Divisor(Some(choice), patched()).into()))
        .with(Column::Altitude, Tree::Dict(50, patched(), Some(Tree::Scale(afl()).into())));
    let planned = [Column::Object, Column::Time, Column::X, Column::Altitude];
    compare("dictionaries_and_constants_v1.1.block", &plan, &planned);
}

#[test]
fn keyed_encodings_version_1_1() {
    let heads = || Box::new(Tree::Scale(afl()));
    let keyed = Tree::KeyedDelta(Mode::Zigzag, patched(), heads());
    let plan = BlockPlan::raw()
        .with(Column::X, Tree::Divisor(None, keyed.into()))
        .with(Column::Y, Tree::KeyedDelta(Mode::Plain, afl(), heads()))
        .with(Column::Speed, Tree::KeyedDelta2(Mode::Zigzag, patched(), heads()))
        .with(Column::Altitude, Tree::Group(Tree::Delta(Mode::Zigzag, afl()).into()));
    let planned = [Column::X, Column::Y, Column::Speed, Column::Altitude];
    compare("keyed_encodings_v1.1.block", &plan, &planned);
}

#[test]
fn the_examples_of_the_format_are_what_it_says() {
    let encode = |values| encode_column(&Values::U32(values), &Tree::Afl, None).unwrap().sections;
    let small = encode(vec![3, 1, 7, 0, 2]);
    assert_eq!(small[0], [0, 0, 0, 0, 5, 0, 3, 0]);
    assert_eq!(small[1], [0xcb, 0x21, 0, 0]);
    let varied = encode([[1; 32], [5; 32]].concat());
    assert_eq!(varied[0], [0, 0, 0, 0, 0x40, 0, 1, 2]);
    let fives = [0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6, 0x6d, 0xdb, 0xb6];
    assert_eq!(varied[1], [&[8, 0, 0, 0, 0xff, 0xff, 0xff, 0xff][..], &fives].concat());
}
