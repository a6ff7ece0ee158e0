//! Reads a checkpoint section by section and verifies every byte that it returns.
//!
//! One section is in memory at a time. The file is whole once the last section was read.

use std::sync::Arc;

use super::checkpoint_header::{CHECKPOINT_VERSION, CheckpointHeader};
use super::section::{END, KIND_MIN, PRODUCERS, SECTION_HEADER_BYTES, SectionHeader, TERMS};
use crate::error::LogError;
use crate::fleet_identity::FleetIdentity;
use crate::limits::PAGE_BYTES;
use crate::segment_window::SegmentWindow;
use crate::storage::Storage;
use crate::terms::PastTerm;
use crate::wire::{u32_at, u64_at};

/// A part of a checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section<'a> {
    /// Producers, for [`super::decode_producers`].
    Producers(&'a [u8]),
    /// Data of the server.
    Server {
        /// The kind that the server gave it.
        kind: u16,
        /// Its bytes.
        bytes: &'a [u8],
    },
}

/// Reads one checkpoint.
#[derive(Debug)]
pub struct CheckpointReader {
    display: String,
    window: SegmentWindow,
    header: CheckpointHeader,
    past_terms: Vec<PastTerm>,
    /// Offset of the next section.
    offset: u64,
    sections: u64,
    headers_crc: u32,
    is_done: bool,
}

impl CheckpointReader {
    /// Opens a checkpoint and reads header and past terms.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Version`], [`LogError::Fleet`], [`LogError::Storage`].
    pub fn open(
        storage: &Arc<dyn Storage>,
        path: &str,
        fleet: Option<&FleetIdentity>,
    ) -> Result<Self, LogError> {
        let display = storage.display(path);
        let failed = |operation| LogError::storage(operation, display.clone());
        let file = storage.open(path).map_err(failed("open"))?;
        // The process that wrote it may have crashed between rename and sync.
        file.sync_data().map_err(failed("sync"))?;
        let mut window = SegmentWindow::new(file, u64::MAX).map_err(failed("read"))?;
        if !window.load(0, PAGE_BYTES).map_err(failed("read"))? {
            return Err(LogError::damaged(display, 0, "the file has less than one page"));
        }
        let header = CheckpointHeader::parse(window.bytes(0, PAGE_BYTES))
            .map_err(|fault| fault.of_file(display.clone(), CHECKPOINT_VERSION))?;
        header.fleet.check(fleet, &display, || format!("{:016}.checkpoint", header.epoch))?;
        let mut reader = Self {
            display,
            window,
            header,
            past_terms: Vec::new(),
            offset: PAGE_BYTES as u64,
            sections: 0,
            headers_crc: 0,
            is_done: false,
        };
        reader.read_terms()?;
        Ok(reader)
    }

    fn read_terms(&mut self) -> Result<(), LogError> {
        let section = self.load_section()?;
        let bytes = self.body(&section);
        if section.kind != TERMS || !bytes.len().is_multiple_of(16) {
            return Err(self.damaged("the first section must hold past terms"));
        }
        let terms = bytes.chunks_exact(16);
        self.past_terms = terms
            .map(|past| PastTerm { term: u64_at(past, 0), last_epoch: u64_at(past, 8) })
            .collect();
        self.offset += section.total_bytes();
        Ok(())
    }

    /// Which state the checkpoint holds.
    #[must_use]
    pub fn header(&self) -> &CheckpointHeader {
        &self.header
    }

    /// The past terms, oldest first.
    #[must_use]
    pub fn past_terms(&self) -> &[PastTerm] {
        &self.past_terms
    }

    /// Returns the bytes of the file and the bytes read so far.
    #[must_use]
    pub fn progress(&self) -> (u64, u64) {
        (self.window.file_bytes(), self.offset)
    }

    /// Returns the next section. Returns `None` after the last one; then the whole file has been
    /// verified.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Content`], [`LogError::Storage`].
    pub fn next_section(&mut self) -> Result<Option<Section<'_>>, LogError> {
        if self.is_done {
            return Ok(None);
        }
        let (sections, headers_crc) = (self.sections, self.headers_crc);
        let section = self.load_section()?;
        match section.kind {
            END => {
                let body = self.body(&section);
                let is_whole = body.len() == 16
                    && u64_at(body, 0) == sections
                    && u32_at(body, 8) == headers_crc;
                if !is_whole {
                    return Err(self.damaged("sections are missing"));
                }
                self.offset += section.total_bytes();
                self.is_done = true;
                Ok(None)
            }
            PRODUCERS => {
                self.offset += section.total_bytes();
                Ok(Some(Section::Producers(self.body_before(&section))))
            }
            kind if kind >= KIND_MIN => {
                self.offset += section.total_bytes();
                Ok(Some(Section::Server { kind, bytes: self.body_before(&section) }))
            }
            kind => {
                let reason = format!("unknown kind of section: {kind}");
                Err(LogError::content(self.display.clone(), self.offset, reason))
            }
        }
    }

    /// Loads and verifies the whole section at the offset.
    fn load_section(&mut self) -> Result<SectionHeader, LogError> {
        let display = self.display.clone();
        let failed = || LogError::storage("read", display.clone());
        let page = self.offset & !(PAGE_BYTES as u64 - 1);
        let within = (self.offset - page) as usize;
        if !self.window.load(page, PAGE_BYTES).map_err(failed())? {
            return Err(self.damaged("the file ends without its last section"));
        }
        let header_end = within + SECTION_HEADER_BYTES;
        let bytes = &self.window.bytes(page, header_end)[within..];
        let section = SectionHeader::parse(bytes).map_err(|reason| self.damaged(reason))?;
        let headers_crc = crc32c::crc32c_append(self.headers_crc, bytes);
        if section.index != self.sections {
            return Err(self.damaged("a section is not in its place"));
        }
        let end = header_end + section.bytes as usize;
        let pages = end.next_multiple_of(PAGE_BYTES);
        if !self.window.load(page, pages).map_err(failed())? {
            return Err(self.damaged("the section exceeds the file"));
        }
        if crc32c::crc32c(&self.window.bytes(page, end)[header_end..]) != section.crc {
            return Err(self.damaged("the checksum of the section differs"));
        }
        (self.sections, self.headers_crc) = (self.sections + 1, headers_crc);
        Ok(section)
    }

    /// Bytes of the section at the offset.
    fn body(&self, section: &SectionHeader) -> &[u8] {
        self.body_at(self.offset, section)
    }

    /// Bytes of the section that ends at the offset.
    fn body_before(&self, section: &SectionHeader) -> &[u8] {
        self.body_at(self.offset - section.total_bytes(), section)
    }

    fn body_at(&self, offset: u64, section: &SectionHeader) -> &[u8] {
        let start = SECTION_HEADER_BYTES as u64 + offset;
        self.window.bytes(start, section.bytes as usize)
    }

    fn damaged(&self, reason: &str) -> LogError {
        LogError::damaged(self.display.clone(), self.offset, reason)
    }
}
