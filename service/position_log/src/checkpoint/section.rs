//! A section of a checkpoint: kind, length and checksum, then its bytes.
//!
//! Each header has the number of its section, and the last section has the checksum of all headers,
//! so that a missing, repeated or exchanged section is found.

use crate::limits::{SECTION_ALIGN_BYTES, SECTION_BYTES_MAX};
use crate::wire::{put, u16_at, u32_at, u64_at};

pub(super) const SECTION_HEADER_BYTES: usize = SECTION_ALIGN_BYTES;
const MAGIC: [u8; 8] = *b"\x89SHSEC\r\n";
const CRC_AT: usize = SECTION_HEADER_BYTES - 4;

/// Past terms.
pub(super) const TERMS: u16 = 1;
/// Producers.
pub(super) const PRODUCERS: u16 = 2;
/// The last section.
pub(super) const END: u16 = 3;
/// Sections of the server have this kind or a greater one.
pub(super) const KIND_MIN: u16 = 16;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SectionHeader {
    pub(super) kind: u16,
    /// Number of the section, from 0.
    pub(super) index: u64,
    pub(super) bytes: u64,
    pub(super) crc: u32,
}

impl SectionHeader {
    pub(super) fn encode(&self) -> [u8; SECTION_HEADER_BYTES] {
        let mut out = [0; SECTION_HEADER_BYTES];
        put(&mut out, 0, &MAGIC);
        put(&mut out, 8, &self.kind.to_le_bytes());
        put(&mut out, 12, &self.crc.to_le_bytes());
        put(&mut out, 16, &self.index.to_le_bytes());
        put(&mut out, 24, &self.bytes.to_le_bytes());
        let crc = crc32c::crc32c(&out[..CRC_AT]);
        put(&mut out, CRC_AT, &crc.to_le_bytes());
        out
    }

    pub(super) fn parse(bytes: &[u8]) -> Result<Self, &'static str> {
        if bytes.len() < SECTION_HEADER_BYTES || bytes[..8] != MAGIC {
            return Err("no section begins here");
        }
        if crc32c::crc32c(&bytes[..CRC_AT]) != u32_at(bytes, CRC_AT) {
            return Err("the checksum of the section header differs");
        }
        let header = Self {
            kind: u16_at(bytes, 8),
            crc: u32_at(bytes, 12),
            index: u64_at(bytes, 16),
            bytes: u64_at(bytes, 24),
        };
        if header.bytes > SECTION_BYTES_MAX as u64 {
            return Err("the length of the section is not valid");
        }
        Ok(header)
    }

    /// Bytes of the section with header and padding.
    pub(super) fn total_bytes(&self) -> u64 {
        SECTION_HEADER_BYTES as u64 + self.bytes.next_multiple_of(SECTION_ALIGN_BYTES as u64)
    }
}
