//! The folder of a run, and the file system on which it is.
//!
//! Everything is written into a folder of this process. The folder is removed at the end.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::OFlags;
use shoal_position_log::{FileStorage, Storage};

use super::command::failed;
use crate::error::BenchmarkError;

/// Names of file systems by the number that the kernel reports.
const FILE_SYSTEMS: [(u64, &str); 8] = [
    (0x0102_1994, TMPFS),
    (0xEF53, "ext4"),
    (0x5846_5342, "xfs"),
    (0x9123_683E, "btrfs"),
    (0x794C_7630, "overlay"),
    (0x2FC1_2FC1, "zfs"),
    (0xF2F5_2010, "f2fs"),
    (0x6969, "nfs"),
];
const TMPFS: &str = "tmpfs";

/// The folder of a run.
pub(crate) struct WorkFolder {
    path: PathBuf,
    /// Its file system.
    pub(crate) file_system: String,
    /// Whether files can be written past the page cache.
    pub(crate) is_direct: bool,
}

impl WorkFolder {
    /// Creates the folder in `parent`, or in the folder of temporary files.
    pub(crate) fn create(parent: Option<&Path>) -> Result<Self, BenchmarkError> {
        let parent = parent.map_or_else(std::env::temp_dir, Path::to_path_buf);
        let path = (0..)
            .map(|number| parent.join(format!("shoal-bench-{}-{number}", std::process::id())))
            .find(|path| !path.exists())
            .unwrap_or_else(|| parent.join("shoal-bench"));
        fs::create_dir_all(&path).map_err(|source| failed(&path, source))?;
        let state = rustix::fs::statfs(&path).map_err(|source| failed(&path, source.into()))?;
        let number = u64::try_from(state.f_type).unwrap_or(0);
        let name = FILE_SYSTEMS.iter().find(|(of, _)| *of == number);
        let file_system = name.map_or_else(|| format!("{number:#x}"), |(_, name)| (*name).into());
        let is_direct = is_direct(&path.join("probe"));
        Ok(Self { path, file_system, is_direct })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The folder as storage.
    pub(crate) fn storage(&self) -> Arc<dyn Storage> {
        Arc::new(FileStorage::new(&self.path))
    }

    /// A line for the head of the tables.
    pub(crate) fn describe(&self) -> String {
        let Self { path, file_system, is_direct } = self;
        let path = path.parent().unwrap_or(path).display();
        let direct = if *is_direct { "direct" } else { "through the page cache only" };
        let warning = if file_system == TMPFS {
            "; this is memory, not a disk: syncs cost nothing and nothing is durable"
        } else {
            ""
        };
        format!("folder {path}: {file_system}, {direct}{warning}")
    }
}

fn is_direct(probe: &Path) -> bool {
    let flags = OFlags::DIRECT.bits().cast_signed();
    OpenOptions::new().write(true).create(true).custom_flags(flags).open(probe).is_ok()
}

impl Drop for WorkFolder {
    fn drop(&mut self) {
        // An error is ignored, because the results do not depend on the removal.
        let _ = fs::remove_dir_all(&self.path);
    }
}
