//! Writes a checkpoint section by section; it exists once it is finished.
//!
//! The writer holds one buffer, never the state. A checkpoint that is not finished has another name
//! and is removed.

use std::io;
use std::sync::Arc;

use super::checkpoint_files::{CheckpointFile, remove_old};
use super::checkpoint_header::CheckpointHeader;
use super::producer_table::{ProducerState, encode_producer};
use super::section::{END, KIND_MIN, PRODUCERS, SectionHeader, TERMS};
use crate::aligned_buffer::AlignedBuffer;
use crate::error::LogError;
use crate::limits::{PAGE_BYTES, SECTION_ALIGN_BYTES, SECTION_BYTES_MAX, WRITE_BYTES};
use crate::storage::{Storage, StorageFile};
use crate::terms::PastTerm;
use crate::wire::page_align;

/// Producers are written in sections of about this many bytes.
const PRODUCER_SECTION_BYTES: usize = 1 << 20;

/// A finished checkpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CheckpointSummary {
    /// Its epoch.
    pub epoch: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The log must keep the cycles after this epoch: that of the older checkpoint, 0 if there is
    /// only one.
    pub needed_epoch: u64,
}

/// Writes one checkpoint.
#[derive(Debug)]
pub struct CheckpointWriter {
    storage: Arc<dyn Storage>,
    folder: String,
    epoch: u64,
    reserve_bytes: u64,
    file: Option<Box<dyn StorageFile>>,
    buffer: AlignedBuffer,
    /// Bytes of the buffer in use.
    filled: usize,
    /// Offset of the buffer in the file.
    offset: u64,
    sections: u64,
    /// CRC of all section headers.
    headers_crc: u32,
}

impl CheckpointWriter {
    /// Begins a checkpoint in `folder`, and writes header and past terms.
    ///
    /// The position in the header must be synced, and reach the epoch: a checkpoint must not hold
    /// more than the log.
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
        let mut writer = Self {
            storage,
            folder: folder.to_owned(),
            epoch: header.epoch,
            reserve_bytes,
            file: None,
            buffer: AlignedBuffer::zeroed(WRITE_BYTES),
            filled: PAGE_BYTES,
            offset: 0,
            sections: 0,
            headers_crc: 0,
        };
        let path = writer.new_path();
        let display = writer.storage.display(&path);
        match writer.storage.remove(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            removed => removed.map_err(LogError::storage("remove", &display))?,
        }
        let file = writer.storage.create(&path).map_err(LogError::storage("create", display))?;
        writer.file = Some(file);
        header.encode(&mut writer.buffer);
        let mut terms = Vec::with_capacity(past_terms.len() * 16);
        for past in past_terms {
            terms.extend_from_slice(&past.term.to_le_bytes());
            terms.extend_from_slice(&past.last_epoch.to_le_bytes());
        }
        writer.append(TERMS, &terms)?;
        Ok(writer)
    }

    /// Appends the producers, in the order that [`super::decode_producers`] returns them.
    ///
    /// # Errors
    /// [`LogError::Input`] if a name or a list is too long; as [`Self::section`].
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
        self.put(&header)?;
        self.put(bytes)?;
        let padding = bytes.len().next_multiple_of(SECTION_ALIGN_BYTES) - bytes.len();
        self.put(&[0; SECTION_ALIGN_BYTES][..padding])
    }

    fn put(&mut self, mut bytes: &[u8]) -> Result<(), LogError> {
        while !bytes.is_empty() {
            let count = bytes.len().min(self.buffer.len() - self.filled);
            let (now, later) = bytes.split_at(count);
            self.buffer[self.filled..self.filled + count].copy_from_slice(now);
            self.filled += count;
            bytes = later;
            if self.filled == self.buffer.len() {
                self.flush()?;
            }
        }
        Ok(())
    }

    /// Writes the buffer, padded to whole pages.
    fn flush(&mut self) -> Result<(), LogError> {
        let display = self.storage.display(&self.new_path());
        let end = page_align(self.filled);
        self.buffer[self.filled..end].fill(0);
        let free = self.storage.free_bytes();
        let free_bytes = free.map_err(LogError::storage("ask for the free space of", &display))?;
        let needed_bytes = self.reserve_bytes.saturating_add(end as u64);
        let no_space = LogError::Space { file: display.clone(), free_bytes, needed_bytes };
        if free_bytes < needed_bytes {
            return Err(no_space);
        }
        let Some(file) = &self.file else { return Ok(()) };
        match file.write_at(self.offset, &self.buffer[..end]) {
            Err(error) if error.kind() == io::ErrorKind::StorageFull => return Err(no_space),
            written => written.map_err(LogError::storage("write", display))?,
        }
        self.offset += end as u64;
        self.filled = 0;
        Ok(())
    }

    /// Completes the checkpoint, makes it durable and removes all but the two newest.
    ///
    /// # Errors
    /// [`LogError::Space`], [`LogError::Storage`]: the checkpoints before remain.
    pub fn finish(mut self) -> Result<CheckpointSummary, LogError> {
        let mut end = [0; 16];
        end[..8].copy_from_slice(&self.sections.to_le_bytes());
        end[8..12].copy_from_slice(&self.headers_crc.to_le_bytes());
        self.append(END, &end)?;
        if self.filled > 0 {
            self.flush()?;
        }
        let (from, to) = (self.new_path(), CheckpointFile(self.epoch).path(&self.folder));
        let display = self.storage.display(&from);
        let failed = |operation| LogError::storage(operation, display.clone());
        if let Some(file) = &self.file {
            file.sync_data().map_err(failed("sync"))?;
        }
        self.storage.rename(&from, &to).map_err(failed("rename"))?;
        self.file = None;
        self.storage.sync_dir(&self.folder).map_err(failed("sync the folder of"))?;
        let needed_epoch = remove_old(&*self.storage, &self.folder, self.epoch)?;
        Ok(CheckpointSummary { epoch: self.epoch, bytes: self.offset, needed_epoch })
    }

    fn new_path(&self) -> String {
        format!("{}/{}", self.folder, CheckpointFile::NEW)
    }
}

impl Drop for CheckpointWriter {
    fn drop(&mut self) {
        if self.file.take().is_some() {
            // Best effort: the next checkpoint removes what remains.
            let _ = self.storage.remove(&self.new_path());
        }
    }
}
