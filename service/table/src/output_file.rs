//! Writes a file under a temporary name until it is complete.
//!
//! Bytes go to a partial file in the same folder. The file is renamed when it is complete, and
//! removed if it is dropped earlier, or before a signal ends the process. An existing file is
//! replaced only if forced.

use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::TableError;

/// The files and folders of this process that are not complete.
static PARTIAL: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

/// A file or a new folder that is removed when this is dropped, unless it has become complete.
pub(crate) struct Partial(PathBuf);

impl Partial {
    /// The file or folder `path`, which this process has created.
    pub(crate) fn new(path: PathBuf) -> Self {
        partial().insert(path.clone());
        Self(path)
    }

    /// Keeps the file or folder.
    pub(crate) fn keep(&mut self) {
        partial().remove(&self.0);
    }
}

impl Drop for Partial {
    fn drop(&mut self) {
        if partial().remove(&self.0) {
            remove(&self.0);
        }
    }
}

fn partial() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    PARTIAL.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes a file, or a folder without other files; a failure leaves it.
fn remove(path: &Path) {
    let _ = if path.is_dir() { fs::remove_dir(path) } else { fs::remove_file(path) };
}

/// Removes what this process has not completed. For the end of a process by a signal: writers that
/// go on after this call fail, or leave their files.
pub fn remove_partial_files() {
    // Files come before the folders that contain them.
    while let Some(path) = partial().pop_last() {
        remove(&path);
    }
}

/// A file that is being written.
pub struct OutputFile {
    path: PathBuf,
    writer: Option<BufWriter<File>>,
    /// Dropped after `writer`.
    partial: Partial,
}

impl OutputFile {
    /// Begins the file `path`.
    ///
    /// # Errors
    /// Those of [`check`](Self::check); [`TableError::Write`] if the folder is not writable.
    pub fn create(path: &Path, force: bool) -> Result<Self, TableError> {
        Self::check(path, force)?;
        let mut name = path.file_name().unwrap_or_default().to_owned();
        name.push(format!(".{}.partial", std::process::id()));
        let partial = path.with_file_name(name);
        let file = File::create(&partial).map_err(TableError::writing(path))?;
        let partial = Partial::new(partial);
        Ok(Self { path: path.to_owned(), partial, writer: Some(BufWriter::new(file)) })
    }

    /// Checks that the file can be created.
    ///
    /// # Errors
    /// [`TableError::Exists`] if the file exists, unless forced; [`TableError::NotReplaceable`] for
    /// a folder, or for a device, which a rename would destroy.
    pub fn check(path: &Path, force: bool) -> Result<(), TableError> {
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                Err(TableError::NotReplaceable { file: path.to_owned() })
            }
            Ok(_) if !force => Err(TableError::Exists { file: path.to_owned() }),
            _ => Ok(()),
        }
    }

    /// Completes the file and gives it its name.
    ///
    /// # Errors
    /// [`TableError::Write`].
    pub fn finish(mut self) -> Result<(), TableError> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let written = writer.into_inner().map_err(io::Error::from);
        written
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&self.partial.0, &self.path))
            .inspect(|()| self.partial.keep())
            .map_err(TableError::writing(&self.path))
    }
}

impl Write for OutputFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.writer.as_mut().map_or(Ok(0), |writer| writer.write(bytes))
    }

    fn flush(&mut self) -> io::Result<()> {
        self.writer.as_mut().map_or(Ok(()), Write::flush)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_whole_or_not_there_and_replaced_only_by_force() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.bin");
        let count = || fs::read_dir(folder.path()).unwrap().count();

        let mut half = OutputFile::create(&path, false).unwrap();
        half.write_all(b"half").unwrap();
        drop(half);
        assert_eq!(count(), 0);

        let mut whole = OutputFile::create(&path, false).unwrap();
        whole.write_all(b"whole").unwrap();
        whole.finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (b"whole".to_vec(), 1));

        let refused = OutputFile::create(&path, false).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("out.bin exists"), "{refused}");
        drop(OutputFile::create(&path, true).unwrap());
        assert_eq!((fs::read(&path).unwrap(), count()), (b"whole".to_vec(), 1));
        OutputFile::create(&path, true).unwrap().finish().unwrap();
        assert_eq!((fs::read(&path).unwrap(), count()), (Vec::new(), 1));
        let refused = OutputFile::create(folder.path(), true).map(|_| ()).unwrap_err();
        assert!(refused.to_string().contains("is no file that can be replaced"), "{refused}");
        let missing = folder.path().join("missing").join("out.bin");
        assert!(OutputFile::create(&missing, true).is_err());
    }
}
