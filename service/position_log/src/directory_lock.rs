//! Exclusive use of a data folder by one process: a lock on its file `lock`.
//!
//! The operating system releases the lock when the process ends, however it ends. The text of the
//! file names the holder for messages only.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::error::LogError;
use crate::limits::LOCK_HOLDER_BYTES_MAX;

/// Held while the server uses the folder; dropping it releases the lock.
#[derive(Debug)]
pub struct DirectoryLock {
    _file: File,
}

impl DirectoryLock {
    /// Locks `folder`, which exists. `holder` describes this process to others that try.
    ///
    /// # Errors
    /// [`LogError::Locked`] if another process holds it; [`LogError::Storage`].
    pub fn acquire(folder: &Path, holder: &str) -> Result<Self, LogError> {
        let path = folder.join("lock");
        let display = path.display().to_string();
        let failed = |operation| LogError::storage(operation, display.clone());
        let mut options = OpenOptions::new();
        options.read(true).write(true).create(true).truncate(false);
        let mut file = options.open(&path).map_err(failed("open"))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                // Readers do not write their name; only they let others share the lock.
                let holder = match file.try_lock_shared() {
                    Ok(()) => "a command that reads the folder".to_owned(),
                    Err(_) => holder_of(&file),
                };
                return Err(LogError::Locked { file: display, holder });
            }
            Err(TryLockError::Error(error)) => return Err(failed("lock")(error)),
        }
        file.set_len(0).map_err(failed("write"))?;
        file.seek(SeekFrom::Start(0)).map_err(failed("write"))?;
        writeln!(file, "process {} ({holder})", std::process::id()).map_err(failed("write"))?;
        Ok(Self { _file: file })
    }

    /// Keeps servers from `folder` while it is read, and changes nothing; other readers share the
    /// lock. `None` if no server has ever used the folder.
    ///
    /// # Errors
    /// [`LogError::Locked`] if a server holds it; [`LogError::Storage`].
    pub fn share(folder: &Path) -> Result<Option<Self>, LogError> {
        let path = folder.join("lock");
        let display = path.display().to_string();
        let file = match File::open(&path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            file => file.map_err(LogError::storage("open", display.clone()))?,
        };
        match file.try_lock_shared() {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(TryLockError::WouldBlock) => {
                Err(LogError::Locked { file: display, holder: holder_of(&file) })
            }
            Err(TryLockError::Error(error)) => Err(LogError::storage("lock", display)(error)),
        }
    }
}

/// The holder that the file names. Best effort: its name is not worth another error.
fn holder_of(file: &File) -> String {
    let mut text = Vec::new();
    let _ = file.take(LOCK_HOLDER_BYTES_MAX as u64).read_to_end(&mut text);
    let text = String::from_utf8_lossy(&text);
    let holder = text.lines().next().filter(|text| !text.is_empty());
    holder.unwrap_or("another process").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn readers_share_the_lock_and_keep_servers_out() {
        let folder = tempfile::tempdir().unwrap();
        assert!(DirectoryLock::share(folder.path()).unwrap().is_none());
        let server = DirectoryLock::acquire(folder.path(), "port 7070").unwrap();
        let refused = DirectoryLock::share(folder.path()).unwrap_err().to_string();
        assert!(refused.contains("port 7070"), "{refused}");
        drop(server);
        let first = DirectoryLock::share(folder.path()).unwrap().unwrap();
        let second = DirectoryLock::share(folder.path()).unwrap().unwrap();
        let refused = DirectoryLock::acquire(folder.path(), "port 7071").unwrap_err().to_string();
        assert!(refused.contains("a command that reads"), "{refused}");
        drop((first, second));
        DirectoryLock::acquire(folder.path(), "port 7071").unwrap();
    }
}
