//! Reads a segment in large pieces; frames are views of the piece in memory.
//!
//! The buffer grows to a larger frame, never beyond the bytes of the file.

use std::io;

use crate::aligned_buffer::AlignedBuffer;
use crate::limits::{PAGE_BYTES, READ_BYTES};
use crate::storage::StorageFile;

/// A segment and the piece of it that is in memory.
#[derive(Debug)]
pub(crate) struct SegmentWindow {
    file: Box<dyn StorageFile>,
    buffer: AlignedBuffer,
    /// Offset of the piece in the file, whole pages.
    start: u64,
    /// Bytes of the piece.
    length: usize,
    /// Bytes of the file, whole pages.
    file_bytes: u64,
}

impl SegmentWindow {
    pub(crate) fn new(file: Box<dyn StorageFile>) -> io::Result<Self> {
        let file_bytes = file.length()? & !(PAGE_BYTES as u64 - 1);
        let piece = (READ_BYTES as u64).min(file_bytes) as usize;
        let buffer = AlignedBuffer::zeroed(piece);
        Ok(Self { file, buffer, start: 0, length: 0, file_bytes })
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Forgets what is in memory from this offset on.
    pub(crate) fn forget_from(&mut self, offset: u64) {
        let kept = offset.saturating_sub(self.start);
        self.length = self.length.min(usize::try_from(kept).unwrap_or(usize::MAX));
    }

    /// Whether these bytes are in memory.
    fn has(&self, offset: u64, bytes: usize) -> bool {
        offset >= self.start && offset + bytes as u64 <= self.start + self.length as u64
    }

    /// Takes whole pages from `offset` into memory; false if the file has less.
    pub(crate) fn load(&mut self, offset: u64, bytes: usize) -> io::Result<bool> {
        if offset.saturating_add(bytes as u64) > self.file_bytes {
            return Ok(false);
        }
        if self.has(offset, bytes) {
            return Ok(true);
        }
        // What is in memory from `offset` on moves to the front.
        let kept = self.start + self.length as u64;
        let kept = if offset >= self.start { kept.saturating_sub(offset) as usize } else { 0 };
        let from = self.length - kept;
        if bytes > self.buffer.len() {
            let mut grown = AlignedBuffer::zeroed(bytes);
            grown[..kept].copy_from_slice(&self.buffer[from..from + kept]);
            self.buffer = grown;
        } else {
            self.buffer.copy_within(from..from + kept, 0);
        }
        (self.start, self.length) = (offset, kept);
        let rest = self.file_bytes - offset - kept as u64;
        let wanted = ((self.buffer.len() - kept) as u64).min(rest) as usize;
        let piece = &mut self.buffer[kept..kept + wanted];
        let read = self.file.read_at(offset + kept as u64, piece)?;
        self.length = (kept + read) / PAGE_BYTES * PAGE_BYTES;
        Ok(self.has(offset, bytes))
    }

    /// Bytes that [`Self::load`] has taken into memory.
    pub(crate) fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let start = (offset - self.start) as usize;
        &self.buffer[start..start + bytes]
    }
}
