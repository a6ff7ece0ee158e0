//! Notices changes of files by their identity, size and time. This also finds files that a rename
//! replaced, and changes of the target of a symbolic link.

use std::fs::{self, File};
use std::io::Read as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tracing::{info, warn};

use crate::error::ServiceError;

/// What identifies the content of a file: device, inode, bytes, seconds and nanoseconds of its
/// last changes.
type Stamp = (u64, u64, u64, i64, i64, i64, i64);

fn stamp(file: &Path) -> Option<Stamp> {
    let of = fs::metadata(file).ok()?;
    let (modified, changed) = ((of.mtime(), of.mtime_nsec()), (of.ctime(), of.ctime_nsec()));
    Some((of.dev(), of.ino(), of.len(), modified.0, modified.1, changed.0, changed.1))
}

/// Watched files, and their stamps at the last check.
#[derive(Debug)]
struct FileWatch {
    files: Vec<PathBuf>,
    seen: Vec<Option<Stamp>>,
}

impl FileWatch {
    /// Watches files from now on.
    fn new(files: Vec<PathBuf>) -> Self {
        let seen = files.iter().map(|file| stamp(file)).collect();
        Self { files, seen }
    }

    /// Whether a file has changed since the last check.
    fn look(&mut self) -> bool {
        let now: Vec<_> = self.files.iter().map(|file| stamp(file)).collect();
        let has_changed = now != self.seen;
        self.seen = now;
        has_changed
    }

    /// Makes the next check report a change if any of the files exists.
    fn forget(&mut self) {
        self.seen.fill(None);
    }

    /// Checks the files at an interval; returns when one has changed.
    async fn changed(&mut self, interval: Duration) {
        loop {
            tokio::time::sleep(interval).await;
            let files = std::mem::take(&mut self.files);
            let mut looking = Self { files, seen: std::mem::take(&mut self.seen) };
            let looked = tokio::task::spawn_blocking(move || {
                let has_changed = looking.look();
                (looking, has_changed)
            });
            // An error means that the runtime ends.
            let Ok((looked, has_changed)) = looked.await else { return };
            *self = looked;
            if has_changed {
                return;
            }
        }
    }
}

/// Calls `read` now and whenever a file changes, until the future is dropped. If `read` fails, it
/// is called again at each interval, because the cause may not be in the files. A new reason is
/// logged once.
pub(crate) async fn keep_read(
    files: Vec<PathBuf>,
    interval: Duration,
    what: &'static str,
    read: impl Fn() -> Result<(), ServiceError> + Clone + Send + 'static,
) {
    let mut watch = FileWatch::new(files);
    let (mut is_first, mut problem) = (true, None);
    loop {
        // An error means that the runtime ends.
        let Ok(result) = tokio::task::spawn_blocking(read.clone()).await else { return };
        let now = result.err().map(|error| error.to_string());
        match &now {
            None if !is_first => info!("read {what} again"),
            Some(error) if now != problem => warn!(error, "{what} are not replaced"),
            _ => {}
        }
        if now.is_some() {
            watch.forget();
        }
        (is_first, problem) = (false, now);
        watch.changed(interval).await;
    }
}

/// Reads a text file of at most `bytes_max` bytes, without its byte order mark.
///
/// # Errors
/// The file cannot be read, is not UTF-8, or is longer.
pub fn read_bounded(file: &Path, bytes_max: u64) -> Result<String, String> {
    let mut text = String::new();
    let opened = File::open(file).map_err(|error| error.to_string())?;
    let read = opened.take(bytes_max + 1).read_to_string(&mut text);
    read.map_err(|error| error.to_string())?;
    if text.len() as u64 > bytes_max {
        return Err(format!("longer than {bytes_max} bytes"));
    }
    Ok(without_mark(text))
}

/// Removes the byte order mark at the start of a text, as some editors write one.
#[must_use]
pub fn without_mark(mut text: String) -> String {
    const MARK: char = '\u{feff}';
    if text.starts_with(MARK) {
        text.drain(..MARK.len_utf8());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_has_changed() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        fs::write(path("a"), "1").unwrap();
        let mut watch = FileWatch::new(vec![path("a"), path("b")]);
        assert!(!watch.look());
        fs::write(path("new"), "2").unwrap();
        fs::rename(path("new"), path("a")).unwrap();
        assert!(watch.look() && !watch.look());
        fs::write(path("b"), "").unwrap();
        assert!(watch.look());
        fs::remove_file(path("b")).unwrap();
        assert!(watch.look());
        std::os::unix::fs::symlink(path("a"), path("b")).unwrap();
        assert!(watch.look() && !watch.look());
        watch.forget();
        assert!(watch.look() && !watch.look());
    }

    #[tokio::test(start_paused = true)]
    async fn a_reading_that_fails_is_repeated() {
        use std::sync::Arc;
        use std::sync::atomic::{AtomicUsize, Ordering};
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "1").unwrap();
        let reads = Arc::new(AtomicUsize::new(0));
        let read = {
            let reads = reads.clone();
            move || match reads.fetch_add(1, Ordering::Relaxed) {
                1..3 => Err(ServiceError::ShuttingDown),
                _ => Ok(()),
            }
        };
        let keeping = keep_read(vec![path.clone()], Duration::from_millis(1), "files", read);
        let keeping = tokio::spawn(keeping);
        let count = async |wanted| {
            while reads.load(Ordering::Relaxed) < wanted {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        count(1).await;
        fs::write(&path, "22").unwrap();
        // Two fail, the next succeeds, and only another change is read after it.
        count(4).await;
        fs::write(&path, "333").unwrap();
        count(5).await;
        keeping.abort();
    }

    #[test]
    fn a_long_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a");
        fs::write(&path, "abc").unwrap();
        assert_eq!(read_bounded(&path, 3).unwrap(), "abc");
        fs::write(&path, "\u{feff}abc\u{feff}").unwrap();
        assert_eq!(read_bounded(&path, 9).unwrap(), "abc\u{feff}");
        assert!(read_bounded(&path, 2).is_err());
        fs::write(&path, [0xff]).unwrap();
        assert!(read_bounded(&path, 2).is_err());
    }
}
