//! Released bytes, in `tests/golden`: they stay readable, and the writer still writes them, except
//! compact blocks of major version 1.
//!
//! A test with SHOAL_WRITE_GOLDEN=yes writes a file once; a file that exists is never written
//! again. A change that breaks these tests breaks the format.

use std::fs;
use std::path::PathBuf;

/// Compares `encoded` with the golden file of this name.
pub(crate) fn assert_golden(name: &str, encoded: &[u8]) {
    let path = path(name);
    if !path.exists() && std::env::var("SHOAL_WRITE_GOLDEN").is_ok_and(|value| value == "yes") {
        fs::write(&path, encoded).expect("the golden folder can be written");
    }
    assert_eq!(encoded, golden(name), "{name}: the writer's bytes have changed");
}

/// The bytes of a golden file.
pub(crate) fn golden(name: &str) -> Vec<u8> {
    fs::read(path(name)).expect("golden files are part of the tree")
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name)
}
