//! The data folder of a server: its lock, its list of fleets, and the folders of their logs.
//!
//! A change of the list is durable when the call returns.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use shoal_position_log::{
    DirectoryLock, FileStorage, FleetIdentity, LogError, LogOptions, LogReader, Manifest,
    ManifestEntry, ReadMode, ReadOptions, Storage, create_log, create_root,
};

use tracing::warn;

use super::copied_folder::{COPIED, COPYING, CopyRecord};
use super::fleet_record;
use super::follow_record::FollowRecord;
use super::role_record::RoleRecord;
use crate::cycle::{CurrentName, FleetName, FleetSpec};
use crate::error::ServiceError;
use crate::limits::ServerLimits;

/// See the file's head.
#[derive(Clone)]
pub struct DataFolder(Arc<Inner>);

struct Inner {
    storage: Arc<dyn Storage>,
    manifest: Mutex<Manifest>,
    role: Mutex<RoleRecord>,
    /// When the copies were last known to be current, as the last run recorded it.
    current: FollowRecord,
    /// Held while the role changes. True if the file may differ from the role in memory after a
    /// failed write.
    changing_role: Mutex<bool>,
    /// Held while `server.current` is replaced.
    recording: Mutex<()>,
    /// Released when the folder is dropped.
    _lock: Option<DirectoryLock>,
}

/// The folders of one fleet, or of a copy that is not complete.
#[derive(Clone, Debug)]
pub(crate) struct FleetFolder {
    pub(crate) storage: Arc<dyn Storage>,
    /// The id of the fleet, and the name of its folder: the name that the fleet had when the folder
    /// was created, or its id if the folder of another fleet had that name.
    pub(crate) identity: FleetIdentity,
    /// The name of the fleet.
    pub(crate) name: CurrentName,
    /// True for a copy that is not complete.
    is_copying: bool,
}

/// How often a log is listed before a missing file is an error.
const LISTED_MAX: u32 = 4;

impl FleetFolder {
    /// The folder of a fleet in the list.
    pub(super) fn new(storage: Arc<dyn Storage>, identity: FleetIdentity, name: FleetName) -> Self {
        Self { storage, identity, name: CurrentName::new(name), is_copying: false }
    }

    fn root(&self) -> String {
        let name = &self.identity.name;
        if self.is_copying { beside(name, COPYING) } else { format!("fleets/{name}") }
    }

    pub(crate) fn log(&self) -> String {
        format!("{}/log", self.root())
    }

    pub(crate) fn checkpoint(&self) -> String {
        format!("{}/checkpoint", self.root())
    }

    pub(crate) fn history(&self) -> String {
        format!("{}/history", self.root())
    }

    /// Opens the log for streaming the cycles after an epoch, while its writer is active.
    pub(crate) fn stream_log(&self, after_epoch: u64) -> Result<LogReader, LogError> {
        let fleet = Some(self.identity.clone());
        let options = ReadOptions { fleet, after_epoch, mode: ReadMode::Through(0) };
        listed_again(|| {
            LogReader::open_streamed(self.storage.clone(), &self.log(), options.clone())
        })
    }

    /// The options of the fleet's log writer.
    pub(super) fn log_options(&self, limits: &ServerLimits) -> Result<LogOptions, ServiceError> {
        Ok(LogOptions {
            segment_bytes: limits.log_segment_bytes,
            reserve_bytes: limits.log_reserve_bytes,
            ..LogOptions::new(self.identity.clone(), random()?)
        })
    }

