//! The segments of a log's folder with their headers.
//!
//! A header that is damaged or absent is an error only if a reader needs that segment. A header of
//! another fleet or version is always an error.

use std::sync::Arc;

use crate::aligned_buffer::AlignedBuffer;
use crate::error::{HeaderFault, LogError};
use crate::fleet_identity::FleetIdentity;
use crate::limits::PAGE_BYTES;
use crate::log_bounds::LogBounds;
use crate::position::SegmentInfo;
use crate::read_options::{ReadMode, ReadOptions};
use crate::segment::{LogFile, SEGMENT_VERSION, SegmentHeader};
use crate::segment_window::SegmentWindow;
use crate::storage::Storage;

/// A file with the name of a segment.
#[derive(Clone, Debug)]
pub struct SegmentEntry {
    /// The number in its name.
    pub number: u64,
    /// The header, or what is wrong with it.
    pub header: Result<SegmentHeader, String>,
}

/// The segments, ascending by number.
#[derive(Debug)]
pub(crate) struct SegmentList {
    pub(crate) storage: Arc<dyn Storage>,
    pub(crate) folder: String,
    pub(crate) entries: Vec<SegmentEntry>,
}

impl SegmentList {
    pub(crate) fn read(
        storage: Arc<dyn Storage>,
        folder: &str,
        options: &ReadOptions,
    ) -> Result<Self, LogError> {
        let mut list = Self { storage, folder: folder.to_owned(), entries: Vec::new() };
        if options.mode.is_synced() {
            let failed = LogError::storage("sync", list.display_folder());
            list.storage.sync_dir(folder).map_err(failed)?;
        }
        list.refresh(options)?;
        Ok(list)
    }

    /// Reads the headers of segments that were created since the last read.
    pub(crate) fn refresh(&mut self, options: &ReadOptions) -> Result<(), LogError> {
        let failed = LogError::storage("list", self.display_folder());
        let names = self.storage.list(&self.folder).map_err(failed)?;
        let mut numbers: Vec<u64> = names
            .iter()
            .filter_map(|name| match LogFile::parse(name) {
                Some(LogFile::Segment(number)) => Some(number),
                _ => None,
            })
            .collect();
        numbers.sort_unstable();
        let first = self.entries.first().and_then(|entry| entry.header.as_ref().ok());
        let mut fleet = options.fleet.clone().or(first.map(|header| header.fleet.clone()));
        let known = self.entries.last().map_or(0, |entry| entry.number);
        for number in numbers.into_iter().filter(|&number| number > known) {
            let header = self.read_header(number, options.mode, fleet.as_ref())?;
            fleet = fleet.or(header.as_ref().ok().map(|header| header.fleet.clone()));
            self.entries.push(SegmentEntry { number, header });
        }
        Ok(())
    }

    fn read_header(
        &self,
        number: u64,
        mode: ReadMode,
        fleet: Option<&FleetIdentity>,
    ) -> Result<Result<SegmentHeader, String>, LogError> {
        let failed = |operation| LogError::storage(operation, self.display(number));
        let path = LogFile::Segment(number).path(&self.folder);
        let file = self.storage.open(&path).map_err(failed("open"))?;
        if mode.is_synced() {
            file.sync_data().map_err(failed("sync"))?;
        }
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        let read = file.read_at(0, &mut page).map_err(failed("read"))?;
        let header = match SegmentHeader::parse(&page[..read]) {
            Ok(header) => header,
            Err(HeaderFault::Damaged(reason)) => return Ok(Err(reason.to_owned())),
            Err(HeaderFault::Version(found)) => {
                let (file, supported) = (self.display(number), SEGMENT_VERSION);
                return Err(LogError::Version { file, found, supported });
            }
        };
        let name = || LogFile::Segment(header.number).name();
        header.fleet.check(fleet, &self.display(number), name)?;
        if header.number != number {
            let name = LogFile::Segment(header.number).name();
            return Ok(Err(format!(
                "the file has the name of another segment: its header is that of {name}. If files \
                 were exchanged, give each the name in its header first"
            )));
        }
        Ok(Ok(header))
    }

    /// Fails if the log lacks the first segment that its bounds name.
    pub(crate) fn check(&self, bounds: Option<LogBounds>) -> Result<(), LogError> {
        let (file, epoch) = match bounds {
            None if self.entries.is_empty() => (self.display_folder(), None),
            // The log was written by a version without the bounds file.
            None => return Ok(()),
            Some(LogBounds { first_segment, durable_epoch }) => {
                let is_there = |entry: &SegmentEntry| entry.number == first_segment;
                if first_segment == 0 || self.entries.iter().any(is_there) {
                    return Ok(());
                }
                (self.display(first_segment), (durable_epoch > 0).then_some(durable_epoch))
            }
        };
        Err(LogError::Missing { file, epoch })
    }

    /// Index of the first segment to read; `None` if there are no segments.
    pub(crate) fn start(&self, options: &ReadOptions) -> Result<Option<usize>, LogError> {
        // Reading cannot begin at the segment that follows the epoch, because the start mark that
        // ends a term may be in the segment before it.
        let covers = |entry: &SegmentEntry| {
            entry.header.as_ref().is_ok_and(|header| header.epoch_before < options.after_epoch)
        };
        let first = match (self.entries.iter().rposition(covers), self.entries.first()) {
            (Some(index), _) => return Ok(Some(index)),
            (None, None) => return Ok(None),
            (None, Some(first)) => first,
        };
        match &first.header {
            Ok(header) if header.epoch_before == options.after_epoch => Ok(Some(0)),
            Ok(_) if options.mode == ReadMode::Inspect => Ok(Some(0)),
            Ok(header) => Err(LogError::Gap {
                folder: self.display_folder(),
                needed: options.after_epoch,
                first: header.epoch_before.saturating_add(1),
            }),
            Err(reason) => Err(LogError::Corrupt {
                file: self.display(first.number),
                offset: 0,
                reason: reason.clone(),
                epoch: options.after_epoch,
                lost: "all cycles of this segment are lost".into(),
            }),
        }
    }

    pub(crate) fn open_window(
        &self,
        entry: &SegmentEntry,
        piece_bytes: usize,
    ) -> Result<SegmentWindow, LogError> {
        let path = LogFile::Segment(entry.number).path(&self.folder);
        let failed = |operation| LogError::storage(operation, self.display(entry.number));
        let file = self.storage.open(&path).map_err(failed("open"))?;
        let bytes = entry.header.as_ref().map_or(0, |header| header.bytes);
        SegmentWindow::with_piece(file, bytes, piece_bytes).map_err(failed("read"))
    }

    /// The valid headers of the first `count` segments.
    pub(crate) fn infos(&self, count: usize) -> Vec<SegmentInfo> {
        let headers =
            self.entries.iter().take(count).filter_map(|entry| entry.header.as_ref().ok());
        headers.map(SegmentInfo::of).collect()
    }

    pub(crate) fn display(&self, number: u64) -> String {
        self.storage.display(&LogFile::Segment(number).path(&self.folder))
    }

    pub(crate) fn display_folder(&self) -> String {
        self.storage.display(&self.folder)
    }
}
