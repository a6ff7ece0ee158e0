//! Real files, past the page cache where the file system supports it.
//!
//! Direct writes do not evict the server's other files from memory, and a read after a restart
//! shows what the disk has, not what a failed write left in the cache.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

use super::{Storage, StorageFile};
use crate::limits::PAGE_BYTES;

/// Opens a file with `O_DIRECT` in its options.
type OpenDirect = fn(&OpenOptions, &Path) -> io::Result<File>;

/// Files below a folder.
#[derive(Clone, Debug)]
pub struct FileStorage {
    root: PathBuf,
    is_read_only: bool,
    open_direct: OpenDirect,
}

impl FileStorage {
    /// Files below `root`, which exists.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let open_direct: OpenDirect = |options, path| options.open(path);
        Self { root: root.to_path_buf(), is_read_only: false, open_direct }
    }

    /// Files below `root` for inspection: syncs do nothing, and every change fails.
    #[must_use]
    pub fn read_only(root: &Path) -> Self {
        Self { is_read_only: true, ..Self::new(root) }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    fn open_with(&self, path: &str, options: &mut OpenOptions) -> io::Result<Box<dyn StorageFile>> {
        let path = self.root.join(path);
        options
            .read(true)
            .write(!self.is_read_only)
            .custom_flags(OFlags::DIRECT.bits().cast_signed());
        let file = match (self.open_direct)(options, &path) {
            // The file system has no direct input and output.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // A refused open may have created the file.
                options.create_new(false).custom_flags(0).create(!self.is_read_only);
                let file = options.open(&path)?;
                // Pages whose write failed look written: the disk's own are read instead.
                if !self.is_read_only {
                    file.sync_data()?;
                }
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                file
            }
            other => other?,
        };
        Ok(Box::new(RealFile { file, is_read_only: self.is_read_only }))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

impl Storage for FileStorage {
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.check_writable()?;
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
        self.check_writable()?;
        let path = self.root.join(folder);
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    fn rename_dir(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)?;
        let path = self.root.join(to);
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.check_writable()?;
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
        self.check_writable()?;
        fs::rename(self.root.join(from), self.root.join(to))
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.root.join(path))
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        if self.is_read_only { Ok(()) } else { sync_folder(&self.root.join(folder)) }
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
struct RealFile {
    file: File,
    is_read_only: bool,
}

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
            match self.file.read_at(&mut bytes[done..], offset + done as u64) {
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
        if self.is_read_only {
            return Err(io::ErrorKind::ReadOnlyFilesystem.into());
        }
        self.file.write_all_at(bytes, offset)
    }

    fn sync_data(&self) -> io::Result<()> {
        if self.is_read_only {
            return Ok(());
        }
        self.file.sync_data()?;
        // What a file has that no folder names is gone when it is closed.
        if self.file.metadata()?.nlink() == 0 {
            return Err(io::Error::other("the file was removed while it was in use"));
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{
        CycleHeader, CycleSource as _, FleetIdentity, Group, LogOptions, LogReader, LogWriter,
        LoggedRequest, ReadMode, ReadOptions, Recovered, RequestBody, create_log,
    };

    #[test]
    fn read_only_storage_changes_nothing() {
        let folder = tempfile::tempdir().unwrap();
        fs::write(folder.path().join("a"), [7; PAGE_BYTES]).unwrap();
        let storage = FileStorage::read_only(folder.path());
        let file = storage.open("a").unwrap();
        let mut page = crate::AlignedBuffer::zeroed(PAGE_BYTES);
        assert_eq!(file.read_at(0, &mut page).unwrap(), PAGE_BYTES);
        assert_eq!(page[PAGE_BYTES - 1], 7);
        file.sync_data().unwrap();
        storage.sync_dir("").unwrap();
        for refused in [
            file.write_at(0, &page),
            storage.create("b").map(drop),
            storage.create_dir("c"),
            storage.remove("a"),
            storage.remove_dir(""),
            storage.rename("a", "b"),
        ] {
            assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::ReadOnlyFilesystem);
        }
        assert_eq!(storage.list("").unwrap(), ["a"]);
    }

    #[test]
    fn a_file_that_was_removed_cannot_be_synced() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileStorage::new(folder.path()).create("a").unwrap();
        file.sync_data().unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        assert!(file.sync_data().unwrap_err().to_string().contains("was removed"));
    }

    /// A file system without direct input and output: it creates the file, then refuses.
    fn refuse(options: &OpenOptions, path: &Path) -> io::Result<File> {
        options.clone().custom_flags(0).open(path)?;
        Err(io::ErrorKind::InvalidInput.into())
    }

    /// Writes a log of several segments.
    fn write_log(storage: &Arc<dyn Storage>) {
        create_log(&**storage, LOG).unwrap();
        let fleet = FleetIdentity::new(7, "bus").unwrap();
        let options =
            LogOptions { segment_bytes: 64 << 10, reserve_bytes: 0, ..LogOptions::new(fleet, 5) };
        let recovered = read_log(storage, |_| {});
        let mut log = LogWriter::open(storage.clone(), LOG, options, recovered, 0, 9).unwrap();
        let mut group = Group::new();
        for epoch in 1..=20 {
            let cycle = CycleHeader { epoch, system_ms: 0, time_max_ms: 0 };
            let block = vec![epoch as u8; 9_000];
            let request = LoggedRequest { body: RequestBody::Block(&block), batch: None };
            group.append(cycle, [request]).unwrap();
            log.write(&mut group).unwrap();
            log.sync().unwrap();
        }
        log.close().unwrap();
    }

    fn read_log(storage: &Arc<dyn Storage>, mut visit: impl FnMut(u64)) -> Recovered {
        let options = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Recover };
        let mut reader = LogReader::open(storage.clone(), LOG, options).unwrap();
        while let Some(cycle) = reader.next_cycle().unwrap() {
            visit(cycle.header.epoch);
        }
        reader.finish().unwrap()
    }

    const LOG: &str = "fleets/bus/log";

    #[test]
    fn the_page_cache_takes_the_place_of_direct_input_and_output() {
        let folders = [tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap()];
        let direct: Arc<dyn Storage> = Arc::new(FileStorage::new(folders[0].path()));
        let cached = FileStorage { open_direct: refuse, ..FileStorage::new(folders[1].path()) };
        let cached: Arc<dyn Storage> = Arc::new(cached);
        write_log(&direct);
        write_log(&cached);
        let names = direct.list(LOG).unwrap();
        assert!(names.len() > 3, "{names:?}");
        assert_eq!(cached.list(LOG).unwrap(), names);
        for name in &names {
            let bytes = |of: usize| fs::read(folders[of].path().join(LOG).join(name)).unwrap();
            assert!(bytes(0) == bytes(1), "{name}");
        }
        // Each reads what the other wrote.
        for (reader, folder) in [(refuse as OpenDirect, 0), (|of, path| of.open(path), 1)] {
            let root = folders[folder].path();
            let storage = FileStorage { open_direct: reader, ..FileStorage::new(root) };
            let (storage, mut epochs): (Arc<dyn Storage>, _) = (Arc::new(storage), Vec::new());
            assert!(read_log(&storage, |epoch| epochs.push(epoch)).was_clean());
            assert!(epochs.into_iter().eq(1..=20));
        }
        let missing = cached.open("missing").unwrap_err();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
        assert_eq!(cached.list("").unwrap(), Vec::<String>::new());
        let path = format!("{LOG}/{}", names[0]);
        let existing = cached.create(&path).unwrap_err();
        assert_eq!(existing.kind(), io::ErrorKind::AlreadyExists);
    }
}
