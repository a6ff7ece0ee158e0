//! The first page of a checkpoint.

use crate::error::HeaderFault;
use crate::fleet_identity::{FleetIdentity, IDENTITY_BYTES};
use crate::limits::PAGE_BYTES;
use crate::position::Position;
use crate::wire::{i64_at, put, u16_at, u32_at, u64_at};

const MAGIC: [u8; 8] = *b"\x89SHCKP\r\n";
/// Major version of checkpoints.
pub(super) const CHECKPOINT_VERSION: u16 = 1;
const IDENTITY_AT: usize = 64;
const CRC_AT: usize = PAGE_BYTES - 4;

/// Identifies the state that a checkpoint holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CheckpointHeader {
    /// The fleet.
    pub fleet: FleetIdentity,
    /// Term of the state.
    pub term: u64,
    /// The checkpoint holds the state after this epoch.
    pub epoch: u64,
    /// The fleet's clock at that epoch, Unix milliseconds.
    pub clock_ms: i64,
    /// A synced position of the log that has the epoch; recovery reads the cycles after the epoch.
    pub position: Position,
}

impl CheckpointHeader {
    pub(super) fn encode(&self, page: &mut [u8]) {
        let page = &mut page[..PAGE_BYTES];
        page.fill(0);
        put(page, 0, &MAGIC);
        put(page, 8, &CHECKPOINT_VERSION.to_le_bytes());
        put(page, 16, &self.term.to_le_bytes());
        put(page, 24, &self.epoch.to_le_bytes());
        put(page, 32, &self.clock_ms.to_le_bytes());
        put(page, 40, &self.position.segment.to_le_bytes());
        put(page, 48, &self.position.offset.to_le_bytes());
        put(page, 56, &self.position.sequence.to_le_bytes());
        self.fleet.encode(page, IDENTITY_AT);
        put(page, IDENTITY_AT + IDENTITY_BYTES, &self.position.epoch.to_le_bytes());
        let crc = crc32c::crc32c(&page[..CRC_AT]);
        put(page, CRC_AT, &crc.to_le_bytes());
    }

    pub(super) fn parse(page: &[u8]) -> Result<Self, HeaderFault> {
        if page.len() < PAGE_BYTES {
            return Err(HeaderFault::Damaged("the file has less than one page"));
        }
        if page[..8] != MAGIC {
            return Err(HeaderFault::Damaged("it does not begin as a checkpoint"));
        }
        if crc32c::crc32c(&page[..CRC_AT]) != u32_at(page, CRC_AT) {
            return Err(HeaderFault::Damaged("the checksum of the header differs"));
        }
        let version = u16_at(page, 8);
        if version != CHECKPOINT_VERSION {
            return Err(HeaderFault::Version(version));
        }
        Ok(Self {
            fleet: FleetIdentity::parse(page, IDENTITY_AT)?,
            term: u64_at(page, 16),
            epoch: u64_at(page, 24),
            clock_ms: i64_at(page, 32),
            position: Position {
                segment: u64_at(page, 40),
                offset: u64_at(page, 48),
                sequence: u64_at(page, 56),
                epoch: u64_at(page, IDENTITY_AT + IDENTITY_BYTES),
            },
        })
    }
}
