//! Golden files in the folder `tests/golden` of a package: bytes of released formats. The reader
//! must read them, and the writer must produce the same bytes.
//!
//! A test with SHOAL_WRITE_GOLDEN=yes writes a file once; a file that exists is never written
//! again. A change that breaks these tests breaks the format.

use std::fs;
use std::path::{Path, PathBuf};

/// The golden files of a package.
#[derive(Clone, Copy, Debug)]
pub struct GoldenFolder {
    /// The package's folder, `env!("CARGO_MANIFEST_DIR")`.
    pub package: &'static str,
}

impl GoldenFolder {
    /// Compares bytes with the golden file of this name.
    ///
    /// # Panics
    /// When they differ, and when the file is missing and SHOAL_WRITE_GOLDEN is not `yes`.
    pub fn assert_is(&self, name: &str, bytes: &[u8]) {
        let path = self.path(name);
        if !path.exists() && Self::is_written() {
            fs::write(&path, bytes).expect("the golden folder can be written");
        }
        assert!(bytes == self.bytes(name), "{name}: the writer's bytes have changed");
    }

    /// The bytes of a golden file.
    ///
    /// # Panics
    /// When it is missing.
    #[must_use]
    pub fn bytes(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).expect("golden files are part of the tree")
    }

    /// Where a golden file is.
    #[must_use]
    pub fn path(&self, name: &str) -> PathBuf {
        Path::new(self.package).join("tests/golden").join(name)
    }

    /// Whether SHOAL_WRITE_GOLDEN asks to write missing files.
    #[must_use]
    pub fn is_written() -> bool {
        std::env::var("SHOAL_WRITE_GOLDEN").is_ok_and(|value| value == "yes")
    }
}
