//! No block exceeds the bound, which is
//! that of FORMAT.md.

use shoal_codec::limits::{BLOCK_BYTES_MAX, BLOCK_ROWS_MAX};
use shoal_codec::{BlockCodec, BlockError, ColumnSet, CpuCodec, FixColumns, encoded_size_max};
use shoal_testkit::Random;

use crate::sample::{EARTH, encode, random};

#[test]
fn no_block_exceeds_the_bound() {
    let seed = 21;
    let mut chance = Random::new(seed);
    for case in 0..3_000 {
        let rows = if case % 100 == 0 { chance.below(20_000) } else { chance.below(300) };
        let columns = random(&mut chance, rows);
        let bytes = encode(&columns, &EARTH, 0);
        let set = columns.column_set();
        let bound = encoded_size_max(rows, set);
        assert!(bytes.len() <= bound, "seed {seed}, case {case}: {} > {bound}", bytes.len());
        // FORMAT.md, section 8: raw row bytes plus 191 + 119 for each column.
        let stated = rows * set.row_bytes() + 191 + 119 * set.len();
        assert!(bound <= stated, "seed {seed}, case {case}: {bound} > {stated}");
    }
}

#[test]
fn the_bound_grows_with_rows_and_saturates() {
    let sizes: Vec<usize> = (0..500).map(|rows| encoded_size_max(rows, ColumnSet::ALL)).collect();
    assert!(sizes.is_sorted());
    assert_eq!(sizes[0], 128 + 512);
    assert_eq!(encoded_size_max(0, ColumnSet::MANDATORY), 128 + 256);
    assert_eq!(encoded_size_max(usize::MAX, ColumnSet::ALL), usize::MAX);
}

#[test]
fn batches_over_the_limits_are_refused() {
    let mut out = Vec::new();
    let rows = BLOCK_ROWS_MAX as usize + 1;
    let mut columns = FixColumns {
        object: vec![0; rows],
        time_ms: vec![0; rows],
        x: vec![0; rows],
        y: vec![0; rows],
        ..FixColumns::new()
    };
    let error = CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap_err();
    let (value, limit) = (rows as u64, u64::from(BLOCK_ROWS_MAX));
    assert_eq!(error, BlockError::Budget { unit: "rows", value, limit });

    columns.truncate(rows - 1);
    let error = CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap_err();
    assert!(matches!(error, BlockError::Budget { unit: "bytes", .. }), "{error}");
    assert!(out.is_empty());

    columns.truncate((BLOCK_BYTES_MAX - 1024) / 20);
    CpuCodec.encode(&columns, &EARTH, 0, &mut out).unwrap();
    assert!(out.len() <= BLOCK_BYTES_MAX);
}
