//! The fleets of a server: one small file that is replaced as a whole (LOG.md, section 10).
//!
//! A crash leaves the old or the new file. There is no second copy: an older list could bring back
//! a dropped fleet or lose a created one, so a damaged list is an error.

use crate::aligned_buffer::AlignedBuffer;
use crate::error::{HeaderFault, LogError};
use crate::fleet_identity::{FleetIdentity, IDENTITY_BYTES};
use crate::limits::{MANIFEST_BYTES_MAX, RECORD_ALIGN_BYTES};
use crate::storage::Storage;
use crate::whole_file::{read_file, replace_file};
use crate::wire::{page_align, put, u16_at, u32_at};

const MAGIC: [u8; 8] = *b"\x89SHMAN\r\n";
/// Major version of the manifest.
const VERSION: u16 = 1;
const HEADER_BYTES: usize = 32;
const ENTRY_BYTES: usize = IDENTITY_BYTES + 8;
const FILE: &str = "fleets.manifest";

/// A fleet of the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ManifestEntry {
    /// The fleet.
    pub fleet: FleetIdentity,
    /// Its options, in the server's own format.
    pub description: Vec<u8>,
}

/// All fleets of the server.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Manifest {
    /// The fleets in the order of the file.
    pub fleets: Vec<ManifestEntry>,
}

impl Manifest {
    /// Reads the manifest at the root of the storage; `None` if it does not exist.
    ///
    /// # Errors
    /// [`LogError::Damaged`], [`LogError::Version`], [`LogError::Storage`].
    pub fn load(storage: &dyn Storage) -> Result<Option<Self>, LogError> {
        let display = storage.display(FILE);
        let failed = |operation| LogError::storage(operation, display.clone());
        // If the process crashed after renaming the file, the rename may not be durable yet.
        storage.sync_dir("").map_err(failed("sync the folder of"))?;
        let Some(bytes) = read_file(storage, FILE, MANIFEST_BYTES_MAX)? else { return Ok(None) };
        Self::parse(&bytes).map(Some).map_err(|fault| fault.of_file(display, VERSION))
    }

    /// Replaces the manifest at the root of the storage, durably.
    ///
    /// # Errors
    /// [`LogError::Input`] if it is too large; [`LogError::Storage`], after which the next start
    /// finds either the former manifest or this one.
    pub fn store(&self, storage: &dyn Storage) -> Result<(), LogError> {
        replace_file(storage, FILE, &self.encode()?)
    }

    pub(crate) fn encode(&self) -> Result<AlignedBuffer, LogError> {
        let sizes = self.fleets.iter().map(|entry| entry_bytes(entry.description.len()));
        let end = HEADER_BYTES + sizes.sum::<usize>();
        if end > MANIFEST_BYTES_MAX {
            return Err(LogError::Input(format!(
                "the descriptions of all fleets have {end} bytes, the limit is {MANIFEST_BYTES_MAX}"
            )));
        }
        let mut bytes = AlignedBuffer::zeroed(page_align(end));
        put(&mut bytes, 0, &MAGIC);
        put(&mut bytes, 8, &VERSION.to_le_bytes());
        put(&mut bytes, 12, &(self.fleets.len() as u32).to_le_bytes());
        put(&mut bytes, 16, &(end as u32).to_le_bytes());
        let mut at = HEADER_BYTES;
        for entry in &self.fleets {
            entry.fleet.encode(&mut bytes, at);
            let length = entry.description.len();
            put(&mut bytes, at + IDENTITY_BYTES, &(length as u32).to_le_bytes());
            put(&mut bytes, at + ENTRY_BYTES, &entry.description);
            at += entry_bytes(length);
        }
        let body_crc = crc32c::crc32c(&bytes[HEADER_BYTES..end]);
        put(&mut bytes, 20, &body_crc.to_le_bytes());
        let header_crc = crc32c::crc32c(&bytes[..28]);
        put(&mut bytes, 28, &header_crc.to_le_bytes());
        Ok(bytes)
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, HeaderFault> {
        let damaged = |reason| Err(HeaderFault::Damaged(reason));
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return damaged("it is no list of fleets");
        }
        if crc32c::crc32c(&bytes[..28]) != u32_at(bytes, 28) {
            return damaged("the checksum of the header differs");
        }
        let version = u16_at(bytes, 8);
        if version != VERSION {
            return Err(HeaderFault::Version(version));
        }
        let end = u32_at(bytes, 16) as usize;
        let Some(mut rest) = bytes.get(HEADER_BYTES..end) else {
            return damaged("the file is shorter than its header states");
        };
        if crc32c::crc32c(rest) != u32_at(bytes, 20) {
            return damaged("the checksum of the fleets differs");
        }
        let mut fleets = Vec::new();
        for _ in 0..u32_at(bytes, 12) {
            if rest.len() < ENTRY_BYTES {
                return damaged("a fleet exceeds the list");
            }
            let fleet = FleetIdentity::parse(rest, 0)?;
            let length = u32_at(rest, IDENTITY_BYTES) as usize;
            let Some(after) = rest.get(entry_bytes(length)..) else {
                return damaged("a description exceeds the list");
            };
            let description = rest[ENTRY_BYTES..ENTRY_BYTES + length].to_vec();
            fleets.push(ManifestEntry { fleet, description });
            rest = after;
        }
        if !rest.is_empty() {
            return damaged("bytes follow the last fleet");
        }
        Ok(Self { fleets })
    }
}

fn entry_bytes(description_bytes: usize) -> usize {
    ENTRY_BYTES + description_bytes.next_multiple_of(RECORD_ALIGN_BYTES)
}
