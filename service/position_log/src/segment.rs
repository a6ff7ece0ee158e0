//! The header of a segment, and the names of the log's files (LOG.md, section 4).
//!
//! The header is the first page. It continues the frame chain of the segment before, so that a
//! missing, foreign or old file is found.

use crate::error::HeaderFault;
use crate::fleet_identity::{FleetIdentity, IDENTITY_BYTES};
use crate::limits::{PAGE_BYTES, SEGMENT_BYTES_MAX, SEGMENT_BYTES_MIN};
use crate::wire::{i64_at, put, u16_at, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"\x89SHSEG\r\n";
/// Major version of segments and frames.
pub(crate) const SEGMENT_VERSION: u16 = 1;
const IDENTITY_AT: usize = 88;
const CRC_AT: usize = PAGE_BYTES - 4;

/// The first page of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SegmentHeader {
    /// Number of the segment, from 1, without holes.
    pub number: u64,
    /// Bytes of the file.
    pub bytes: u64,
    /// Random number of this use of the file; its frames repeat it.
    pub salt: u64,
    /// Sequence of the segment's first frame.
    pub first_sequence: u64,
    /// All frames up to this sequence were synced before the segment was created.
    pub synced_sequence: u64,
    /// Term when the segment was created.
    pub term: u64,
    /// Last epoch before the segment.
    pub epoch_before: u64,
    /// System clock of the last cycle before the segment, Unix milliseconds.
    pub system_ms_before: i64,
    /// CRC of the last frame header before the segment; 0 in the first segment of a log.
    pub previous_crc: u32,
    /// The fleet.
    pub fleet: FleetIdentity,
}

impl SegmentHeader {
    /// Writes the header page.
    pub(crate) fn encode(&self, page: &mut [u8]) {
        let page = &mut page[..PAGE_BYTES];
        page.fill(0);
        put(page, 0, &MAGIC);
        put(page, 8, &SEGMENT_VERSION.to_le_bytes());
        put(page, 16, &self.number.to_le_bytes());
        put(page, 24, &self.bytes.to_le_bytes());
        put(page, 32, &self.salt.to_le_bytes());
        put(page, 40, &self.first_sequence.to_le_bytes());
        put(page, 48, &self.synced_sequence.to_le_bytes());
        put(page, 56, &self.term.to_le_bytes());
        put(page, 64, &self.epoch_before.to_le_bytes());
        put(page, 72, &self.system_ms_before.to_le_bytes());
        put(page, 80, &self.previous_crc.to_le_bytes());
        self.fleet.encode(page, IDENTITY_AT);
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        put(page, CRC_AT, &crc.to_le_bytes());
    }

    /// Reads the header page.
    pub(crate) fn parse(page: &[u8]) -> Result<Self, HeaderFault> {
        if page.len() < PAGE_BYTES {
            return Err(HeaderFault::Damaged("the file has less than one page"));
        }
        if page[..8] != MAGIC {
            return Err(HeaderFault::Damaged("it does not begin as a segment"));
        }
        if crc32c::crc32c(&page[..CRC_AT]) != u32_at(page, CRC_AT) {
            return Err(HeaderFault::Damaged("the checksum of the segment header differs"));
        }
        let version = u16_at(page, 8);
        if version != SEGMENT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        let header = Self {
            number: u64_at(page, 16),
            bytes: u64_at(page, 24),
            salt: u64_at(page, 32),
            first_sequence: u64_at(page, 40),
            synced_sequence: u64_at(page, 48),
            term: u64_at(page, 56),
            epoch_before: u64_at(page, 64),
            system_ms_before: i64_at(page, 72),
            previous_crc: u32_at(page, 80),
            fleet: FleetIdentity::parse(page, IDENTITY_AT)?,
        };
        if !header.bytes.is_multiple_of(PAGE_BYTES as u64)
            || !(SEGMENT_BYTES_MIN..=SEGMENT_BYTES_MAX).contains(&header.bytes)
        {
            return Err(HeaderFault::Damaged("the length in the segment header is not valid"));
        }
        if header.first_sequence == 0 || header.synced_sequence >= header.first_sequence {
            return Err(HeaderFault::Damaged("the sequences in the segment header are not valid"));
        }
        Ok(header)
    }
}

const _: () = assert!(IDENTITY_AT + IDENTITY_BYTES <= CRC_AT);

/// A file of a log's folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LogFile {
    /// A segment of this number.
    Segment(u64),
    /// A prepared file: of full length and synced. It may contain data of a former segment.
    Spare(u64),
    /// A file that is being prepared and is not complete.
    New(u64),
}

const SEGMENT: &str = "segment";
const SPARE: &str = "spare";
const NEW: &str = "new";
const DIGITS: usize = 16;

impl LogFile {
    /// Parses the name of a file; `None` if it is not a file of a log.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let (digits, kind) = name.split_once('.')?;
        let is_number = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
        let number = digits.parse().ok().filter(|_| is_number)?;
        let file = match kind {
            SEGMENT => Self::Segment(number),
            SPARE => Self::Spare(number),
            NEW => Self::New(number),
            _ => return None,
        };
        // Each file has exactly one name, so additional leading zeros are refused.
        (file.name() == name).then_some(file)
    }

    pub(crate) fn name(self) -> String {
        let (number, kind) = match self {
            Self::Segment(number) => (number, SEGMENT),
            Self::Spare(number) => (number, SPARE),
            Self::New(number) => (number, NEW),
        };
        format!("{number:0DIGITS$}.{kind}")
    }

    pub(crate) fn path(self, folder: &str) -> String {
        format!("{folder}/{}", self.name())
    }
}

/// The path of a segment below the root of the storage.
#[must_use]
pub fn segment_path(folder: &str, number: u64) -> String {
    LogFile::Segment(number).path(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_as_they_are_written() {
        for number in [0, 1, 9_999_999_999_999_999, u64::MAX] {
            for file in [LogFile::Segment(number), LogFile::Spare(number), LogFile::New(number)] {
                assert_eq!(LogFile::parse(&file.name()), Some(file));
            }
        }
        for foreign in ["", "1.segment", "00000000000000001.segment", "0000000000000001.old"] {
            assert_eq!(LogFile::parse(foreign), None, "{foreign}");
        }
    }
}
