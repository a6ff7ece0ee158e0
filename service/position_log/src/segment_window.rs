//! Reads a segment in large pieces; frames are views of the piece in memory.
//!
//! The buffer grows if a frame is larger than a piece, but never beyond the size of the file. A
//! file that ends within a page is read as if zeros followed, because the padding of a frame may be
//! cut off.

use std::io;

use crate::aligned_buffer::AlignedBuffer;
use crate::limits::{PAGE_BYTES, READ_BYTES};
use crate::storage::StorageFile;

/// A segment, with one piece of its file in memory.
#[derive(Debug)]
pub(crate) struct SegmentWindow {
    file: Box<dyn StorageFile>,
    buffer: AlignedBuffer,
    /// Offset of the piece in the file, a multiple of the page size.
    start: u64,
    /// Bytes of the piece.
    length: usize,
    /// Bytes of the file that belong to the segment.
    end: u64,
    /// `end`, rounded up to whole pages.
    file_bytes: u64,
    /// Offset at which the read-ahead ends.
    read_to: u64,
}

impl SegmentWindow {
    /// Creates a window on a segment of `segment_bytes`. Its file may be shorter.
    pub(crate) fn new(file: Box<dyn StorageFile>, segment_bytes: u64) -> io::Result<Self> {
        Self::with_piece(file, segment_bytes, READ_BYTES)
    }

    /// As [`Self::new`], but reads pieces of `piece_bytes`, a multiple of the page size.
    pub(crate) fn with_piece(
        file: Box<dyn StorageFile>,
        segment_bytes: u64,
        piece_bytes: usize,
    ) -> io::Result<Self> {
        let end = file.length()?.min(segment_bytes);
        let file_bytes = end.next_multiple_of(PAGE_BYTES as u64);
        let piece = (piece_bytes as u64).min(file_bytes) as usize;
        let buffer = AlignedBuffer::zeroed(piece);
        Ok(Self { file, buffer, start: 0, length: 0, end, file_bytes, read_to: file_bytes })
    }

    /// Whether the file ends before this offset.
    pub(crate) fn ends_before(&self, offset: u64) -> bool {
        self.end < offset
    }

    pub(crate) fn file_bytes(&self) -> u64 {
        self.file_bytes
    }

    /// Limits the read-ahead to this offset, a multiple of the page size.
    pub(crate) fn read_to(&mut self, offset: u64) {
        self.read_to = offset.min(self.file_bytes);
    }

    /// Discards the bytes in memory from this offset on.
    pub(crate) fn forget_from(&mut self, offset: u64) {
        let kept = offset.saturating_sub(self.start);
        self.length = self.length.min(usize::try_from(kept).unwrap_or(usize::MAX));
    }

    /// Whether the `bytes` bytes at `offset` are in memory.
    fn has(&self, offset: u64, bytes: usize) -> bool {
        offset >= self.start && offset + bytes as u64 <= self.start + self.length as u64
    }

    /// Loads `bytes` bytes at `offset`, unless they are in memory. Returns false if the file is too
    /// short.
    pub(crate) fn load(&mut self, offset: u64, bytes: usize) -> io::Result<bool> {
        if offset.saturating_add(bytes as u64) > self.file_bytes {
            return Ok(false);
        }
        if self.has(offset, bytes) {
            return Ok(true);
        }
        // Bytes in memory from `offset` on move to the front of the buffer.
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
        let end = self.read_to.max(offset + bytes as u64);
        let rest = end - offset - kept as u64;
        let wanted = ((self.buffer.len() - kept) as u64).min(rest) as usize;
        let piece = &mut self.buffer[kept..kept + wanted];
        let read = self.file.read_at(offset + kept as u64, piece)?;
        let pages = read.next_multiple_of(PAGE_BYTES);
        piece[read..pages].fill(0);
        self.length = kept + pages;
        Ok(self.has(offset, bytes))
    }

    /// Returns bytes that [`Self::load`] has loaded.
    pub(crate) fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let start = (offset - self.start) as usize;
        &self.buffer[start..start + bytes]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::storage::{SimulatedDisk, Storage};

    #[test]
    fn memory_is_bounded_by_the_file() {
        let disk = SimulatedDisk::new(1);
        let mut bytes: Vec<u8> = (0..3 * PAGE_BYTES).map(|at| (at / PAGE_BYTES) as u8).collect();
        bytes.extend([9; 100]);
        disk.put("file", &bytes);
        let open = |bytes| SegmentWindow::new(disk.open("file").unwrap(), bytes).unwrap();
        let mut window = open(1 << 40);
        for bytes in [4 * PAGE_BYTES + 1, 1 << 30, usize::MAX] {
            assert!(!window.load(0, bytes).unwrap());
            assert!(!window.load(u64::MAX - 4095, bytes).unwrap());
        }
        assert_eq!(window.buffer.len(), 4 * PAGE_BYTES);
        let last = 3 * PAGE_BYTES as u64;
        assert!(window.load(last, PAGE_BYTES).unwrap());
        assert_eq!(window.bytes(last, 101), [&[9; 100][..], &[0]].concat());
        assert!(!open(2 * PAGE_BYTES as u64).load(2 * PAGE_BYTES as u64, 1).unwrap());
        for page in [2, 0, 1, 2, 0] {
            assert!(window.load((page * PAGE_BYTES) as u64, PAGE_BYTES).unwrap());
            let loaded = window.bytes((page * PAGE_BYTES) as u64, PAGE_BYTES);
            assert!(loaded.iter().all(|byte| usize::from(*byte) == page));
        }
    }
}
