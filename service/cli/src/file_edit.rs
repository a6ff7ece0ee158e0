//! Changes of small files: a file is replaced as a whole, so that no reader sees a part of it, and
//! edits of files in one folder wait for each other.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, fchown};
use std::path::{Path, PathBuf};

/// Permissions of a file that only its owner can read and write.
const PRIVATE: u32 = 0o600;

/// Replaces a file atomically, or creates one that only its owner can read. An existing file keeps
/// its owner, group and permissions, so that a server of another user can still read it.
pub(super) fn replace(path: &Path, text: &str) -> io::Result<()> {
    replace_with(path, text, fs::metadata(path).ok())
}

/// As [`replace`], but afterwards only the user can read the file.
pub(super) fn replace_private(path: &Path, text: &str) -> io::Result<()> {
    replace_with(path, text, None)
}

fn replace_with(path: &Path, text: &str, like: Option<Metadata>) -> io::Result<()> {
    let path = target(path);
    let mut new = path.clone().into_os_string();
    new.push(format!(".new-{}", std::process::id()));
    // A process with this number may have left one behind.
    let _ = fs::remove_file(&new);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(PRIVATE).open(&new)?;
    let written = like.map_or(Ok(()), |like| take_after(&file, &like));
    let written = written.and_then(|()| file.write_all(text.as_bytes()));
    let written = written.and_then(|()| file.sync_all());
    let renamed = written.and_then(|()| fs::rename(&new, &path));
    if renamed.is_err() {
        let _ = fs::remove_file(&new);
    }
    renamed
}

/// Gives a file the owner, group and permissions of another one.
fn take_after(file: &File, like: &Metadata) -> io::Result<()> {
    let own = file.metadata()?;
    if (own.uid(), own.gid()) != (like.uid(), like.gid()) {
        fchown(file, Some(like.uid()), Some(like.gid()))?;
    }
    file.set_permissions(like.permissions())
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
