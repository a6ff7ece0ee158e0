//! Changes of small files: a file is replaced as a whole, so that no reader sees a part of it, and
//! edits of files in one folder wait for each other.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Permissions of a file that only its owner can read and write.
const PRIVATE: u32 = 0o600;

/// Replaces a file atomically, or creates one that only its owner can read. An existing file keeps
/// its permissions.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    replace_with(path, text, fs::metadata(path).map_or(PRIVATE, |of| of.permissions().mode()))
}

/// As [`replace`], but afterwards only the owner can read the file.
pub(super) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    replace_with(path, text, PRIVATE)
}

fn replace_with(path: &Path, text: &str, mode: u32) -> io::Result<()> {
    let path = target(path);
    let mut new = path.clone().into_os_string();
    new.push(format!(".new-{}", std::process::id()));
    let mut file = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new)?;
    let written = file.write_all(text.as_bytes()).and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&new, &path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new);
    }
    renamed
}

/// Waits for its turn to edit the files in the folder of `path`, until the result is dropped.
/// The folder is locked and not the file, because [`replace`] puts another file in its place.
pub(super) fn lock_folder(path: &Path) -> io::Result<File> {
    let path = target(path);
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = File::open(folder.unwrap_or(Path::new(".")))?;
    folder.lock()?;
    Ok(folder)
}

/// The file itself if `path` is a symbolic link: the target is replaced, not the link.
fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
