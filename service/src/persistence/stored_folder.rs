//! A data folder that no server is using, for the commands that show, check and repair its logs.
//!
//! Everything is read through a read-only storage. Only a repair writes.

use std::path::Path;
use std::sync::Arc;

use shoal_position_log::{
    DirectoryLock, FileStorage, FleetIdentity, LogError, LogOptions, Manifest, ManifestEntry,
    ReadMode, Recovered, RepairReport, Storage, checkpoint_epochs, list_segments, open_checkpoint,
    repair, segment_path,
};

use super::checkpoint::{self, CheckpointContent};
use super::data_folder::{FleetFolder, random, unlisted};
use super::fleet_record;
use super::log_content::{FrameVisitor, LogContent, ReadDepth};
use crate::cycle::{FleetName, FleetSpec};
use crate::error::ServiceError;

/// See the file's head.
pub struct StoredFolder {
    /// In the order of the list.
    pub fleets: Vec<StoredFleet>,
    /// Paths below `fleets/` that are not in the list of fleets.
    pub unlisted: Vec<String>,
    /// Released when the folder is dropped.
    _lock: DirectoryLock,
}

/// A fleet in a data folder.
pub struct StoredFleet {
    folder: FleetFolder,
    name: FleetName,
    description: Vec<u8>,
    /// The same files as in `folder`, but writable.
    writable: Arc<dyn Storage>,
}

/// A checkpoint, or what is wrong with it.
pub struct StoredCheckpoint {
    /// The epoch in the name of its file.
    pub epoch: u64,
    /// What it holds.
    pub content: Result<CheckpointContent, LogError>,
}

/// What a repair would do.
pub struct RepairPlan {
    /// The part of the log that would remain.
    pub kept: Recovered,
    /// Segments that would be set aside.
    pub set_aside: Vec<String>,
}

impl StoredFolder {
    /// Opens a folder for reading; other readers may have it open too. Returns `None` if it has no
    /// list of fleets.
    ///
    /// # Errors
    /// [`ServiceError::Log`], with [`LogError::Locked`] if a server or a repair is using the
    /// folder.
    pub fn open(folder: &Path) -> Result<Option<Self>, ServiceError> {
        Self::with_lock(folder, DirectoryLock::share)
    }

    /// As [`Self::open`], but excludes every other process.
    ///
    /// # Errors
    /// As [`Self::open`].
    pub fn open_to_repair(folder: &Path) -> Result<Option<Self>, ServiceError> {
        Self::with_lock(folder, |folder| DirectoryLock::acquire(folder, "shoal log repair"))
    }

    fn with_lock(
        folder: &Path,
        lock: impl FnOnce(&Path) -> Result<DirectoryLock, LogError>,
    ) -> Result<Option<Self>, ServiceError> {
        let read_only: Arc<dyn Storage> = Arc::new(FileStorage::read_only(folder));
        // Do not create a lock in a folder that is not a data folder.
        if Manifest::load(&*read_only)?.is_none() {
            return Ok(None);
        }
        let lock = lock(folder)?;
        let writable: Arc<dyn Storage> = Arc::new(FileStorage::new(folder));
        let manifest = Manifest::load(&*read_only)?.unwrap_or_default();
        let unlisted = unlisted(folder, &manifest);
        let stored = |entry: ManifestEntry| {
            let ManifestEntry { fleet, description } = entry;
            let name = match fleet_record::decode(&description) {
                Ok((name, _)) => name,
                // `StoredFleet::spec` returns the error.
                Err(_) => FleetName::new("name", fleet.name.trim_start_matches('+'))?,
            };
            let folder = FleetFolder::new(read_only.clone(), fleet, name.clone());
            Ok(StoredFleet { folder, name, description, writable: writable.clone() })
        };
        let fleets =
            manifest.fleets.into_iter().map(stored).collect::<Result<_, ServiceError>>()?;
        Ok(Some(Self { fleets, unlisted, _lock: lock }))
    }

    /// The fleet of this name, or all fleets.
    ///
    /// # Errors
    /// [`ServiceError::FleetUnknown`].
    pub fn select(&self, name: Option<&str>) -> Result<Vec<&StoredFleet>, ServiceError> {
        let is_selected =
            |fleet: &&StoredFleet| name.is_none_or(|name| fleet.name.as_str() == name);
        let fleets: Vec<&StoredFleet> = self.fleets.iter().filter(is_selected).collect();
        match name {
            Some(name) if fleets.is_empty() => Err(ServiceError::FleetUnknown(name.to_owned())),
            _ => Ok(fleets),
        }
    }
}

