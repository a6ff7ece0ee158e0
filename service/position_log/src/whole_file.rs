//! Small files that are read and replaced as a whole: a crash leaves the old or the new one.
//!
//! The caller defines the format and its checksums.

use std::io;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::storage::{Storage, folder_of};

/// Reads a file into whole pages; `None` if it does not exist.
///
/// # Errors
/// [`LogError::Damaged`] if it has more than `bytes_max`; [`LogError::Storage`].
pub fn read_file(
    storage: &dyn Storage,
    path: &str,
    bytes_max: usize,
) -> Result<Option<Vec<u8>>, LogError> {
    let display = storage.display(path);
    let failed = |operation| LogError::storage(operation, display.clone());
    let file = match storage.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file.map_err(failed("open"))?,
    };
    let length = file.length().map_err(failed("read the length of"))?;
    if length > bytes_max as u64 {
        let reason = format!("the file has {length} bytes, the limit is {bytes_max}");
        return Err(LogError::damaged(display, 0, reason));
    }
    let mut bytes = AlignedBuffer::zeroed(length as usize);
    let read = file.read_at(0, &mut bytes).map_err(failed("read"))?;
    Ok(Some(bytes[..read].to_vec()))
}

/// Durably replaces a file by one with these bytes, which are whole pages.
///
/// # Errors
/// [`LogError::Storage`], after which either the former or the new file may be on the disk.
pub fn replace_file(
    storage: &dyn Storage,
    path: &str,
    bytes: &AlignedBuffer,
) -> Result<(), LogError> {
    let new_path = format!("{path}.new");
    let failed = |operation| LogError::storage(operation, storage.display(path));
    match storage.remove(&new_path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        removed => removed.map_err(failed("replace"))?,
    }
    let file = storage.create(&new_path).map_err(failed("create"))?;
    file.write_at(0, bytes).map_err(failed("write"))?;
    file.sync_data().map_err(failed("sync"))?;
    storage.rename(&new_path, path).map_err(failed("rename"))?;
    storage.sync_dir(folder_of(path)).map_err(failed("sync the folder of"))
}
