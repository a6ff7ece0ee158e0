//! The entry of a run, which the manifest and the footer of the run contain (HISTORY.md, section
//! 3.4).
//!
//! Both must be equal, so that a file of another run or fleet is refused before it is read.

use shoal_position_log::LogError;

use super::zone::Zone;
use crate::limits::{COARSER, COARSER_LEVELS, INDEX_BYTES_MAX, RUN_ROWS_MAX, TILE_ROWS};
use crate::partition::Partition;
use crate::wire::{Reader, Writer};

/// Bytes of an entry.
const ENTRY_BYTES: usize = 152;
/// Bytes of an entry of version 1.
const ENTRY_1_BYTES: usize = 128;
/// Bytes of the footer of a run, its last page.
pub(crate) const FOOTER_BYTES: usize = 4096;
/// Bytes of the footer before the entry: magic, version, fleet.
const FOOTER_HEAD_BYTES: usize = 8 + 8 + 16;
const MAGIC: [u8; 8] = *b"\x89SHRUN\r\n";

/// A run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RunEntry {
    /// Its number, which names its file and is used once.
    pub number: u64,
    /// If two runs of a partition have a row of equal identity, the row of the greater generation
    /// arrived later. Runs of equal generation share no identity.
    pub generation: u64,
    /// The times of its partition.
    pub partition: Partition,
    /// Number of its fixes.
    pub rows: u64,
    /// Objects with fixes.
    pub objects: u64,
    /// Removals and clears.
    pub removals: u64,
    /// Bytes of its file.
    pub bytes: u64,
    /// The zone of its fixes.
    pub zone: Zone,
    /// Number of returns; see `HISTORY.md`, section 1.
    pub returns: u64,
    /// Greatest reach of its removals; `i64::MIN` without removals.
    pub(crate) reach_ms: i64,
    /// Least clock of its removals; `i64::MAX` without removals.
    pub(crate) removed_from_ms: i64,
    /// Pages of fixes, objects, removals and returns.
    pub(crate) pages: [u32; 4],
    /// Bytes of its index, which begins after the last page.
    pub(crate) index_bytes: u32,
    /// Offset of its index.
    pub(crate) index_offset: u64,
    /// Checksum of its index.
    pub(crate) index_crc: u32,
}

impl RunEntry {
    /// The version of runs that is written.
    pub(crate) const VERSION: u16 = 2;

    pub(crate) fn write(&self, out: &mut Writer) {
        let end = out.0.len() + ENTRY_BYTES;
        let Self { zone, pages, .. } = self;
        out.u64(self.number);
        out.u64(self.generation);
        out.i64(self.partition.start_ms);
        out.u32(self.rows as u32);
        out.u32(self.objects as u32);
        out.u32(self.removals as u32);
        out.u32(self.index_crc);
        out.u64(self.bytes);
        out.i64(zone.time_ms.0);
        out.i64(zone.time_ms.1);
        for side in [zone.x.0, zone.x.1, zone.y.0, zone.y.1] {
            out.i32(side);
        }
        out.u64(zone.object.0);
        out.u64(zone.object.1);
        for count in &pages[..3] {
            out.u32(*count);
        }
        out.u32(self.index_bytes);
        out.u64(self.index_offset);
        out.i64(self.partition.length_ms);
        out.u32(self.returns as u32);
        out.u32(pages[3]);
        out.i64(self.reach_ms);
        out.i64(self.removed_from_ms);
        assert_eq!(out.0.len(), end, "an entry has {ENTRY_BYTES} bytes");
    }

    /// Bytes of an entry of a version; `None` if the version does not exist.
    pub(crate) fn bytes_of(version: u16) -> Option<usize> {
        [ENTRY_1_BYTES, ENTRY_BYTES].get(usize::from(version).checked_sub(1)?).copied()
    }

