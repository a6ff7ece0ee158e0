//! Files of the operating system, accessed with direct I/O if the file system supports it.
//!
//! Direct writes do not evict the server's other files from memory, and a read after a restart
//! shows what the disk has, not what a failed write left in the cache. Below the root only folders
//! and regular files are used. If a folder comes from somewhere else, a symbolic link could lead
//! out of it, and opening a FIFO could block forever.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{AtFlags, OFlags, StatxFlags};
use rustix::io::Errno;

use super::{Storage, StorageFile};
use crate::limits::PAGE_BYTES;

/// Opens a file with `O_DIRECT` in its options.
type OpenDirect = fn(&OpenOptions, &Path) -> io::Result<File>;

/// Files below a folder.
#[derive(Clone, Debug)]
pub struct FileStorage {
    root: PathBuf,
    /// What precedes the names of files in errors.
    shown_root: PathBuf,
    is_read_only: bool,
    open_direct: OpenDirect,
}

impl FileStorage {
    /// Files below `root`, which exists.
    #[must_use]
    pub fn new(root: &Path) -> Self {
        let open_direct: OpenDirect = |options, path| options.open(path);
        let root = root.to_path_buf();
        Self { shown_root: root.clone(), root, is_read_only: false, open_direct }
    }

    /// The same files, named in errors without the folder: clients of a server receive these texts.
    #[must_use]
    pub fn without_root_in_errors(self) -> Self {
        Self { shown_root: PathBuf::new(), ..self }
    }

    /// Files below `root` for inspection: syncs do nothing, and every change fails.
    #[must_use]
    pub fn read_only(root: &Path) -> Self {
        Self { is_read_only: true, ..Self::new(root) }
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.is_read_only { Err(io::ErrorKind::ReadOnlyFilesystem.into()) } else { Ok(()) }
    }

    /// A path below the root, none of whose parts is a symbolic link.
    fn path(&self, path: &str) -> io::Result<PathBuf> {
        let mut full = self.root.clone();
        for part in Path::new(path).components() {
            if !matches!(part, Component::Normal(_)) {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "it leads out of the folder",
                ));
            }
            full.push(part);
            if fs::symlink_metadata(&full).is_ok_and(|found| found.is_symlink()) {
                let link = self.shown_root.join(full.strip_prefix(&self.root).unwrap_or(&full));
                let link = link.display();
                return Err(io::Error::other(format!("{link} is a symbolic link")));
            }
        }
        Ok(full)
    }

    /// The names of the subfolders of a folder, or of all its other entries, ascending.
    fn entries(&self, folder: &str, are_folders: bool) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(folder)?)? {
            let entry = entry?;
            if entry.file_type()?.is_dir() == are_folders {
                names.push(entry.file_name().to_string_lossy().into_owned());
            }
        }
        names.sort_unstable();
        Ok(names)
    }

    fn open_with(&self, path: &str, options: &mut OpenOptions) -> io::Result<Box<dyn StorageFile>> {
        let path = self.path(path)?;
        options
            .read(true)
            .write(!self.is_read_only)
            .custom_flags((PLAIN | OFlags::DIRECT).bits().cast_signed());
        let file = match (self.open_direct)(options, &path) {
            // The file system does not support direct I/O.
            Err(error) if error.kind() == io::ErrorKind::InvalidInput => {
                // The open that failed may have created the file.
                options.create_new(false).create(!self.is_read_only);
                options.custom_flags(PLAIN.bits().cast_signed());
                let file = options.open(&path)?;
                // A page whose write-back failed stays in the page cache as if it had been written.
                // The cached pages are dropped, so that reads return the content of the disk.
                if !self.is_read_only {
                    file.sync_data()?;
                }
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)?;
                file
            }
            other => other?,
        };
        check_regular(&file)?;
        Ok(Box::new(RealFile { file, is_read_only: self.is_read_only }))
    }
}

/// Flags of every open: do not follow symbolic links, and do not wait when opening a FIFO.
pub(crate) const PLAIN: OFlags = OFlags::NOFOLLOW.union(OFlags::NONBLOCK);

/// Confirms that an open file is a file.
pub(crate) fn check_regular(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { Ok(()) } else { Err(io::Error::other("it is no regular file")) }
}

/// The number of hard links of an open file. Does not query its timestamps: since Linux 6.13 a
/// query makes the next write update them, which takes a journal transaction and doubles the time
/// of a sync.
fn links(file: &File) -> io::Result<u64> {
    match rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::NLINK) {
        Ok(found) => Ok(found.stx_nlink.into()),
        // The kernel or sandbox does not support the call.
        Err(Errno::NOSYS) => Ok(file.metadata()?.nlink()),
        Err(error) => Err(error.into()),
    }
}

/// Creates a folder and its parents, durably; no error if it exists.
///
/// # Errors
/// Of the operating system.
pub fn create_root(folder: &Path) -> io::Result<()> {
    let parent = folder.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match fs::create_dir(folder) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {
            create_root(parent)?;
            return create_root(folder);
        }
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists && folder.is_dir() => {
            // Its creator may have crashed before this sync. Without permission to open the parent,
            // the folder belongs to someone else and the sync is skipped.
            return match File::open(parent).and_then(|parent| parent.sync_all()) {
                Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(()),
                synced => synced,
            };
        }
        created => created?,
    }
    File::open(parent)?.sync_all()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    let flags = (PLAIN | OFlags::DIRECTORY).bits().cast_signed();
    OpenOptions::new().read(true).custom_flags(flags).open(folder)?.sync_all()
}

