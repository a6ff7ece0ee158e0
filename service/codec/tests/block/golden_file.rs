//! Released bytes, in `tests/golden`: they stay readable, and the writer still writes them.
//!
//! A test with SHOAL_WRITE_GOLDEN=yes writes a file once; a file that exists is never written
//! again. A change that breaks these tests breaks the format.

use std::fs;
use std::path::PathBuf;

/// Compares `encoded` with the golden file of this name.
pub(crate) fn assert_golden(name: &str, encoded: &[u8]) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden").join(name);
    if !path.exists() && std::env::var("SHOAL_WRITE_GOLDEN").is_ok_and(|value| value == "yes") {
        fs::write(&path, encoded).expect("the golden folder can be written");
    }
    let golden = fs::read(&path).expect("golden files are part of the tree");
    assert_eq!(encoded, golden, "{name}: the writer's bytes have changed");
}