    /// True if the log, checkpoint or history folder has a file other than `bounds*`.
    fn has_content(&self) -> Result<bool, LogError> {
        for path in [self.log(), self.checkpoint(), self.history()] {
            let failed = LogError::storage("list", self.storage.display(&path));
            match self.storage.list(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                // A log without any cycle has only its `bounds` files.
                names => {
                    if names.map_err(failed)?.iter().any(|name| !name.starts_with("bounds")) {
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
    }

    /// Opens the log for reading. Fails if the log lacks cycles after `after_epoch`.
    pub(crate) fn read_log(&self, after_epoch: u64, mode: ReadMode) -> Result<LogReader, LogError> {
        let options = ReadOptions { fleet: Some(self.identity.clone()), after_epoch, mode };
        listed_again(|| LogReader::open(self.storage.clone(), &self.log(), options.clone()))
    }
}

/// Opens a log, and lists it again if a file of the list does not exist: the writer of the log may
/// retire a segment that was listed before it is opened.
fn listed_again(open: impl Fn() -> Result<LogReader, LogError>) -> Result<LogReader, LogError> {
    for _ in 1..LISTED_MAX {
        match open() {
            Err(error) if error.is_missing_file() => {}
            opened => return opened,
        }
    }
    open()
}

impl DataFolder {
    /// Locks the folder and reads its list of fleets. Creates the folder if it is missing, and
    /// completes or removes the copies of the last run.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub fn open(folder: &Path) -> Result<Self, ServiceError> {
        create_root(folder).map_err(|source| ServiceError::Io {
            what: format!("creating the data folder {}", folder.display()),
            source,
        })?;
        let lock = DirectoryLock::acquire(folder, "shoal serve")?;
        check_list(folder)?;
        let storage = FileStorage::new(folder).without_root_in_errors();
        let data = Self::with_storage(Arc::new(storage), Some(lock))?;
        let unlisted = data.manifest(|manifest| unlisted(folder, manifest));
        if !unlisted.is_empty() {
            warn!(folders = ?unlisted, "folders missing from the list of fleets are not used");
        }
        Ok(data)
    }

    /// As [`DataFolder::open`] on any storage; `lock` is held until the folder is dropped.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub fn with_storage(
        storage: Arc<dyn Storage>,
        lock: Option<DirectoryLock>,
    ) -> Result<Self, ServiceError> {
        let manifest = Mutex::new(Manifest::load(&*storage)?.unwrap_or_default());
        let role = Mutex::new(RoleRecord::load(&*storage)?);
        let current = FollowRecord::load(&*storage)?;
        let (changing_role, recording) = Default::default();
        let inner =
            Inner { storage, manifest, role, current, changing_role, recording, _lock: lock };
        let data = Self(Arc::new(inner));
        data.settle_copies()?;
        Ok(data)
    }

    /// The fleets in the list, with their folders.
    ///
    /// # Errors
    /// [`ServiceError::Log`] for a description that cannot be read.
    pub(crate) fn fleets(&self) -> Result<Vec<(FleetName, FleetSpec, FleetFolder)>, ServiceError> {
        let fleets = self.manifest(|manifest| manifest.fleets.clone());
        let read = |entry: ManifestEntry| {
            let (name, spec) = fleet_record::decode(&entry.description)?;
            Ok((name.clone(), spec, self.folder(entry.fleet, name)))
        };
        fleets.into_iter().map(read).collect()
    }

    /// Adds a fleet to the list and creates its folders.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn add(
        &self,
        name: &FleetName,
        spec: &FleetSpec,
    ) -> Result<FleetFolder, ServiceError> {
        let id = u128::from(random()?) << 64 | u128::from(random()?);
        let folder = self.folder(self.place(name, id)?, name.clone());
        self.clear_place(&folder)?;
        self.create_folders(&folder)?;
        self.enlist(folder.identity.clone(), fleet_record::encode(name, spec))?;
        Ok(folder)
    }

    /// Where a fleet is stored: in the folder of the listed fleet of its name, otherwise in one of
    /// its name, or of its id if that is the folder of a fleet that was renamed. The `+` before the
    /// id is in no name of a fleet.
    fn place(&self, name: &FleetName, id: u128) -> Result<FleetIdentity, ServiceError> {
        self.manifest(|manifest| {
            let mut folder = name.as_str().to_owned();
            for ManifestEntry { fleet, description } in &manifest.fleets {
                if fleet_record::decode(description)?.0 == *name {
                    folder.clone_from(&fleet.name);
                    break;
                }
                if fleet.name == name.as_str() {
                    folder = format!("+{id:032x}");
                }
            }
            Ok(FleetIdentity::new(id, &folder)?)
        })
    }

    /// Confirms that a copy that began as a copy of the fleet `name` may be installed: no change of
    /// the list since then requires another place.
    ///
    /// # Errors
    /// [`ServiceError::CopyMoved`], [`ServiceError::Log`].
    pub(crate) fn check_place(
        &self,
        name: &FleetName,
        copy: &FleetFolder,
    ) -> Result<(), ServiceError> {
        let is_elsewhere = self
            .fleets()?
            .iter()
            .any(|(other, _, folder)| folder.identity.id == copy.identity.id && other != name);
        if is_elsewhere || self.place(name, copy.identity.id)? != copy.identity {
            return Err(ServiceError::CopyMoved);
        }
        Ok(())
    }

    /// Gives listed fleets, found by their ids, new names, all of them or none. Their folders keep
    /// their names. No fleet without an id in `names` may run under one of these names.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn rename_fleets(
        &self,
        names: &BTreeMap<u128, FleetName>,
    ) -> Result<(), ServiceError> {
        self.change(|manifest| {
            for entry in &mut manifest.fleets {
                if let Some(name) = names.get(&entry.fleet.id) {
                    let (_, spec) = fleet_record::decode(&entry.description)?;
                    entry.description = fleet_record::encode(name, &spec);
                }
            }
            // Another entry of such a name is left of a creation or a removal that failed.
            let is_stale = |entry: &ManifestEntry| {
                let name = fleet_record::decode(&entry.description).map(|(name, _)| name);
                !names.contains_key(&entry.fleet.id)
                    && name.is_ok_and(|name| names.values().any(|new| *new == name))
            };
            manifest.fleets.retain(|entry| !is_stale(entry));
            Ok(())
        })
    }

