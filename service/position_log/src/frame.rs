//! The header of a frame: one group of cycles, or a mark (LOG.md, section 5).
//!
//! A frame is valid if [`FrameHeader::parse`] and [`FrameHeader::continues`] succeed and the
//! checksum of its payload matches.

use crate::limits::{FRAME_HEADER_BYTES, GROUP_BYTES_MAX, PAGE_BYTES, RECORD_ALIGN_BYTES};
use crate::segment::SegmentHeader;
use crate::wire::{i64_at, is_zero, page_align, put, u16_at, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"\x89SHFRM\r\n";
const CRC_AT: usize = FRAME_HEADER_BYTES - 4;

/// What a frame holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum FrameKind {
    /// A group of cycles.
    Cycles = 1,
    /// A mark: a writer has opened the log or begun a term. The frame states its term and epoch.
    Start = 2,
    /// A mark: the segment ends here and the next segment exists.
    Seal = 3,
    /// A mark: the writer was closed, and all frames before the mark are synced.
    Clean = 4,
}

impl FrameKind {
    /// Returns the kind with this number; `None` if it is unknown.
    pub(crate) fn of(number: u16) -> Option<Self> {
        [Self::Cycles, Self::Start, Self::Seal, Self::Clean]
            .into_iter()
            .find(|kind| *kind as u16 == number)
    }
}

/// The first bytes of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameHeader {
    /// Number of a [`FrameKind`].
    pub kind: u16,
    /// Cycles in the payload.
    pub cycles: u32,
    /// Segment that contains the frame.
    pub segment: u64,
    /// Salt of that segment.
    pub salt: u64,
    /// Number of the frame in the log, from 1, without holes.
    pub sequence: u64,
    /// All frames up to this sequence were synced when the frame was written.
    pub synced_sequence: u64,
    /// Term of the cycles.
    pub term: u64,
    /// Epoch of the first cycle; for marks, the last epoch before the mark.
    pub epoch_first: u64,
    /// Epoch of the last cycle; for marks, equal to `epoch_first`.
    pub epoch_last: u64,
    /// System clock of the last cycle, Unix milliseconds; for marks, of the last cycle before the
    /// mark.
    pub system_ms: i64,
    /// Bytes of the payload.
    pub payload_bytes: u32,
    /// CRC32C of the payload.
    pub payload_crc: u32,
    /// CRC of the frame header before this one.
    pub previous_crc: u32,
}

impl FrameHeader {
    /// Bytes of the frame, header and padding included.
    #[must_use]
    pub fn frame_bytes(&self) -> u64 {
        page_align(FRAME_HEADER_BYTES + self.payload_bytes as usize) as u64
    }

    /// Writes the header and returns its CRC.
    pub(crate) fn encode(&self, bytes: &mut [u8]) -> u32 {
        let bytes = &mut bytes[..FRAME_HEADER_BYTES];
        bytes.fill(0);
        put(bytes, 0, &MAGIC);
        put(bytes, 8, &self.kind.to_le_bytes());
        put(bytes, 12, &self.cycles.to_le_bytes());
        put(bytes, 16, &self.segment.to_le_bytes());
        put(bytes, 24, &self.salt.to_le_bytes());
        put(bytes, 32, &self.sequence.to_le_bytes());
        put(bytes, 40, &self.synced_sequence.to_le_bytes());
        put(bytes, 48, &self.term.to_le_bytes());
        put(bytes, 56, &self.epoch_first.to_le_bytes());
        put(bytes, 64, &self.epoch_last.to_le_bytes());
        put(bytes, 72, &self.system_ms.to_le_bytes());
        put(bytes, 80, &self.payload_bytes.to_le_bytes());
        put(bytes, 84, &self.payload_crc.to_le_bytes());
        put(bytes, 88, &self.previous_crc.to_le_bytes());
        let crc = crc32c::crc32c(&bytes[..CRC_AT]);
        put(bytes, CRC_AT, &crc.to_le_bytes());
        crc
    }

    /// Parses the header at the start of a page; returns it and its CRC.
    pub(crate) fn parse(page: &[u8]) -> Result<(Self, u32), &'static str> {
        let Some(bytes) = page.get(..FRAME_HEADER_BYTES) else {
            return Err("the file ends here");
        };
        if bytes[..8] != MAGIC {
            let is_empty = is_zero(bytes);
            return Err(if is_empty { "there is no frame" } else { "no frame begins here" });
        }
        let crc = u32_at(bytes, CRC_AT);
        if crc32c::crc32c(&bytes[..CRC_AT]) != crc {
            return Err("the checksum of the frame header differs");
        }
        let header = Self {
            kind: u16_at(bytes, 8),
            cycles: u32_at(bytes, 12),
            segment: u64_at(bytes, 16),
            salt: u64_at(bytes, 24),
            sequence: u64_at(bytes, 32),
            synced_sequence: u64_at(bytes, 40),
            term: u64_at(bytes, 48),
            epoch_first: u64_at(bytes, 56),
            epoch_last: u64_at(bytes, 64),
            system_ms: i64_at(bytes, 72),
            payload_bytes: u32_at(bytes, 80),
            payload_crc: u32_at(bytes, 84),
            previous_crc: u32_at(bytes, 88),
        };
        let payload_bytes = header.payload_bytes as usize;
        if payload_bytes > GROUP_BYTES_MAX || !payload_bytes.is_multiple_of(RECORD_ALIGN_BYTES) {
            return Err("the length of the frame is not valid");
        }
        if header.synced_sequence >= header.sequence {
            return Err("the sequences of the frame are not valid");
        }
        Ok((header, crc))
    }

    /// Whether the frame has the number and salt of this segment. Frames of an earlier use of the
    /// file have another salt.
    pub(crate) fn belongs_to(&self, segment: &SegmentHeader) -> bool {
        self.segment == segment.number && self.salt == segment.salt
    }

    /// Checks that the frame belongs to the segment and follows the frame of this sequence and CRC.
    pub(crate) fn continues(
        &self,
        segment: &SegmentHeader,
        sequence: u64,
        crc: u32,
        offset: u64,
    ) -> Result<(), &'static str> {
        if !self.belongs_to(segment) {
            return Err("the frame is of another segment or of an earlier use of the file");
        }
        if self.sequence != sequence.wrapping_add(1) {
            return Err("the sequence of the frame is not the next one");
        }
        if self.previous_crc != crc {
            return Err("the frame does not continue the one before");
        }
        let is_seal = self.kind == FrameKind::Seal as u16;
        let seal_bytes = if is_seal { 0 } else { PAGE_BYTES as u64 };
        if offset.saturating_add(self.frame_bytes() + seal_bytes) > segment.bytes {
            return Err("the frame leaves no page of its segment for the seal");
        }
        Ok(())
    }
}

// The padding of a frame is less than a page.
const _: () = assert!(FRAME_HEADER_BYTES < PAGE_BYTES);
