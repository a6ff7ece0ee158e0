//! A simulated disk in memory. Faults can be injected at every operation; their effects follow from
//! a seed.
//!
//! After a crash, each sector of each write that was not synced is old, new, zeros or garbage;
//! lengths of files and entries of folders are durable independently of data. A rename is atomic;
//! folders themselves are durable at once.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::simulated_file::{Chance, SimulatedFile};
use super::{Storage, StorageFile, folder_of};
use crate::limits::{PAGE_BYTES, SECTOR_BYTES};

/// Longest wait of an operation on a disk that hangs. A failed test does not clear the fault, so
/// the wait must end.
const HANG_MAX: Duration = Duration::from_secs(180);

/// What one operation does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It and all later operations fail until [`SimulatedDisk::restart`].
    Crash,
    /// It fails with EIO; a write or sync may be done in part.
    InputOutput,
    /// It fails with ENOSPC, if it writes or creates.
    NoSpace,
    /// A write reports success and changes nothing.
    Phantom,
    /// A write reports success and changes another place of its file.
    Misdirected,
    /// It and all later operations wait until [`SimulatedDisk::clear_faults`] or
    /// [`SimulatedDisk::restart`], and then succeed.
    Hang,
}

/// A change of the entries of a file.
#[derive(Clone, Debug)]
struct EntryChange {
    file: u64,
    /// The entry that is removed, unless it belongs to another file by then.
    from: Option<String>,
    /// The entry that is created or replaced.
    to: Option<String>,
}

#[derive(Debug)]
struct State {
    chance: Chance,
    files: BTreeMap<u64, SimulatedFile>,
    folders: BTreeSet<String>,
    seen: BTreeMap<String, u64>,
    durable: BTreeMap<String, u64>,
    pending: Vec<EntryChange>,
    next_file: u64,
    operations: u64,
    faults: BTreeMap<u64, Fault>,
    has_crashed: bool,
    is_hanging: bool,
    capacity_bytes: u64,
}

/// The state, and the condition that wakes waiting operations.
#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    answers: Condvar,
}

/// A disk in memory; clones are the same disk.
#[derive(Clone, Debug)]
pub struct SimulatedDisk(Arc<Shared>);

impl From<State> for SimulatedDisk {
    fn from(state: State) -> Self {
        Self(Arc::new(Shared { state: Mutex::new(state), answers: Condvar::new() }))
    }
}

impl SimulatedDisk {
    /// An empty disk, whose failures follow from the seed.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Self::from(State {
            chance: Chance::new(seed),
            files: BTreeMap::new(),
            folders: BTreeSet::from([String::new()]),
            seen: BTreeMap::new(),
            durable: BTreeMap::new(),
            pending: Vec::new(),
            next_file: 0,
            operations: 0,
            faults: BTreeMap::new(),
            has_crashed: false,
            is_hanging: false,
            capacity_bytes: u64::MAX,
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Locks the state for an operation. Waits while the disk hangs.
    fn operation(&self) -> MutexGuard<'_, State> {
        let mut state = self.state();
        state.is_hanging |= state.faults.get(&state.operations) == Some(&Fault::Hang);
        let waited = self.0.answers.wait_timeout_while(state, HANG_MAX, |state| state.is_hanging);
        waited.unwrap_or_else(PoisonError::into_inner).0
    }

    /// The operations so far; reads count too.
    #[must_use]
    pub fn operations(&self) -> u64 {
        self.state().operations
    }

    /// Plans a fault for the operation of this number, counted from 0.
    pub fn inject(&self, operation: u64, fault: Fault) {
        self.state().faults.insert(operation, fault);
    }

    /// Whether a [`Fault::Crash`] has happened since the last restart.
    #[must_use]
    pub fn has_crashed(&self) -> bool {
        self.state().has_crashed
    }

    /// Whether operations wait because of a [`Fault::Hang`].
    #[must_use]
    pub fn is_hanging(&self) -> bool {
        self.state().is_hanging
    }

    /// Removes planned faults; operations that wait go on.
    pub fn clear_faults(&self) {
        let mut state = self.state();
        state.faults.clear();
        state.is_hanging = false;
        self.0.answers.notify_all();
    }

    /// Changes the size of the disk.
    pub fn set_capacity(&self, bytes: u64) {
        self.state().capacity_bytes = bytes;
    }

    /// Flips a bit of a file on the disk.
    ///
    /// # Panics
    /// If the file or the bit does not exist.
    pub fn flip(&self, path: &str, bit: usize) {
        let mut state = self.state();
        let file = state.seen[path];
        state.files.get_mut(&file).expect("entries have files").flip(bit);
    }

    /// The bytes of a file as reads return them.
    #[must_use]
    pub fn bytes(&self, path: &str) -> Option<Vec<u8>> {
        let state = self.state();
        let file = state.seen.get(path)?;
        state.files.get(file).map(|file| file.seen.clone())
    }

    /// Puts a file on the disk, durably.
    pub fn put(&self, path: &str, bytes: &[u8]) {
        let mut state = self.state();
        state.next_file += 1;
        let number = state.seen.get(path).copied().unwrap_or(state.next_file);
        let mut file = SimulatedFile::default();
        file.write(0, bytes);
        file.sync();
        state.files.insert(number, file);
        state.seen.insert(path.to_owned(), number);
        state.durable.insert(path.to_owned(), number);
    }

    /// Simulates a power failure: parts of what was not synced are lost. Removes planned faults.
    pub fn restart(&self) {
        let mut state = self.state();
        let State { chance, files, pending, durable, .. } = &mut *state;
        for file in files.values_mut() {
            file.crash(chance);
        }
        for change in std::mem::take(pending) {
            if chance.below(2) == 0 {
                change.apply(durable);
            }
        }
        let entries = state.durable.clone();
        state.files.retain(|file, _| entries.values().any(|used| used == file));
        state.seen = entries;
        state.faults.clear();
        (state.has_crashed, state.is_hanging) = (false, false);
        self.0.answers.notify_all();
    }

    /// An independent copy of the disk and its state, with another seed.
    #[must_use]
    pub fn fork(&self, seed: u64) -> Self {
        let state = self.state();
        Self::from(State {
            chance: Chance::new(seed),
            files: state.files.clone(),
            folders: state.folders.clone(),
            seen: state.seen.clone(),
            durable: state.durable.clone(),
            pending: state.pending.clone(),
            next_file: state.next_file,
            operations: state.operations,
            faults: BTreeMap::new(),
            has_crashed: state.has_crashed,
            is_hanging: false,
            capacity_bytes: state.capacity_bytes,
        })
    }
}

