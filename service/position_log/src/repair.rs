//! Inspection of segments, and truncation of a damaged log on the operator's command.

use std::sync::Arc;

use crate::error::LogError;
use crate::log_reader::LogReader;
use crate::log_writer::{LogOptions, LogWriter};
use crate::position::Position;
use crate::read_options::{ReadMode, ReadOptions};
use crate::segment_list::{SegmentEntry, SegmentList};
use crate::segment_pool::SegmentPool;
use crate::storage::Storage;

/// The segments in a folder, ascending, each with its header or what is wrong with it.
///
/// # Errors
/// [`LogError::Fleet`] if they belong to different fleets; [`LogError::Version`];
/// [`LogError::Storage`].
pub fn list_segments(
    storage: Arc<dyn Storage>,
    folder: &str,
) -> Result<Vec<SegmentEntry>, LogError> {
    let options = ReadOptions { fleet: None, after_epoch: 0, mode: ReadMode::Inspect };
    Ok(SegmentList::read(storage, folder, &options)?.entries)
}

/// What a repair has done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RepairReport {
    /// Where the log ends now, before the mark of the repair.
    pub end: Position,
    /// Frame headers after the end that were erased.
    pub frames_erased: usize,
    /// Segments after the end, under their new names.
    pub set_aside: Vec<String>,
}

/// Truncates a log where its damage begins, and begins a new term. The cycles after the damage are
/// lost. A log without damage only gets the new term.
///
/// `checkpoint_epoch` is the epoch of the newest whole checkpoint, 0 without one: if the log ends
/// before it, the log continues from the checkpoint's epoch. No server may use the folder.
///
/// # Errors
/// As [`LogReader::open`] if no part of the log can be read; [`LogError::Storage`], after which the
/// repair can be repeated.
pub fn repair(
    storage: Arc<dyn Storage>,
    folder: &str,
    options: LogOptions,
    checkpoint_epoch: u64,
    fresh_term: u64,
) -> Result<RepairReport, LogError> {
    let fleet = Some(options.fleet.clone());
    let read = ReadOptions { fleet, after_epoch: checkpoint_epoch, mode: ReadMode::Repair };
    let mut recovered = LogReader::open(storage.clone(), folder, read)?.finish()?;
    let bytes = options.segment_bytes;
    let pool = SegmentPool::open(storage.clone(), folder, bytes, bytes)?;
    let mut set_aside = Vec::new();
    // In descending order, so that a crash leaves no hole.
    while let Some(number) = recovered.orphan_segments.pop() {
        set_aside.push(pool.set_aside(number)?);
    }
    let (end, frames_erased) = (recovered.end(), recovered.orphans.len());
    let epoch = end.epoch.max(checkpoint_epoch);
    LogWriter::open(storage, folder, options, recovered, epoch, fresh_term)?;
    Ok(RepairReport { end, frames_erased, set_aside })
}
