//! Writes a checkpoint section by section; it exists once it is finished.
//!
//! The writer holds one buffer, never the state. An unfinished checkpoint has a temporary name and
//! is removed.

use std::sync::Arc;

use super::checkpoint_files::{CheckpointFile, remove_old};
use super::checkpoint_header::CheckpointHeader;
use super::producer_table::{ProducerState, encode_producer};
use super::section::{END, KIND_MIN, PRODUCERS, SectionHeader, TERMS};
use crate::error::LogError;
use crate::limits::{PAGE_BYTES, SECTION_ALIGN_BYTES, SECTION_BYTES_MAX};
use crate::new_file::NewFile;
use crate::storage::Storage;
use crate::terms::PastTerm;

/// Producers are written in sections of about this many bytes.
const PRODUCER_SECTION_BYTES: usize = 1 << 20;

/// A finished checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Its epoch.
    pub epoch: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The log must keep the cycles after this epoch. It is the epoch of the older checkpoint, or 0
    /// if there is only one.
    pub needed_epoch: u64,
}

/// Writes one checkpoint.
#[derive(Debug)]
pub struct CheckpointWriter {
    out: NewFile,
    folder: String,
    epoch: u64,
    sections: u64,
    /// CRC of all section headers.
    headers_crc: u32,
}

impl CheckpointWriter {
    /// Begins a checkpoint in `folder`, and writes header and past terms.
    ///
    /// The position in the header must be synced and must reach the epoch, because a checkpoint
    /// must not hold more than the log.
    ///
    /// # Errors
    /// [`LogError::Input`] if the position is before the epoch; [`LogError::Space`] if less than
    /// `reserve_bytes` would remain; [`LogError::Storage`]. None of them affects the log.
    pub fn create(
        storage: Arc<dyn Storage>,
        folder: &str,
        header: &CheckpointHeader,
        past_terms: &[PastTerm],
        reserve_bytes: u64,
    ) -> Result<Self, LogError> {
        if header.epoch > header.position.epoch {
            return Err(LogError::Input(format!(
                "a checkpoint of epoch {}, but the log is synced up to epoch {}",
                header.epoch, header.position.epoch
            )));
        }
        let out = NewFile::create(storage, CheckpointFile::new_path(folder), reserve_bytes)?;
        let folder = folder.to_owned();
        let mut writer = Self { out, folder, epoch: header.epoch, sections: 0, headers_crc: 0 };
        let mut page = [0; PAGE_BYTES];
        header.encode(&mut page);
        writer.out.append(&page)?;
        let mut terms = Vec::with_capacity(past_terms.len() * 16);
        for past in past_terms {
            terms.extend_from_slice(&past.term.to_le_bytes());
            terms.extend_from_slice(&past.last_epoch.to_le_bytes());
        }
        writer.append(TERMS, &terms)?;
        Ok(writer)
    }

    /// Appends the producers. [`super::decode_producers`] returns them in the same order.
    ///
    /// # Errors
    /// [`LogError::Input`] if a name or a list is too long; otherwise as [`Self::section`].
    pub fn producers(
        &mut self,
        producers: impl IntoIterator<Item = ProducerState>,
    ) -> Result<(), LogError> {
        let mut bytes = Vec::new();
        for producer in producers {
            encode_producer(&producer, &mut bytes)?;
            if bytes.len() >= PRODUCER_SECTION_BYTES {
                self.append(PRODUCERS, &bytes)?;
                bytes.clear();
            }
        }
        if bytes.is_empty() { Ok(()) } else { self.append(PRODUCERS, &bytes) }
    }

    /// Appends a section of the server: `kind` is at least 16.
    ///
    /// # Errors
    /// [`LogError::Input`] if kind or length are not allowed; [`LogError::Space`];
    /// [`LogError::Storage`].
    pub fn section(&mut self, kind: u16, bytes: &[u8]) -> Result<(), LogError> {
        if kind < KIND_MIN || bytes.len() > SECTION_BYTES_MAX {
            let length = bytes.len();
            return Err(LogError::Input(format!(
                "a section of kind {kind} with {length} bytes: kinds begin at {KIND_MIN}, the \
                 limit is {SECTION_BYTES_MAX} bytes"
            )));
        }
        self.append(kind, bytes)
    }

    fn append(&mut self, kind: u16, bytes: &[u8]) -> Result<(), LogError> {
        let crc = crc32c::crc32c(bytes);
        let (index, length) = (self.sections, bytes.len() as u64);
        let header = SectionHeader { kind, index, bytes: length, crc }.encode();
        self.headers_crc = crc32c::crc32c_append(self.headers_crc, &header);
        self.sections += 1;
        self.out.append(&header)?;
        self.out.append(bytes)?;
        let padding = bytes.len().next_multiple_of(SECTION_ALIGN_BYTES) - bytes.len();
        self.out.append(&[0; SECTION_ALIGN_BYTES][..padding])
    }

    /// Completes the checkpoint, makes it durable and removes all but the two newest.
    ///
    /// # Errors
    /// [`LogError::Space`], [`LogError::Storage`]; the earlier checkpoints remain.
    pub fn finish(mut self) -> Result<CheckpointSummary, LogError> {
        let mut end = [0; 16];
        end[..8].copy_from_slice(&self.sections.to_le_bytes());
        end[8..12].copy_from_slice(&self.headers_crc.to_le_bytes());
        self.append(END, &end)?;
        let bytes = self.out.sync()?;
        self.out.publish(&CheckpointFile(self.epoch).path(&self.folder))?;
        let needed_epoch = remove_old(&**self.out.storage(), &self.folder, self.epoch)?;
        Ok(CheckpointSummary { epoch: self.epoch, bytes, needed_epoch })
    }
}
