//! Golden files of plan `raw`, checked by
//! hand against FORMAT.md.

use shoal_codec::{FixColumns, FixRow, SpaceTag, compact};

use crate::GOLDEN;
use crate::sample::{EARTH, PLANE, TIME_MS, encode, full, parse, plain};

fn compare(name: &str, columns: &FixColumns, space: &SpaceTag, sequence: u64) {
    let encoded = encode(columns, space, sequence);
    GOLDEN.assert_is(name, &encoded);
    let block = parse(&encoded).expect("golden files are blocks");
    assert_eq!(block.decode().as_ref(), Ok(columns), "{name}");
    assert_eq!(block.header().space, *space, "{name}");
    assert_eq!(block.header().sequence, sequence, "{name}");
}

#[test]
fn mandatory_columns_version_1_0() {
    compare("mandatory_v1.0.block", &plain(), &EARTH, 1);
}

#[test]
fn all_columns_version_1_0() {
    compare("all_columns_v1.0.block", &full(), &PLANE, 0x0123_4567_89ab_cdef);
}

#[test]
fn validities_version_1_5() {
    let mut columns = full();
    columns.push_row(FixRow { valid_ms: 30_000, ..FixRow::new(5, TIME_MS, 1, 2) });
    compare("validities_v1.5.block", &columns, &PLANE, 3);
    let encoded = encode(&columns, &PLANE, 3);
    assert_eq!(parse(&encoded).unwrap().header().version_minor, 5);
    let mut smaller = encoded.clone();
    compact(&mut smaller).unwrap();
    assert!(smaller.len() < encoded.len());
    assert_eq!(parse(&smaller).unwrap().bytes(), &encoded);
}

#[test]
fn no_rows_version_1_0() {
    compare("no_rows_v1.0.block", &FixColumns::new(), &EARTH, u64::MAX);
}
