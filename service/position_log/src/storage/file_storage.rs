//! Real files, past the page cache where the file system supports it.
//!
//! Direct writes do not evict the server's other files from memory, and a read after a restart
//! shows what the disk has, not what a failed write left in the cache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Storage, StorageFile};
use crate::limits::PAGE_BYTES;

/// Files below a folder.
#[derive(Clone, Debug)]
pub struct FileStorage {
    root: PathBuf,
}

impl FileStorage {
    /// Files below `root`, which exists.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        Self { root: root.to_path_buf() }
    }

    fn open_with(&self, path: &str, options: &mut OpenOptions) -> io::Result<Box<dyn StorageFile>> {
        let path = self.root.join(path);
        options.read(true).write(true).custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = match options.open(&path) {
            // The file system has no direct input and output.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // A refused open may have created the file.
                let file = options.create_new(false).custom_flags(0).create(true).open(&path)?;
                // Pages whose write failed look written: the disk's own are read instead.
                file.sync_data()?;
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                file
            }
            other => other?,
        };
        Ok(Box::new(RealFile(file)))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Storage for FileStorage {
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        let mut path = self.root.clone();
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            let parent = path.clone();
            path.push(part);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
            // Also if it exists: its creator may have crashed before this.
            sync_folder(&parent)?;
        }
        Ok(())
    }

    fn remove_dir(&self, folder: &str) -> io::Result<()> {
        let path = self.root.join(folder);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.open_with(path, OpenOptions::new().create_new(true))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        // Without this check the fallback would create the file.
        fs::metadata(self.root.join(path))?;
        self.open_with(path, &mut OpenOptions::new())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.root.join(folder))? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        fs::remove_file(self.root.join(path))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        sync_folder(&self.root.join(folder))
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = rustix::fs::statvfs(&self.root)?;
        Ok(state.f_bavail.saturating_mul(state.f_frsize))
    }

    fn display(&self, path: &str) -> String {
        self.root.join(path).display().to_string()
    }
}

#[derive(Debug)]
struct RealFile(File);

/// Whether a transfer is whole pages from an aligned buffer.
fn is_aligned(offset: u64, bytes: &[u8]) -> bool {
    offset.is_multiple_of(PAGE_BYTES as u64)
        && bytes.len().is_multiple_of(PAGE_BYTES)
        && bytes.as_ptr().align_offset(PAGE_BYTES) == 0
}

impl StorageFile for RealFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        debug_assert!(is_aligned(offset, bytes), "reads are whole pages");
        let mut done = 0;
        while done < bytes.len() {
            match self.0.read_at(&mut bytes[done..], offset + done as u64) {
                Ok(0) => break,
                // A direct read ends within a page only at the end of the file.
                Ok(count) if !count.is_multiple_of(PAGE_BYTES) => return Ok(done + count),
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(done)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        debug_assert!(is_aligned(offset, bytes), "writes are whole pages");
        self.0.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }
}