    /// Reads an entry of `version`. `from` must have at least [`Self::bytes_of`] bytes.
    pub(crate) fn read(from: &mut Reader<'_>, version: u16) -> Self {
        let (number, generation, start_ms) = (from.u64(), from.u64(), from.i64());
        let [rows, objects, removals] = [from.u32(), from.u32(), from.u32()].map(u64::from);
        let (index_crc, bytes) = (from.u32(), from.u64());
        let zone = Zone {
            time_ms: (from.i64(), from.i64()),
            x: (from.i32(), from.i32()),
            y: (from.i32(), from.i32()),
            object: (from.u64(), from.u64()),
        };
        let [fixes, directory, removed] = [from.u32(), from.u32(), from.u32()];
        let (index_bytes, index_offset) = (from.u32(), from.u64());
        let partition = Partition { start_ms, length_ms: from.i64() };
        let (returns, returned, reach_ms, removed_from_ms) = if version > 1 {
            (from.u32(), from.u32(), from.i64(), from.i64())
        } else if removals > 0 {
            (0, 0, partition.end_ms() - 1, partition.start_ms)
        } else {
            (0, 0, i64::MIN, i64::MAX)
        };
        let pages = [fixes, directory, removed, returned];
        Self {
            number,
            generation,
            partition,
            rows,
            objects,
            removals,
            bytes,
            zone,
            returns: u64::from(returns),
            reach_ms,
            removed_from_ms,
            pages,
            index_bytes,
            index_offset,
            index_crc,
        }
    }

    /// The first rule that the entry breaks; `None` if it is valid. `shortest_ms` is the length of
    /// the shortest partitions.
    pub(crate) fn fault(&self, shortest_ms: i64) -> Option<&'static str> {
        let Partition { start_ms, length_ms } = self.partition;
        let is_length =
            (0..=COARSER_LEVELS).any(|level| length_ms == shortest_ms * COARSER.pow(level));
        let is_aligned = is_length && start_ms.rem_euclid(length_ms) == 0;
        let end_ms = start_ms.checked_add(length_ms.max(1) - 1);
        let in_partition = end_ms.is_some_and(|end| self.zone.lies_in_times(start_ms, end));
        let rules = [
            (is_aligned, "its partition is none"),
            (self.rows <= RUN_ROWS_MAX && self.objects <= self.rows, "its counts are too large"),
            (self.rows == 0 || in_partition, "its times leave its partition"),
            (end_ms.is_none_or(|end| self.reach_ms <= end), "its removals leave its partition"),
            (self.index_bytes as usize <= INDEX_BYTES_MAX, "its index is too long"),
            (
                self.index_offset.saturating_add(self.index_bytes.into()) <= self.bytes,
                "its index exceeds its file",
            ),
        ];
        rules.into_iter().find(|(holds, _)| !holds).map(|(_, fault)| fault)
    }

    /// Tiles of fixes.
    pub(crate) fn tiles(&self) -> usize {
        (self.rows as usize).div_ceil(TILE_ROWS)
    }

    /// Rows of one tile.
    pub(crate) fn tile_rows(&self, tile: usize) -> usize {
        (self.rows as usize - tile * TILE_ROWS).min(TILE_ROWS)
    }

    /// Number of all pages.
    pub(crate) fn pages_total(&self) -> usize {
        self.pages.iter().map(|count| *count as usize).sum()
    }
}

/// The last page of a run. It makes the file describe itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Footer {
    /// Id of the fleet.
    pub(crate) fleet_id: u128,
    /// The run.
    pub(crate) entry: RunEntry,
}

impl Footer {
    pub(crate) fn encode(&self) -> [u8; FOOTER_BYTES] {
        let mut out = Writer(MAGIC.to_vec());
        out.u16(RunEntry::VERSION);
        out.u16(0);
        out.u32(0);
        out.u128(self.fleet_id);
        self.entry.write(&mut out);
        out.u32(shoal_position_log::checksum(&out.0));
        let mut page = [0; FOOTER_BYTES];
        page[..out.0.len()].copy_from_slice(&out.0);
        page
    }

    /// Parses the last page of `file`.
    pub(crate) fn parse(bytes: &[u8], file: &str, offset: u64) -> Result<Self, LogError> {
        let damaged = |reason: &str| Err(LogError::damaged(file, offset, reason));
        if bytes.len() < FOOTER_BYTES || bytes[..8] != MAGIC {
            return damaged("the file does not end as a run of a history");
        }
        let mut from = Reader(&bytes[8..]);
        let found = from.u16();
        let Some(entry_bytes) = RunEntry::bytes_of(found) else {
            return Err(LogError::Version {
                file: file.to_owned(),
                found,
                supported: RunEntry::VERSION,
            });
        };
        let (checked, rest) = bytes.split_at(FOOTER_HEAD_BYTES + entry_bytes);
        if shoal_position_log::checksum(checked) != Reader(rest).u32() {
            return damaged("the checksum of the footer differs");
        }
        from.u16();
        from.u32();
        Ok(Self { fleet_id: from.u128(), entry: RunEntry::read(&mut from, found) })
    }
}
