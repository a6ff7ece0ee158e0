//! Blocks of fixes with any plan: round trips,
//! bounds, ranges of rows.

use bytes::Bytes;
use shoal_codec::{
    Block, BlockCodec, BlockPlan, Budget, Column, ColumnSet, CpuCodec, FixColumns, encoded_size_max,
};
use shoal_testkit::Random;

use crate::walk::{SPACE, any_plan, walks};

#[test]
fn blocks_of_any_plan_round_trip_whole_and_in_parts_below_the_bound() {
    let seed = 51;
    let mut chance = Random::new(seed);
    let mut planned = 0;
    for case in 0..400 {
        let rows = if case % 50 == 0 { 66_000 } else { chance.below(3000) };
        let objects = 1 + chance.word() % 500;
        let columns = walks(&mut chance, rows, objects);
        let plan = if case % 3 == 0 { BlockPlan::fixes() } else { any_plan(&mut chance) };
        let mut bytes = Vec::new();
        let outcome = CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut bytes).unwrap();
        planned += outcome.iter().filter(|column| column.is_planned).count();
        let bound = encoded_size_max(rows, columns.column_set());
        assert!(bytes.len() <= bound, "seed {seed}, case {case}: {} > {bound}", bytes.len());
        let block = Block::parse(Bytes::from(bytes), &Budget::default()).unwrap();
        assert_eq!(block.decode().unwrap(), columns, "seed {seed}, case {case}");
        let start = chance.below(rows + 1);
        let end = start + chance.below(rows - start + 1);
        let mut part = FixColumns::new();
        block.decode_rows(start..start, &mut part).unwrap();
        assert_eq!(part.len(), 0);
        block.decode_rows(start..end, &mut part).unwrap();
        assert_eq!(part.len(), end - start, "seed {seed}, case {case}");
        for index in start..end {
            assert_eq!(part.row(index - start), columns.row(index), "seed {seed}, case {case}");
        }
    }
    assert!(planned > 400, "only {planned} columns took their trees: plans are not tested");
}

#[test]
fn columns_decode_alone_and_the_rest_completes_the_rows() {
    let seed = 53;
    let mut chance = Random::new(seed);
    for case in 0..200 {
        let (rows, objects) = (1 + chance.below(3000), 1 + chance.word() % 500);
        let columns = walks(&mut chance, rows, objects);
        let plan = if case % 3 == 0 { BlockPlan::fixes() } else { any_plan(&mut chance) };
        let mut bytes = Vec::new();
        CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut bytes).unwrap();
        let block = Block::parse(Bytes::from(bytes), &Budget::default()).unwrap();
        let first = Column::ALL.into_iter().filter(|_| chance.below(2) == 0);
        let first = first.fold(ColumnSet::NONE, ColumnSet::with);
        let start = chance.below(rows);
        let range = start..start + 1 + chance.below(rows - start);
        let mut part = FixColumns::new();
        block.decode_columns(range.clone(), first, &mut part).unwrap();
        for column in Column::ALL {
            let length = part.column(column).map_or(0, |values| values.len());
            let is_there = first.contains(column) && columns.column_set().contains(column);
            let expected = if is_there { range.len() } else { 0 };
            assert_eq!(length, expected, "seed {seed}, case {case}, {}", column.name());
        }
        let rest = ColumnSet::ALL.without(first);
        block.decode_columns(range.clone(), rest, &mut part).unwrap();
        assert_eq!(part, columns.slice(range), "seed {seed}, case {case}");
    }
}

#[test]
fn scratch_memory_is_stated_and_bounded() {
    let mut chance = Random::new(52);
    let columns = walks(&mut chance, 5000, 20);
    let mut bytes = Vec::new();
    CpuCodec.encode_planned(&columns, &BlockPlan::fixes(), &SPACE, 1, &mut bytes).unwrap();
    // 16 bytes a keyed row, 8 for each of 20 ids and of 2 states.
    let scratch_bytes_max = 5000 * 16 + 22 * 8;
    let budget = Budget { scratch_bytes_max, ..Budget::default() };
    Block::parse(bytes.clone().into(), &budget).unwrap();
    let less = Budget { scratch_bytes_max: scratch_bytes_max - 1, ..budget };
    let error = Block::parse(bytes.into(), &less).unwrap_err().to_string();
    assert!(error.contains("scratch bytes") && error.contains("80176"), "{error}");
}
