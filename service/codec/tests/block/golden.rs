//! Released bytes stay readable, and the writer still writes them.
//!
//! The files were written once, by this test with SHOAL_WRITE_GOLDEN=yes, and checked by hand
//! against FORMAT.md; a file that exists is never written again. A change that breaks this test
//! breaks the format.

use std::fs;
use std::path::PathBuf;

use shoal_codec::{FixColumns, SpaceTag};

use crate::sample::{EARTH, PLANE, encode, full, parse, plain};

fn compare(name: &str, columns: &FixColumns, space: &SpaceTag, sequence: u64) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    let encoded = encode(columns, space, sequence);
    if !path.exists() && std::env::var("SHOAL_WRITE_GOLDEN").is_ok_and(|value| value == "yes") {
        fs::write(&path, &encoded).expect("the golden folder can be written");
    }
    let golden = fs::read(&path).expect("golden files are part of the tree");
    assert_eq!(encoded, golden, "{name}: the writer's bytes have changed");
    let block = parse(&golden).expect("golden files are blocks");
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
fn no_rows_version_1_0() {
    compare("no_rows_v1.0.block", &FixColumns::new(), &EARTH, u64::MAX);
}