impl StoredFleet {
    /// Its name.
    pub fn name(&self) -> &str {
        self.name.as_str()
    }

    /// Its id, and the name of its folder.
    pub fn identity(&self) -> &FleetIdentity {
        &self.folder.identity
    }

    /// The properties that it was created with.
    ///
    /// # Errors
    /// [`LogError::Content`] in [`ServiceError::Log`].
    pub fn spec(&self) -> Result<FleetSpec, ServiceError> {
        fleet_record::decode(&self.description).map(|(_, spec)| spec)
    }

    /// Reads the whole log.
    ///
    /// # Errors
    /// Errors of the visitor. Damage of the log is not returned as an error but in
    /// [`LogContent::fault`].
    pub fn content(
        &self,
        depth: ReadDepth,
        visitor: &mut FrameVisitor<'_>,
    ) -> std::io::Result<LogContent> {
        LogContent::read(&self.folder, depth, visitor)
    }

    /// Reads all checkpoints, newest first.
    ///
    /// # Errors
    /// [`LogError::Storage`] if they cannot be listed.
    pub fn checkpoints(&self) -> Result<Vec<StoredCheckpoint>, LogError> {
        let FleetFolder { storage, identity, .. } = &self.folder;
        let folder = self.folder.checkpoint();
        let mut epochs = checkpoint_epochs(&**storage, &folder)?;
        epochs.reverse();
        let read = |epoch| {
            let content = open_checkpoint(storage, epoch, &folder, Some(identity))
                .and_then(|mut reader| checkpoint::content(&mut reader));
            StoredCheckpoint { epoch, content }
        };
        Ok(epochs.into_iter().map(read).collect())
    }

    /// The error of a log that does not continue the newest intact checkpoint, because its first or
    /// its last segments are missing; `None` if it does.
    pub fn gap(&self, content: &LogContent, checkpoints: &[StoredCheckpoint]) -> Option<LogError> {
        let folder = self.folder.storage.display(&self.folder.log());
        let whole = checkpoints.iter().find(|checkpoint| checkpoint.content.is_ok());
        let (needed, end) = (whole.map_or(0, |checkpoint| checkpoint.epoch), content.end.epoch);
        let first = content.segments.first().and_then(|segment| segment.header.as_ref().ok());
        match first.map_or(0, |header| header.epoch_before) {
            before if before > needed => {
                let first = before.saturating_add(1);
                Some(LogError::Gap { folder, needed, first })
            }
            _ if end < needed => Some(LogError::Behind { folder, end, needed }),
            _ => None,
        }
    }

    /// Reads the log as a server does when it starts; `checkpoint_epoch` is that of the newest
    /// intact checkpoint.
    ///
    /// # Errors
    /// Those with which a server refuses to start.
    pub fn recover(&self, checkpoint_epoch: u64) -> Result<Recovered, LogError> {
        self.read(checkpoint_epoch, ReadMode::Recover)
    }

    fn read(&self, after_epoch: u64, mode: ReadMode) -> Result<Recovered, LogError> {
        self.folder.read_log(after_epoch, mode)?.finish()
    }

    /// What [`Self::repair`] would do.
    ///
    /// # Errors
    /// Errors of reading the log, if no part of the log can be read.
    pub fn repair_plan(&self, checkpoint_epoch: u64) -> Result<RepairPlan, LogError> {
        let kept = self.read(checkpoint_epoch, ReadMode::Repair)?;
        let (storage, folder) = (&self.folder.storage, self.folder.log());
        let segments = list_segments(storage.clone(), &folder)?;
        let behind = segments.iter().map(|entry| entry.number).filter(|&n| n > kept.end().segment);
        let set_aside = behind.map(|number| storage.display(&segment_path(&folder, number)));
        Ok(RepairPlan { set_aside: set_aside.collect(), kept })
    }

    /// Truncates the log where damage begins, and sets later segments aside.
    ///
    /// # Errors
    /// [`ServiceError::Log`].
    pub fn repair(&self, checkpoint_epoch: u64) -> Result<RepairReport, ServiceError> {
        let (folder, identity) = (self.folder.log(), self.identity().clone());
        let mut options = LogOptions::new(identity, random()?);
        // If a segment is needed, it is as small as the others: the disk may be full.
        let segments = list_segments(self.folder.storage.clone(), &folder)?;
        let bytes = segments.iter().filter_map(|entry| Some(entry.header.as_ref().ok()?.bytes));
        options.segment_bytes = bytes.min().unwrap_or(options.segment_bytes);
        let writable = self.writable.clone();
        Ok(repair(writable, &folder, options, checkpoint_epoch, random()?)?)
    }
}