impl EntryChange {
    fn apply(self, entries: &mut BTreeMap<String, u64>) {
        if let Some(from) = self.from
            && entries.get(&from) == Some(&self.file)
        {
            entries.remove(&from);
        }
        if let Some(to) = self.to {
            entries.insert(to, self.file);
        }
    }

    fn folder(&self) -> &str {
        self.from.as_deref().or(self.to.as_deref()).map_or("", folder_of)
    }
}

fn missing() -> io::Error {
    io::ErrorKind::NotFound.into()
}

impl State {
    /// Counts an operation and returns the fault planned for it. After a crash, always returns an
    /// error.
    fn begin(&mut self) -> io::Result<Option<Fault>> {
        let operation = self.operations;
        self.operations += 1;
        let fault = self.faults.get(&operation).copied();
        if self.has_crashed {
            return Err(io::Error::other("the simulated machine has crashed"));
        }
        self.has_crashed = fault == Some(Fault::Crash);
        Ok(fault)
    }

    /// As [`Self::begin`] for operations without partial effect.
    fn begin_whole(&mut self, takes_space: bool) -> io::Result<()> {
        match self.begin()? {
            Some(Fault::Crash) => Err(io::Error::other("the simulated machine crashes")),
            Some(Fault::InputOutput) => Err(io::Error::other("simulated input/output error")),
            Some(Fault::NoSpace) if takes_space => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    }

    fn used_bytes(&self) -> u64 {
        let files = self.seen.values().filter_map(|file| self.files.get(file));
        files.map(|file| file.seen.len() as u64).sum()
    }

    fn change(&mut self, file: u64, from: Option<&str>, to: Option<&str>) {
        let (from, to) = (from.map(str::to_owned), to.map(str::to_owned));
        let change = EntryChange { file, from, to };
        change.clone().apply(&mut self.seen);
        self.pending.push(change);
    }

    /// A write with a fault, or without.
    fn write(&mut self, number: u64, offset: usize, bytes: &[u8]) -> io::Result<()> {
        let fault = self.begin()?;
        let used_bytes = self.used_bytes();
        let Self { files, chance, capacity_bytes, .. } = self;
        let Some(file) = files.get_mut(&number) else { return Ok(()) };
        let longer_bytes = (offset + bytes.len()).saturating_sub(file.seen.len()) as u64;
        if fault == Some(Fault::NoSpace) || used_bytes + longer_bytes > *capacity_bytes {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let sectors = (bytes.len() / SECTOR_BYTES) as u64;
        let part = chance.below(sectors + 1) as usize * SECTOR_BYTES;
        match fault {
            Some(Fault::Crash) => {
                file.write(offset, bytes);
                Err(io::Error::other("the simulated machine crashes"))
            }
            Some(Fault::InputOutput) => {
                file.write(offset, &bytes[..part]);
                Err(io::Error::other("simulated input/output error"))
            }
            Some(Fault::Phantom) => Ok(()),
            Some(Fault::Misdirected) => {
                let pages = (file.seen.len() / PAGE_BYTES) as u64 + 1;
                file.write(chance.below(pages) as usize * PAGE_BYTES, bytes);
                Ok(())
            }
            _ => {
                file.write(offset, bytes);
                Ok(())
            }
        }
    }

    fn sync(&mut self, number: u64) -> io::Result<()> {
        let fault = self.begin()?;
        let Self { files, chance, .. } = self;
        let Some(file) = files.get_mut(&number) else { return Ok(()) };
        match fault {
            Some(Fault::Crash) => Err(io::Error::other("the simulated machine crashes")),
            Some(Fault::InputOutput | Fault::NoSpace) => {
                file.fail_sync(chance);
                Err(io::Error::other("simulated input/output error"))
            }
            _ => {
                file.sync();
                Ok(())
            }
        }
    }
}

impl Storage for SimulatedDisk {
    fn create_dir(&self, folder: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(true)?;
        let ends = folder.match_indices('/').map(|(at, _)| at).chain([folder.len()]);
        for end in ends {
            state.folders.insert(folder[..end].to_owned());
        }
        Ok(())
    }

    fn remove_dir(&self, folder: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let inside = format!("{folder}/");
        let is_kept = |path: &str| path != folder && !path.starts_with(&inside);
        state.folders.retain(|path| is_kept(path));
        state.seen.retain(|path, _| is_kept(path));
        state.durable.retain(|path, _| is_kept(path));
        Ok(())
    }

    fn rename_dir(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let target = format!("{to}/");
        let is_target = |path: &String| path == to || path.starts_with(&target);
        if state.folders.iter().any(is_target) || state.seen.keys().any(is_target) {
            return Err(io::ErrorKind::DirectoryNotEmpty.into());
        }
        let inside = format!("{from}/");
        let renamed = |path: &str| {
            let rest = path.strip_prefix(&inside).map(|rest| format!("{to}/{rest}"));
            rest.unwrap_or_else(|| if path == from { to.to_owned() } else { path.to_owned() })
        };
        let State { folders, seen, durable, pending, .. } = &mut *state;
        *folders = folders.iter().map(|path| renamed(path)).collect();
        *seen = seen.iter().map(|(path, file)| (renamed(path), *file)).collect();
        *durable = durable.iter().map(|(path, file)| (renamed(path), *file)).collect();
        // The entries in the folder are treated as synced.
        pending.retain(|change| !change.folder().starts_with(from));
        for (path, file) in &*seen {
            if path.starts_with(to) {
                durable.insert(path.clone(), *file);
            }
        }
        Ok(())
    }

    fn create(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.operation();
        state.begin_whole(true)?;
        if state.seen.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        if !state.folders.contains(folder_of(path)) {
            return Err(missing());
        }
        state.next_file += 1;
        let number = state.next_file;
        state.files.insert(number, SimulatedFile::default());
        state.change(number, None, Some(path));
        Ok(Box::new(OpenFile { disk: self.clone(), number }))
    }

    fn open(&self, path: &str) -> io::Result<Box<dyn StorageFile>> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let number = *state.seen.get(path).ok_or_else(missing)?;
        Ok(Box::new(OpenFile { disk: self.clone(), number }))
    }

    fn list(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        if !state.folders.contains(folder) {
            return Err(missing());
        }
        let inside = state.seen.keys().filter(|path| folder_of(path) == folder);
        Ok(inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
    }

    fn folders(&self, folder: &str) -> io::Result<Vec<String>> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        if !state.folders.contains(folder) {
            return Err(missing());
        }
        let inside = state.folders.iter().filter(|path| {
            !path.is_empty() && path.as_str() != folder && folder_of(path) == folder
        });
        Ok(inside.map(|path| path.rsplit('/').next().unwrap_or(path).to_owned()).collect())
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let file = *state.seen.get(from).ok_or_else(missing)?;
        state.change(file, Some(from), Some(to));
        Ok(())
    }

    fn remove(&self, path: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let file = *state.seen.get(path).ok_or_else(missing)?;
        state.change(file, Some(path), None);
        Ok(())
    }

    fn sync_dir(&self, folder: &str) -> io::Result<()> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        let State { pending, durable, .. } = &mut *state;
        let (synced, rest) = std::mem::take(pending).into_iter().partition(|change| {
            let change: &EntryChange = change;
            change.folder() == folder
        });
        *pending = rest;
        let synced: Vec<EntryChange> = synced;
        synced.into_iter().for_each(|change| change.apply(durable));
        Ok(())
    }

    fn free_bytes(&self) -> io::Result<u64> {
        let mut state = self.operation();
        state.begin_whole(false)?;
        Ok(state.capacity_bytes.saturating_sub(state.used_bytes()))
    }
}

#[derive(Debug)]
struct OpenFile {
    disk: SimulatedDisk,
    number: u64,
}

impl StorageFile for OpenFile {
    fn read_at(&self, offset: u64, bytes: &mut [u8]) -> io::Result<usize> {
        let mut state = self.disk.operation();
        state.begin_whole(false)?;
        let Some(file) = state.files.get(&self.number) else { return Ok(0) };
        let offset = usize::try_from(offset).unwrap_or(usize::MAX);
        let rest = file.seen.get(offset..).unwrap_or_default();
        let count = rest.len().min(bytes.len());
        bytes[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn write_at(&self, offset: u64, bytes: &[u8]) -> io::Result<()> {
        self.disk.operation().write(self.number, offset as usize, bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.operation().sync(self.number)
    }

    fn length(&self) -> io::Result<u64> {
        let mut state = self.disk.operation();
        state.begin_whole(false)?;
        Ok(state.files.get(&self.number).map_or(0, |file| file.seen.len() as u64))
    }
}