impl Storage for FileStorage {
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        self.check_writable()?;
        self.path(folder)?;
        let mut path = self.root.clone();
        for part in folder.split('/').filter(|part| !part.is_empty()) {
            let parent = path.clone();
            path.push(part);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                other => other?,
            }
            // Sync even if the folder exists, because its creator may have crashed before the sync.
            sync_folder(&parent)?;
        }
        Ok(())
    }

    fn remove_dir(&self, folder: &str) -> io::Result<()> {
        self.check_writable()?;
        let path = self.path(folder)?;
        match fs::remove_dir_all(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            other => other?,
        }
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    fn rename_dir(&self, from: &str, to: &str) -> io::Result<()> {
        self.rename(from, to)?;
        let path = self.path(to)?;
        sync_folder(path.parent().unwrap_or(&self.root))
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        self.check_writable()?;
        self.open_with(path, OpenOptions::new().create_new(true))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        // Without this check, the open without `O_DIRECT` would create the file.
        if !fs::symlink_metadata(self.path(path)?)?.is_file() {
            return Err(io::Error::other("it is no regular file"));
        }
        self.open_with(path, &mut OpenOptions::new())
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        self.entries(folder, false)
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        self.entries(folder, true)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::rename(self.path(from)?, self.path(to)?)
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        self.check_writable()?;
        fs::remove_file(self.path(path)?)
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        if self.is_read_only { Ok(()) } else { sync_folder(&self.path(folder)?) }
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let state = rustix::fs::statvfs(&self.root)?;
        Ok(state.f_bavail.saturating_mul(state.f_frsize))
    }

    fn display(&self, path: &str) -> String {
        self.shown_root.join(path).display().to_string()
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
        // The content of a file without a hard link is lost when the file is closed.
        if links(&self.file)? == 0 {
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
    fn only_folders_and_regular_files_below_the_root_are_used() {
        let (folder, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        let victim = outside.path().join("victim");
        fs::write(&victim, [7; PAGE_BYTES]).unwrap();
        fs::create_dir(folder.path().join("log")).unwrap();
        let link = |to: &Path, at: &str| {
            std::os::unix::fs::symlink(to, folder.path().join(at)).unwrap();
        };
        link(&victim, "log/link");
        link(outside.path(), "out");
        link(&outside.path().join("new"), "log/dangling");
        let (file, mode) = (rustix::fs::FileType::Fifo, rustix::fs::Mode::RUSR);
        rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("log/fifo"), file, mode, 0)
            .unwrap();
        fs::create_dir(folder.path().join("log/folder")).unwrap();
        for storage in [FileStorage::new(folder.path()), FileStorage::read_only(folder.path())] {
            for (path, reason) in [
                ("log/link", "link is a symbolic link"),
                ("log/dangling", "dangling is a symbolic link"),
                ("out/victim", "out is a symbolic link"),
                ("log/fifo", "no regular file"),
                ("log/folder", "no regular file"),
                ("../victim", "leads out"),
            ] {
                let error = storage.open(path).unwrap_err().to_string();
                assert!(error.contains(reason), "{path}: {error}");
            }
            assert!(storage.list("out").is_err());
        }
        let storage = FileStorage::new(folder.path());
        storage.create("log/dangling").unwrap_err();
        storage.create("out/new").unwrap_err();
        storage.create_dir("out/new").unwrap_err();
        storage.remove("out/victim").unwrap_err();
        storage.rename("out/victim", "out/other").unwrap_err();
        storage.sync_dir("out").unwrap_err();
        storage.sync_dir("log/fifo").unwrap_err();
        storage.remove_dir("log").unwrap();
        storage.remove_dir("out").unwrap_err();
        assert_eq!(fs::read(&victim).unwrap(), [7; PAGE_BYTES]);
        assert_eq!(fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_root_is_created_with_its_parents() {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("a/b/c");
        create_root(&root).unwrap();
        create_root(&root).unwrap();
        assert_eq!(FileStorage::new(folder.path()).folders("a").unwrap(), ["b"]);
        fs::write(root.join("file"), "").unwrap();
        assert_eq!(
            create_root(&root.join("file")).unwrap_err().kind(),
            io::ErrorKind::AlreadyExists
        );
        create_root(&root.join("file/d")).unwrap_err();
    }

    #[test]
    fn a_file_that_was_removed_cannot_be_synced() {
        let folder = tempfile::tempdir().unwrap();
        let file = FileStorage::new(folder.path()).create("a").unwrap();
        file.sync_data().unwrap();
        fs::remove_file(folder.path().join("a")).unwrap();
        assert!(file.sync_data().unwrap_err().to_string().contains("was removed"));
    }

    /// Simulates a file system without direct I/O: creates the file and then refuses to open it.
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
        // Direct and buffered access read each other's files.
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