    fn create_folders(&self, folder: &FleetFolder) -> Result<(), ServiceError> {
        create_log(&*folder.storage, &folder.log())?;
        let path = folder.checkpoint();
        let created = folder.storage.create_dir(&path);
        created.map_err(|source| self.failed("create", &path, source))
    }

    /// Adds a fleet to the list, in place of an entry of the same name.
    fn enlist(&self, fleet: FleetIdentity, description: Vec<u8>) -> Result<(), ServiceError> {
        let entry = ManifestEntry { fleet, description };
        self.change(|manifest| {
            // A creation that failed on a full disk may have left an entry.
            manifest.fleets.retain(|other| other.fleet.name != entry.fleet.name);
            manifest.fleets.push(entry);
            Ok(())
        })
    }

    /// Begins a copy of another server's fleet, and removes an incomplete earlier copy. The
    /// complete copy replaces the local folder of that name, which is renamed with the suffix
    /// `aside`, or removed if `aside` is `None`; the copy then keeps its history.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn begin_copy(
        &self,
        name: &FleetName,
        spec: &FleetSpec,
        id: u128,
        aside: Option<String>,
    ) -> Result<FleetFolder, ServiceError> {
        let folder = self.folder(self.place(name, id)?, name.clone());
        let folder = FleetFolder { is_copying: true, ..folder };
        // Write the list first: fleet folders without a list are treated as damage, and the copy
        // is listed last.
        if Manifest::load(&*self.0.storage)?.is_none() {
            self.change(|_| Ok(()))?;
        }
        // Finish an earlier completion that failed.
        self.settle_copy(&folder.identity.name)?;
        self.remove_files(&folder)?;
        self.create_folders(&folder)?;
        let record = CopyRecord { id, description: fleet_record::encode(name, spec), aside };
        record.store(&*folder.storage, &folder.root())?;
        Ok(folder)
    }

    /// Replaces the fleet of the same name, which must no longer be in use, with a complete, synced
    /// copy. Returns the folder of the copy.
    ///
    /// # Errors
    /// [`ServiceError::Log`]. If the first rename has succeeded, the next start completes the
    /// replacement.
    pub(crate) fn complete_copy(&self, copy: &FleetFolder) -> Result<FleetFolder, ServiceError> {
        let place = &copy.identity.name;
        self.rename(&copy.root(), &beside(place, COPIED))?;
        self.settle_copy(place)?;
        Ok(self.folder(copy.identity.clone(), copy.name.get()))
    }

    /// Installs `fleets/NAME.copied`, if it exists, as the folder of the fleet.
    fn settle_copy(&self, name: &str) -> Result<(), ServiceError> {
        let storage = &*self.0.storage;
        let (copied, place) = (beside(name, COPIED), format!("fleets/{name}"));
        if let Some(record) = CopyRecord::load(storage, &copied)? {
            let (fleet, _) = fleet_record::decode(&record.description)?;
            let replaced = self.folder(record.identity(name)?, fleet);
            let listed_id = self.manifest(|list| {
                let found = list.fleets.iter().find(|entry| entry.fleet.name == name);
                found.map(|entry| entry.fleet.id)
            });
            let aside = match (&record.aside, listed_id) {
                (None, None) if replaced.has_content()? => Some("unlisted"),
                (None, Some(id)) if id != record.id => Some("replaced"),
                (aside, _) => aside.as_deref(),
            };
            let exists = self.folders()?.iter().any(|folder| folder == name);
            match aside {
                Some(aside) if exists => {
                    let to = self.free_name(&place, aside);
                    self.rename(&place, &to)?;
                    let fleet = &replaced.name;
                    warn!(%fleet, to = storage.display(&to), "a fleet is set aside");
                }
                Some(_) => {}
                None => {
                    let history = format!("{copied}/history");
                    let is_kept = storage.list(&history).is_err()
                        && storage.list(&replaced.history()).is_ok();
                    if is_kept {
                        self.rename(&replaced.history(), &history)?;
                    }
                    // Repeated after a crash that interrupted the removal.
                    self.remove_files(&replaced)?;
                }
            }
            self.rename(&copied, &place)?;
        }
        self.settle_place(name)
    }

    /// Adds an installed copy to the list of fleets, if it is not there yet, and removes its
    /// record.
    fn settle_place(&self, name: &str) -> Result<(), ServiceError> {
        let (storage, place) = (&*self.0.storage, format!("fleets/{name}"));
        let Some(record) = CopyRecord::load(storage, &place)? else { return Ok(()) };
        let (mut fleet, spec) = fleet_record::decode(&record.description)?;
        let listed = self.fleets()?;
        let here = listed.iter().find(|(.., folder)| folder.identity.name == name);
        if let Some((now, ..)) = here.filter(|(.., folder)| folder.identity.id == record.id) {
            // The fleet may have been renamed after its copy began.
            fleet = now.clone();
        } else if listed.iter().any(|(other, _, folder)| {
            let is_elsewhere = folder.identity.name != name;
            is_elsewhere && (folder.identity.id == record.id || *other == fleet)
        }) {
            let to = self.free_name(&place, "unlisted");
            self.rename(&place, &to)?;
            warn!(%fleet, to = storage.display(&to), "an older copy is set aside");
            return Ok(());
        }
        self.enlist(record.identity(name)?, fleet_record::encode(&fleet, &spec))?;
        CopyRecord::remove(storage, &place)?;
        Ok(())
    }

    /// The names of all folders of fleets.
    fn folders(&self) -> Result<Vec<String>, ServiceError> {
        match self.0.storage.folders("fleets") {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
            folders => folders.map_err(|source| self.failed("list", "fleets", source)),
        }
    }

    /// Completes or removes the copies of the last run.
    fn settle_copies(&self) -> Result<(), ServiceError> {
        for folder in self.folders()? {
            match folder.split_once('.') {
                None => self.settle_place(&folder)?,
                Some((name, COPIED)) => self.settle_copy(name)?,
                Some((_, COPYING)) => {
                    let path = format!("fleets/{folder}");
                    let removed = self.0.storage.remove_dir(&path);
                    removed.map_err(|source| self.failed("remove", &path, source))?;
                }
                Some(_) => {}
            }
        }
        Ok(())
    }

    /// Clears the path for the folder of a new fleet. A folder found there is not in the list: the
    /// server crashed while it created a fleet of this name, or the list is older than the folder.
    fn clear_place(&self, folder: &FleetFolder) -> Result<(), ServiceError> {
        if !folder.has_content()? {
            return self.remove_files(folder);
        }
        let to = self.set_aside(folder, "unlisted")?;
        warn!(fleet = %folder.name, to, "files that the list of fleets lacks are set aside");
        Ok(())
    }

    /// Removes the fleet in this folder from the list. After an error the list is as before.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn unlist(&self, folder: &FleetFolder) -> Result<(), ServiceError> {
        self.change(|manifest| {
            manifest.fleets.retain(|entry| entry.fleet.name != folder.identity.name);
            Ok(())
        })
    }

    /// Gives the folder of a fleet another name, `NAME.SUFFIX`, and removes the fleet from the
    /// list. Nothing is deleted. Returns the new name.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn set_aside(
        &self,
        folder: &FleetFolder,
        suffix: &str,
    ) -> Result<String, ServiceError> {
        let from = folder.root();
        let to = self.free_name(&from, suffix);
        self.rename(&from, &to)?;
        self.unlist(folder)?;
        Ok(folder.storage.display(&to))
    }

    /// An unused folder name: `PATH.SUFFIX`, or `PATH.SUFFIX.N` if that exists.
    fn free_name(&self, path: &str, suffix: &str) -> String {
        let mut to = format!("{path}.{suffix}");
        for number in 2.. {
            // If listing the folder fails, the name is free.
            if self.0.storage.list(&to).is_err() {
                break;
            }
            to = format!("{path}.{suffix}.{number}");
        }
        to
    }

    fn rename(&self, from: &str, to: &str) -> Result<(), ServiceError> {
        let renamed = self.0.storage.rename_dir(from, to);
        renamed.map_err(|source| self.failed("rename", from, source))
    }

    /// Whether the log folder of a listed fleet exists. It is missing after a crash between
    /// [`Self::set_aside`]'s rename and its change of the list.
    pub(crate) fn has_files(&self, folder: &FleetFolder) -> bool {
        folder.storage.list(&folder.log()).is_ok()
    }

    /// When the copy with this identity was last known to be current in the last run, Unix
    /// milliseconds.
    pub(crate) fn current_ms(&self, id: u128) -> Option<i64> {
        self.0.current.0.get(&id).copied()
    }

    /// Stores when copies were last known to be current.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub(crate) fn record_current(&self, record: &FollowRecord) -> Result<(), ServiceError> {
        // Skip this write while another is in progress.
        let Ok(_recording) = self.0.recording.try_lock() else { return Ok(()) };
        Ok(record.store(&*self.0.storage)?)
    }

    /// The stored replication role.
    pub(crate) fn role(&self) -> RoleRecord {
        self.0.role.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes the stored replication role durably.
    ///
    /// # Errors
    /// [`ServiceError::Log`]. The role in memory is then unchanged, and the next call writes the
    /// file again.
    pub(crate) fn change_role(
        &self,
        change: impl FnOnce(&mut RoleRecord),
    ) -> Result<(), ServiceError> {
        // Readers do not wait for the disk.
        let mut differs = self.0.changing_role.lock().unwrap_or_else(PoisonError::into_inner);
        let role = self.role();
        let mut changed = role.clone();
        change(&mut changed);
        if changed != role || *differs {
            *differs = true;
            changed.store(&*self.0.storage)?;
            *differs = false;
            *self.0.role.lock().unwrap_or_else(PoisonError::into_inner) = changed;
        }
        Ok(())
    }

    /// The number of this server, drawn at random and stored at the first call.
    ///
    /// # Errors
    /// [`ServiceError::Io`], [`ServiceError::Log`].
    pub(crate) fn server_id(&self) -> Result<u64, ServiceError> {
        if self.role().server_id == 0 {
            let id = random()?.max(1);
            self.change_role(|role| {
                if role.server_id == 0 {
                    role.server_id = id;
                }
            })?;
        }
        Ok(self.role().server_id)
    }

    fn folder(&self, identity: FleetIdentity, name: FleetName) -> FleetFolder {
        FleetFolder::new(self.0.storage.clone(), identity, name)
    }

    /// Removes the files of a fleet that is not in the list.
    ///
    /// # Errors
    /// [`ServiceError::Log`]; the files then remain, and the next start warns of them.
    pub(crate) fn remove_files(&self, folder: &FleetFolder) -> Result<(), ServiceError> {
        let root = folder.root();
        let removed = folder.storage.remove_dir(&root);
        removed.map_err(|source| self.failed("remove", &root, source))
    }

    fn failed(&self, operation: &'static str, path: &str, source: std::io::Error) -> ServiceError {
        LogError::Storage { operation, file: self.0.storage.display(path), source }.into()
    }

    fn manifest<T>(&self, use_list: impl FnOnce(&mut Manifest) -> T) -> T {
        use_list(&mut self.0.manifest.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Changes the list on disk, then in memory.
    fn change(
        &self,
        change: impl FnOnce(&mut Manifest) -> Result<(), ServiceError>,
    ) -> Result<(), ServiceError> {
        self.manifest(|manifest| {
            let mut changed = manifest.clone();
            change(&mut changed)?;
            changed.store(&*self.0.storage)?;
            *manifest = changed;
            Ok(())
        })
    }
}

/// The path `fleets/NAME.SUFFIX`.
fn beside(name: &str, suffix: &str) -> String {
    format!("fleets/{name}.{suffix}")
}

/// Fails if `fleets/` has files but the list of fleets is missing, because a server with a new list
/// would not use these fleets.
fn check_list(folder: &Path) -> Result<(), ServiceError> {
    let (list, fleets) = (folder.join("fleets.manifest"), folder.join("fleets"));
    let has_fleets = std::fs::read_dir(fleets).is_ok_and(|mut entries| entries.next().is_some());
    if list.exists() || !has_fleets {
        return Ok(());
    }
    let reason = "it is missing, but `fleets/` has files".to_owned();
    Err(LogError::Damaged { file: list.display().to_string(), offset: 0, reason }.into())
}

/// The paths below `fleets/` that are not in the list, for messages; empty if `fleets/` cannot be
/// read.
pub(super) fn unlisted(folder: &Path, manifest: &Manifest) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(folder.join("fleets")) else { return Vec::new() };
    let is_listed = |name: &str| manifest.fleets.iter().any(|entry| entry.fleet.name == name);
    let mut paths: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| !is_listed(&entry.file_name().to_string_lossy()))
        .map(|entry| entry.path().display().to_string())
        .collect();
    paths.sort_unstable();
    paths
}

