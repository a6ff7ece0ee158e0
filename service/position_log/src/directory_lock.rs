//! Exclusive use of a data folder by one process: a lock on the folder itself.
//!
//! The operating system releases the lock when the process ends, however it ends. Unlike a lock
//! file, the folder cannot be removed while its content remains. The file `lock` in it names the
//! holder; only error messages use it.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::error::LogError;
use crate::limits::LOCK_HOLDER_BYTES_MAX;
use crate::storage::{PLAIN, check_regular};

/// The file that names the holder.
const HOLDER: &str = "lock";

/// Held while the server uses the folder; dropping it releases the lock.
#[derive(Debug)]
pub struct DirectoryLock {
    _folder: File,
}

impl DirectoryLock {
    /// Locks `folder`, which exists. `holder` describes this process in the error messages of
    /// others that try to lock the folder.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process holds the lock; [`LogError::Storage`] if the folder
    /// cannot be opened or locked, or the holder cannot be written.
    pub fn acquire(folder: &Path, holder: &str) -> Result<Self, LogError> {
        let display = folder.display().to_string();
        let opened = File::open(folder).map_err(LogError::storage("open", &display))?;
        match opened.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Readers do not write their name. If the lock can be shared, a reader holds it.
                let holder = match opened.try_lock_shared() {
                    Ok(()) => "a command that reads the folder".to_owned(),
                    Err(_) => holder_of(folder),
                };
                return Err(LogError::Locked { file: display, holder });
            }
            Err(TryLockError::Error(error)) => {
                return Err(LogError::storage("lock", display)(error));
            }
        }
        let path = folder.join(HOLDER);
        let text = format!("process {} ({holder})\n", std::process::id());
        let failed = LogError::storage("write", path.display().to_string());
        write_holder(&path, &text).map_err(failed)?;
        Ok(Self { _folder: opened })
    }

    /// Takes a shared lock on `folder`, so that other readers can lock it but no server can.
    /// Changes no file.
    ///
    /// # Errors
    /// [`LogError::Locked`] if a server holds the lock; [`LogError::Storage`] if the folder cannot
    /// be opened or locked.
    pub fn share(folder: &Path) -> Result<Self, LogError> {
        let display = folder.display().to_string();
        let opened = File::open(folder).map_err(LogError::storage("open", &display))?;
        match opened.try_lock_shared() {
            Ok(()) => Ok(Self { _folder: opened }),
            Err(TryLockError::WouldBlock) => {
                Err(LogError::Locked { file: display, holder: holder_of(folder) })
            }
            Err(TryLockError::Error(error)) => Err(LogError::storage("lock", display)(error)),
        }
    }
}

fn open_holder(path: &Path, options: &mut OpenOptions) -> io::Result<File> {
    let file = options.custom_flags(PLAIN.bits().cast_signed()).open(path)?;
    check_regular(&file).map(|()| file)
}

fn write_holder(path: &Path, text: &str) -> io::Result<()> {
    let mut file = open_holder(path, OpenOptions::new().write(true).create(true).truncate(false))?;
    file.set_len(0)?;
    file.write_all(text.as_bytes())
}

/// Returns the holder that the file names. Errors are ignored, because the name is for messages
/// only.
fn holder_of(folder: &Path) -> String {
    let mut text = Vec::new();
    if let Ok(file) = open_holder(&folder.join(HOLDER), OpenOptions::new().read(true)) {
        let _ = file.take(LOCK_HOLDER_BYTES_MAX as u64).read_to_end(&mut text);
    }
    let text = String::from_utf8_lossy(&text);
    let holder = text.lines().next().filter(|text| !text.is_empty());
    holder.unwrap_or("another process").to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn the_name_of_the_holder_is_written_to_a_regular_file_only() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let (name, victim) = (folder.path().join(HOLDER), outside.path().join("victim"));
        fs::write(&victim, "text").unwrap();
        std::os::unix::fs::symlink(&victim, &name).unwrap();
        DirectoryLock::acquire(folder.path(), "port 7070").unwrap_err();
        assert_eq!(fs::read(&victim).unwrap(), b"text");
        fs::remove_file(&name).unwrap();
        let (fifo, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, &name, fifo, mode, 0).unwrap();
        DirectoryLock::acquire(folder.path(), "port 7070").unwrap_err();
        assert_eq!(holder_of(folder.path()), "another process");
    }

    #[test]
    fn a_second_holder_is_refused_and_the_first_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(folder.path(), "port 7070").unwrap();
        let refused = DirectoryLock::acquire(folder.path(), "port 7071").unwrap_err().to_string();
        assert!(refused.contains("port 7070"), "{refused}");
        assert!(refused.contains(&std::process::id().to_string()), "{refused}");
        drop(held);
        DirectoryLock::acquire(folder.path(), "port 7071").unwrap();
    }

    #[test]
    fn a_lock_outlives_the_file_that_names_its_holder() {
        let folder = tempfile::tempdir().unwrap();
        let held = DirectoryLock::acquire(folder.path(), "port 7070").unwrap();
        let name = folder.path().join(HOLDER);
        fs::remove_file(&name).unwrap();
        for _ in 0..2 {
            let error = DirectoryLock::acquire(folder.path(), "port 7071").unwrap_err();
            assert!(matches!(error, LogError::Locked { .. }), "{error}");
            assert!(DirectoryLock::share(folder.path()).is_err());
            // Nor does another file of this name release it.
            fs::write(&name, "").unwrap();
        }
        drop(held);
        let read = DirectoryLock::share(folder.path()).unwrap();
        fs::remove_file(&name).unwrap();
        DirectoryLock::acquire(folder.path(), "port 7071").unwrap_err();
        drop(read);
        DirectoryLock::acquire(folder.path(), "port 7071").unwrap();
        assert!(fs::read_to_string(&name).unwrap().contains("port 7071"));
    }

    #[test]
    fn readers_share_the_lock_and_keep_servers_out() {
        let folder = tempfile::tempdir().unwrap();
        drop(DirectoryLock::share(folder.path()).unwrap());
        let server = DirectoryLock::acquire(folder.path(), "port 7070").unwrap();
        let refused = DirectoryLock::share(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("port 7070"), "{refused}");
        drop(server);
        let first = DirectoryLock::share(folder.path()).unwrap();
        let second = DirectoryLock::share(folder.path()).unwrap();
        let refused = DirectoryLock::acquire(folder.path(), "port 7071").unwrap_err().to_string();
        assert!(refused.contains("a command that reads"), "{refused}");
        drop((first, second));
        DirectoryLock::acquire(folder.path(), "port 7071").unwrap();
    }
}
