//! The checkpoints in a folder: their names, which one is loaded, and which are kept.
//!
//! The newest valid checkpoint is loaded. A damaged one is reported and never loaded in part.

use std::sync::Arc;

use super::checkpoint_reader::CheckpointReader;
use crate::error::LogError;
use crate::fleet_identity::FleetIdentity;
use crate::limits::CHECKPOINTS_KEPT;
use crate::storage::Storage;

const SUFFIX: &str = ".checkpoint";
const DIGITS: usize = 16;

/// The file of the checkpoint of an epoch.
pub(super) struct CheckpointFile(pub(super) u64);

impl CheckpointFile {
    /// The name of an unfinished checkpoint.
    const NEW: &str = "checkpoint.new";

    /// The path of an unfinished checkpoint.
    pub(super) fn new_path(folder: &str) -> String {
        format!("{folder}/{}", Self::NEW)
    }

    pub(super) fn path(&self, folder: &str) -> String {
        format!("{folder}/{}", self.name())
    }

    fn name(&self) -> String {
        format!("{:0DIGITS$}{SUFFIX}", self.0)
    }

    fn parse(name: &str) -> Option<Self> {
        let digits = name.strip_suffix(SUFFIX)?;
        let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
        let file = digits.parse().ok().filter(|_| is_number).map(Self)?;
        (file.name() == name).then_some(file)
    }
}

/// A checkpoint that cannot be used.
#[derive(Debug)]
pub struct Rejected {
    /// The epoch in its file name.
    pub epoch: u64,
    /// Why.
    pub error: LogError,
}

impl Rejected {
    /// Gives the file another name, so that it does not count as one of the checkpoints kept.
    ///
    /// # Errors
    /// [`LogError::Storage`].
    pub fn set_aside(&self, storage: &dyn Storage, folder: &str) -> Result<(), LogError> {
        let path = CheckpointFile(self.epoch).path(folder);
        let failed = |operation| LogError::storage(operation, storage.display(&path));
        storage.rename(&path, &format!("{path}.damaged")).map_err(failed("rename"))?;
        storage.sync_dir(folder).map_err(failed("sync the folder of"))
    }
}

/// What [`open_newest`] found.
#[derive(Debug)]
pub struct Checkpoints {
    /// The newest valid checkpoint, at its first section.
    pub newest: Option<CheckpointReader>,
    /// The damaged checkpoints that are newer, newest first.
    pub rejected: Vec<Rejected>,
    /// The log must keep the cycles after this epoch. It is the epoch of the older checkpoint, or 0
    /// if there is only one.
    pub needed_epoch: u64,
}

/// Epochs of the checkpoints in a folder, ascending, whole or not.
///
/// # Errors
/// [`LogError::Storage`].
pub fn checkpoint_epochs(storage: &dyn Storage, folder: &str) -> Result<Vec<u64>, LogError> {
    let failed = LogError::storage("list", storage.display(folder));
    let names = storage.list(folder).map_err(failed)?;
    let mut epochs: Vec<u64> =
        names.iter().filter_map(|name| CheckpointFile::parse(name)).map(|file| file.0).collect();
    epochs.sort_unstable();
    Ok(epochs)
}

/// Opens the newest checkpoint in `folder` that is whole. Each candidate is read to its end once
/// before it is used, so that a fault found late cannot leave half a state.
///
/// # Errors
/// [`LogError::Version`] and [`LogError::Fleet`] of any candidate, because an older checkpoint is
/// no remedy; [`LogError::Storage`].
pub fn open_newest(
    storage: &Arc<dyn Storage>,
    folder: &str,
    fleet: Option<&FleetIdentity>,
) -> Result<Checkpoints, LogError> {
    let failed = LogError::storage("sync", storage.display(folder));
    storage.sync_dir(folder).map_err(failed)?;
    let epochs = checkpoint_epochs(&**storage, folder)?;
    let mut found =
        Checkpoints { newest: None, rejected: Vec::new(), needed_epoch: needed_epoch(&epochs) };
    for &epoch in epochs.iter().rev() {
        match open_whole(storage, epoch, folder, fleet) {
            Ok(reader) => {
                found.newest = Some(reader);
                break;
            }
            Err(error @ (LogError::Damaged { .. } | LogError::Content { .. })) => {
                found.rejected.push(Rejected { epoch, error });
            }
            Err(error) => return Err(error),
        }
    }
    Ok(found)
}

fn open_whole(
    storage: &Arc<dyn Storage>,
    epoch: u64,
    folder: &str,
    fleet: Option<&FleetIdentity>,
) -> Result<CheckpointReader, LogError> {
    let mut reader = open_checkpoint(storage, epoch, folder, fleet)?;
    while reader.next_section()?.is_some() {}
    open_checkpoint(storage, epoch, folder, fleet)
}

/// Opens the checkpoint of an epoch at its first section. Each section is verified when it is read.
///
/// # Errors
/// As [`CheckpointReader::open`]; [`LogError::Damaged`] if the file holds another epoch.
pub fn open_checkpoint(
    storage: &Arc<dyn Storage>,
    epoch: u64,
    folder: &str,
    fleet: Option<&FleetIdentity>,
) -> Result<CheckpointReader, LogError> {
    let path = CheckpointFile(epoch).path(folder);
    let reader = CheckpointReader::open(storage, &path, fleet)?;
    if reader.header().epoch != epoch {
        let reason = format!("the file holds epoch {}", reader.header().epoch);
        return Err(LogError::damaged(storage.display(&path), 0, reason));
    }
    Ok(reader)
}

/// Removes the checkpoints after `epoch`, which exist if the log was truncated, and all but the
/// [`CHECKPOINTS_KEPT`] newest of the others. Returns the epoch after which the log must keep
/// cycles.
pub(super) fn remove_old(storage: &dyn Storage, folder: &str, epoch: u64) -> Result<u64, LogError> {
    let epochs = checkpoint_epochs(storage, folder)?;
    let valid = epochs.iter().filter(|&&other| other <= epoch).count();
    let kept = epochs[valid.saturating_sub(CHECKPOINTS_KEPT)..valid].to_vec();
    for &other in epochs.iter().filter(|other| !kept.contains(other)) {
        let path = CheckpointFile(other).path(folder);
        let failed = LogError::storage("remove", storage.display(&path));
        storage.remove(&path).map_err(failed)?;
    }
    // Without this sync, a removed checkpoint with erased objects could return after a crash.
    let failed = LogError::storage("sync", storage.display(folder));
    storage.sync_dir(folder).map_err(failed)?;
    Ok(needed_epoch(&kept))
}

/// The epoch of the older of two checkpoints; 0 if there is only one, because recovery needs the
/// whole log if it is damaged.
fn needed_epoch(kept: &[u64]) -> u64 {
    kept.len().checked_sub(CHECKPOINTS_KEPT).map_or(0, |older| kept[older])
}