/// A random number from the operating system.
pub(crate) fn random() -> Result<u64, ServiceError> {
    getrandom::u64().map_err(|error| ServiceError::Io {
        what: "drawing a random number".into(),
        source: std::io::Error::other(error),
    })
}

impl fmt::Debug for DataFolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataFolder").field("storage", &self.0.storage).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use shoal_engine::{Clock, Space};

    use super::*;
    use crate::cycle::FleetKind;

    fn spec() -> FleetSpec {
        FleetSpec {
            kind: FleetKind::Numeric,
            space: Space::geographic(),
            clock: Clock::Event,
            ttl_ms: None,
            objects_max: 9,
            durability: None,
            event_clock_lead_ms: None,
        }
    }

    fn folders(root: &Path) -> Vec<String> {
        FileStorage::new(root).folders("fleets").unwrap()
    }

    #[test]
    fn a_start_completes_or_removes_copies() {
        let root = tempfile::tempdir().unwrap();
        let (bus, tram) = (FleetName::new("name", "bus"), FleetName::new("name", "tram"));
        let (bus, tram) = (bus.unwrap(), tram.unwrap());
        // The first copy of an empty follower is not complete.
        let data = DataFolder::open(root.path()).unwrap();
        data.begin_copy(&bus, &spec(), 5, None).unwrap();
        drop(data);
        let data = DataFolder::open(root.path()).unwrap();
        assert_eq!((folders(root.path()).len(), data.fleets().unwrap().len()), (0, 0));
        // It is complete; a crash has left a part of the folder that it replaces.
        let copy = data.begin_copy(&bus, &spec(), 5, None).unwrap();
        data.complete_copy(&copy).unwrap();
        data.begin_copy(&bus, &spec(), 5, None).unwrap();
        drop(data);
        let fleets = root.path().join("fleets");
        fs::write(fleets.join("bus/checkpoint/a"), "").unwrap();
        fs::remove_dir_all(fleets.join("bus/log")).unwrap();
        fs::rename(fleets.join("bus.copying"), fleets.join("bus.copied")).unwrap();
        let data = DataFolder::open(root.path()).unwrap();
        assert_eq!(folders(root.path()), ["bus"]);
        assert_eq!(data.fleets().unwrap()[0].2.identity.id, 5);
        // A fleet of another identity, and a folder that the list lacks, are set aside.
        fs::write(fleets.join("bus/log/a"), "").unwrap();
        let copy = data.begin_copy(&bus, &spec(), 6, None).unwrap();
        data.complete_copy(&copy).unwrap();
        fs::create_dir_all(fleets.join("tram/log")).unwrap();
        fs::write(fleets.join("tram/log/a"), "").unwrap();
        let copy = data.begin_copy(&tram, &spec(), 7, None).unwrap();
        data.complete_copy(&copy).unwrap();
        assert_eq!(folders(root.path()), ["bus", "bus.replaced", "tram", "tram.unlisted"]);
        let ids = data.fleets().unwrap().into_iter().map(|(.., folder)| folder.identity.id);
        assert_eq!(ids.collect::<Vec<_>>(), [6, 7]);
    }

    fn listed(data: &DataFolder) -> Vec<(String, u128, String)> {
        let of = |(name, _, folder): (FleetName, FleetSpec, FleetFolder)| {
            (name.as_str().to_owned(), folder.identity.id, folder.identity.name)
        };
        data.fleets().unwrap().into_iter().map(of).collect()
    }

    #[test]
    fn renamed_fleets_keep_their_folders_and_no_name_is_listed_twice() {
        let root = tempfile::tempdir().unwrap();
        let name = |name: &str| FleetName::new("name", name).unwrap();
        let entry = |name: &str, id: u128, folder: &str| (name.to_owned(), id, folder.to_owned());
        let data = DataFolder::open(root.path()).unwrap();
        let bus = data.add(&name("bus"), &spec()).unwrap().identity.id;
        let tram = data.add(&name("tram"), &spec()).unwrap().identity.id;
        // They exchange their names.
        data.rename_fleets(&[(bus, name("tram")), (tram, name("bus"))].into()).unwrap();
        assert_eq!(listed(&data), [entry("tram", bus, "bus"), entry("bus", tram, "tram")]);
        // An entry of a fleet that was not created does not keep its name.
        let folder = data.add(&name("van"), &spec()).unwrap();
        data.rename_fleets(&[(bus, name("van"))].into()).unwrap();
        assert_eq!(listed(&data), [entry("van", bus, "bus"), entry("bus", tram, "tram")]);
        data.remove_files(&folder).unwrap();
        // A new fleet of the name of a folder in use has another folder, also as a copy.
        let folder = data.add(&name("tram"), &spec()).unwrap();
        let id = folder.identity.id;
        assert_eq!(folder.identity.name, format!("+{id:032x}"));
        data.unlist(&folder).unwrap();
        data.remove_files(&folder).unwrap();
        let copy = data.begin_copy(&name("tram"), &spec(), 9, None).unwrap();
        data.check_place(&name("tram"), &copy).unwrap();
        data.complete_copy(&copy).unwrap();
        let of_copy = format!("+{:032x}", 9);
        let expected = [("van", bus, "bus"), ("bus", tram, "tram"), ("tram", 9, &of_copy)];
        let expected = expected.map(|(name, id, folder)| entry(name, id, folder));
        assert_eq!(listed(&data), expected);
        // A copy that began before a change of names is not installed.
        let copy = data.begin_copy(&name("tram"), &spec(), 9, None).unwrap();
        data.rename_fleets(&[(9, name("boat"))].into()).unwrap();
        data.check_place(&name("tram"), &copy).unwrap_err();
        data.check_place(&name("boat"), &copy).unwrap();
        // If it was already complete, the fleet keeps its new name.
        data.complete_copy(&copy).unwrap();
        assert_eq!(listed(&data)[2], entry("boat", 9, &of_copy));
        // The record of an installed copy remains, and another fleet gets the name in it: the folder
        // and its fleet stay.
        let description = fleet_record::encode(&name("boat"), &spec());
        let record = CopyRecord { id: 9, description, aside: None };
        let storage = FileStorage::new(root.path());
        record.store(&storage, &format!("fleets/{of_copy}")).unwrap();
        data.rename_fleets(&[(9, name("ship")), (tram, name("boat"))].into()).unwrap();
        drop(data);
        let data = DataFolder::open(root.path()).unwrap();
        assert_eq!(listed(&data)[1..], [entry("boat", tram, "tram"), entry("ship", 9, &of_copy)]);
        data.rename_fleets(&[(9, name("boat")), (tram, name("bus"))].into()).unwrap();
        // A copy in another folder than its fleet has by now is set aside at the next start.
        drop(data);
        let (fleets, old) = (root.path().join("fleets"), FileStorage::new(root.path()));
        fs::create_dir_all(fleets.join("old.copied/log")).unwrap();
        let description = fleet_record::encode(&name("old"), &spec());
        let record = CopyRecord { id: 9, description, aside: None };
        record.store(&old, "fleets/old.copied").unwrap();
        let data = DataFolder::open(root.path()).unwrap();
        assert_eq!(listed(&data)[2], entry("boat", 9, &of_copy));
        assert_eq!(folders(root.path()), [&of_copy, "bus", "old.unlisted", "tram"]);
    }

    #[test]
    fn a_fleet_is_not_created_over_files_that_the_list_lacks() {
        let root = tempfile::tempdir().unwrap();
        let bus = FleetName::new("name", "bus").unwrap();
        let older = {
            let data = DataFolder::open(root.path()).unwrap();
            data.add(&FleetName::new("name", "tram").unwrap(), &spec()).unwrap();
            let older = fs::read(root.path().join("fleets.manifest")).unwrap();
            data.add(&bus, &spec()).unwrap();
            fs::write(root.path().join("fleets/bus/log/0000000000000001.segment"), "x").unwrap();
            older
        };
        fs::write(root.path().join("fleets.manifest"), older).unwrap();
        let data = DataFolder::open(root.path()).unwrap();
        data.add(&bus, &spec()).unwrap();
        assert_eq!(folders(root.path()), ["bus", "bus.unlisted", "tram"]);
        // The folder of a fleet without cycles is removed, not set aside.
        let folder = data.fleets().unwrap().into_iter().find(|(name, ..)| *name == bus).unwrap().2;
        data.unlist(&folder).unwrap();
        data.add(&bus, &spec()).unwrap();
        assert_eq!(folders(root.path()), ["bus", "bus.unlisted", "tram"]);
    }
}
