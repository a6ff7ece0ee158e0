//! The operations that the log needs from a disk. LOG.md, section 2, lists its assumptions.
//!
//! Paths are relative to the root of the storage, with `/` between folders. Offsets, lengths and
//! buffers of reads and writes are whole pages ([`crate::limits::PAGE_BYTES`]); buffers are aligned
//! ([`crate::AlignedBuffer`]).

use std::fmt::Debug;
use std::io;

/// A folder tree on a disk.
pub trait Storage: Send + Sync + Debug {
    /// Creates a folder and its parents, durably; no error if it exists.
    ///
    /// # Errors
    /// Errors of the operating system, as in all methods of this trait.
    fn create_dir(&self, folder: &str) -> io::Result<()>;
    /// Removes a folder and its content; no error if it does not exist.
    ///
    /// # Errors
    /// As above.
    fn remove_dir(&self, folder: &str) -> io::Result<()>;
    /// Durably renames a folder within its parent; `to` must not exist.
    ///
    /// # Errors
    /// As above.
    fn rename_dir(&self, from: &str, to: &str) -> io::Result<()>;
    /// Creates an empty file; it must not exist.
    ///
    /// # Errors
    /// As above.
    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>>;
    /// Opens a file for reading and writing.
    ///
    /// # Errors
    /// As above.
    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>>;
    /// The names of a folder's files, ascending; folders are not listed.
    ///
    /// # Errors
    /// As above.
    fn list(&self, folder: &str) -> io::Result<Vec<String>>;
    /// The names of the folders in a folder, ascending.
    ///
    /// # Errors
    /// As above.
    fn folders(&self, folder: &str) -> io::Result<Vec<String>>;
    /// Renames a file within its folder and replaces the target. Durable after [`Self::sync_dir`].
    ///
    /// # Errors
    /// As above.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file. Durable after [`Self::sync_dir`].
    ///
    /// # Errors
    /// As above.
    fn remove(&self, path: &str) -> io::Result<()>;
    /// Makes all earlier changes of a folder's entries durable.
    ///
    /// # Errors
    /// As above.
    fn sync_dir(&self, folder: &str) -> io::Result<()>;
    /// Free bytes of the disk.
    ///
    /// # Errors
    /// As above.
    fn free_bytes(&self) -> io::Result<u64>;
    /// The path as a user knows it, for messages.
    fn display(&self, path: &str) -> String {
        path.to_owned()
    }
}

/// An open file.
pub trait StorageFile: Send + Sync + Debug {
    /// Reads until the buffer is full or the file ends; returns the bytes read.
    ///
    /// # Errors
    /// Errors of the operating system, as in all methods of this trait.
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize>;
    /// Writes all bytes. Durable after [`Self::sync_data`].
    ///
    /// # Errors
    /// As above.
    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()>;
    /// Makes all earlier writes of this file and its length durable.
    ///
    /// # Errors
    /// As above. What was written since the last success may then be lost, even if a later call
    /// succeeds.
    fn sync_data(&self) -> io::Result<()>;
    /// Bytes of the file.
    ///
    /// # Errors
    /// As above.
    fn length(&self) -> io::Result<u64>;
}

/// The folder of a file; empty at the root.
pub(crate) fn folder_of(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(folder, _)| folder)
}
