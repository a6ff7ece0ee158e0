//! The manifest lists the runs of the history. It is replaced as a whole (HISTORY.md, section 4).
//!
//! After a crash the former or the new manifest is on the disk. Files that it does not name are
//! removed when the history is opened.

use shoal_codec::{SpaceKind, SpaceTag};
use shoal_position_log::{
    AlignedBuffer, LogError, Position, Storage, checksum, read_file, replace_file,
};

use crate::gap::Gap;
use crate::limits::{MANIFEST_BYTES_MAX, PARTITION_MS_MAX, PARTITION_MS_MIN};
use crate::run::RunEntry;
use crate::wire::{Reader, Writer};

const MAGIC: [u8; 8] = *b"\x89SHHIS\r\n";
/// The version that is written.
const VERSION: u16 = 3;
/// Bytes before the runs.
const HEADER_BYTES: usize = 176;
/// Bytes before the runs in version 1.
const HEADER_1_BYTES: usize = 160;
const FILE: &str = "history.manifest";

/// The last cycle of the log whose changes are in the history.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watermark {
    /// Term of the last cycle that is part of the history.
    pub term: u64,
    /// Place of that cycle in the log.
    pub position: Position,
    /// The fleet's clock after that cycle, Unix milliseconds.
    pub clock_ms: i64,
}

/// Content of the manifest.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Manifest {
    /// Id of the fleet.
    pub(crate) fleet_id: u128,
    /// Its space.
    pub(crate) space: SpaceTag,
    /// Length of the shortest partitions.
    pub(crate) partition_ms: i64,
    /// Number of the next run.
    pub(crate) next_number: u64,
    /// Generation of the next runs.
    pub(crate) next_generation: u64,
    /// Number of the next removal.
    pub(crate) next_removal: u64,
    /// Partitions that begin before this time are not kept.
    pub(crate) floor_ms: i64,
    /// See [`crate::HistoryWriter::reached_ms`].
    pub(crate) reached_ms: i64,
    /// Last cycle whose changes are in the history.
    pub(crate) watermark: Watermark,
    /// Runs, ordered by (partition, generation, number). Different partitions do not overlap.
    pub(crate) runs: Vec<RunEntry>,
    /// Objects that are being erased, ascending.
    pub(crate) erasing: Vec<u64>,
    /// Cycles that are missing, ascending.
    pub(crate) gaps: Vec<Gap>,
    /// States of longer ranges, ascending by range.
    pub(crate) states: Vec<RunEntry>,
}

impl Manifest {
    /// Takes the number of the next run.
    pub(crate) fn take_number(&mut self) -> u64 {
        let number = self.next_number;
        self.next_number += 1;
        number
    }

    /// Entries of all runs and states.
    pub(crate) fn files(&self) -> impl Iterator<Item = &RunEntry> {
        self.runs.iter().chain(&self.states)
    }

    fn path(folder: &str) -> String {
        format!("{folder}/{FILE}")
    }

    /// Reads the manifest of a folder; `None` if it does not exist.
    pub(crate) fn load(storage: &dyn Storage, folder: &str) -> Result<Option<Self>, LogError> {
        let path = Self::path(folder);
        let display = storage.display(&path);
        // If the process crashed after renaming the file, the rename may not be durable yet.
        storage.sync_dir(folder).map_err(LogError::storage("sync", storage.display(folder)))?;
        let bytes = read_file(storage, &path, MANIFEST_BYTES_MAX)?;
        bytes.map(|bytes| Self::parse(&bytes, &display)).transpose()
    }

    /// Replaces the manifest durably. After an error, either manifest may be on the disk.
    pub(crate) fn store(&self, storage: &dyn Storage, folder: &str) -> Result<(), LogError> {
        let bytes = self.encode();
        let mut pages = AlignedBuffer::zeroed(bytes.len());
        pages[..bytes.len()].copy_from_slice(&bytes);
        replace_file(storage, &Self::path(folder), &pages)
    }

    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut body = Writer::default();
        self.runs.iter().for_each(|run| run.write(&mut body));
        self.erasing.iter().for_each(|object| body.u64(*object));
        self.gaps.iter().for_each(|gap| gap.write(&mut body));
        self.states.iter().for_each(|state| state.write(&mut body));
        let Self { space, watermark: Watermark { term, position, clock_ms }, .. } = self;
        let mut out = Writer(MAGIC.to_vec());
        out.u16(VERSION);
        out.u16(space.kind.code());
        out.u32(checksum(&body.0));
        out.u128(self.fleet_id);
        for value in [space.origin_x, space.origin_y, space.quantum] {
            out.f64(value);
        }
        out.i64(self.partition_ms);
        out.u64(self.next_number);
        out.u64(self.next_generation);
        out.i64(self.floor_ms);
        out.u64(*term);
        for value in [position.segment, position.offset, position.sequence, position.epoch] {
            out.u64(value);
        }
        out.i64(*clock_ms);
        out.u32(self.runs.len() as u32);
        out.u32(self.erasing.len() as u32);
        out.u64(self.next_removal);
        out.i64(self.reached_ms);
        out.u32(self.gaps.len() as u32);
        out.u32(self.states.len() as u32);
        out.0.resize(HEADER_BYTES - 4, 0);
        out.u32(checksum(&out.0));
        out.0.append(&mut body.0);
        out.0
    }

    pub(crate) fn parse(bytes: &[u8], file: &str) -> Result<Self, LogError> {
        let damaged =
            |offset: usize, reason: &str| Err(LogError::damaged(file, offset as u64, reason));
        if bytes.len() < HEADER_BYTES || bytes[..8] != MAGIC {
            return damaged(0, "it is no manifest of a history");
        }
        let mut from = Reader(&bytes[8..]);
        let found = from.u16();
        if !(1..=VERSION).contains(&found) {
            return Err(LogError::Version { file: file.to_owned(), found, supported: VERSION });
        }
        // Version 3 of the manifest has run entries of version 2.
        let entries = found.min(RunEntry::VERSION);
        let entry_bytes = RunEntry::bytes_of(entries).expect("all versions have entries");
        let header_bytes = if found == 1 { HEADER_1_BYTES } else { HEADER_BYTES };
        let (checked, rest) = bytes.split_at(header_bytes - 4);
        if checksum(checked) != Reader(rest).u32() {
            return damaged(0, "the checksum of the header differs");
        }
        let (kind, body_crc, fleet_id) = (from.u16(), from.u32(), from.u128());
        let Some(kind) = SpaceKind::from_code(kind) else {
            return damaged(10, "the kind of the space is unknown");
        };
        let [origin_x, origin_y, quantum] = [from.f64(), from.f64(), from.f64()];
        let space = SpaceTag { kind, origin_x, origin_y, quantum };
        let (partition_ms, next_number, next_generation) = (from.i64(), from.u64(), from.u64());
        let (floor_ms, term) = (from.i64(), from.u64());
        let (segment, offset) = (from.u64(), from.u64());
        let position = Position { segment, offset, sequence: from.u64(), epoch: from.u64() };
        let watermark = Watermark { term, position, clock_ms: from.i64() };
        let (runs, erasing) = (from.u32() as usize, from.u32() as usize);
        // Version 1 has zeros here; its removals have no numbers.
        let next_removal = from.u64().max(1);
        let (reached_ms, gaps, states) = match found {
            1 => (watermark.clock_ms, 0, 0),
            2 => (from.i64(), from.u32() as usize, 0),
            _ => (from.i64(), from.u32() as usize, from.u32() as usize),
        };
        let body_bytes = (runs + states) * entry_bytes + erasing * 8 + gaps * Gap::BYTES;
        let end = header_bytes.saturating_add(body_bytes);
        let Some(body) = bytes.get(header_bytes..end) else {
            return damaged(header_bytes, "the file is shorter than its header states");
        };
        if checksum(body) != body_crc {
            return damaged(header_bytes, "the checksum of the runs differs");
        }
        if space.check().is_err() || !(PARTITION_MS_MIN..=PARTITION_MS_MAX).contains(&partition_ms)
        {
            return damaged(0, "the space or the length of partitions is not valid");
        }
        let mut from = Reader(body);
        let runs: Vec<_> = (0..runs).map(|_| RunEntry::read(&mut from, entries)).collect();
        for (index, run) in runs.iter().enumerate() {
            if let Some(fault) = run.fault(partition_ms) {
                return damaged(header_bytes + index * entry_bytes, fault);
            }
        }
        if overlap(&runs) {
            return damaged(header_bytes, "partitions overlap or are not in order");
        }
        let erasing: Vec<u64> = (0..erasing).map(|_| from.u64()).collect();
        let gaps: Vec<_> = (0..gaps).map(|_| Gap::read(&mut from)).collect();
        let states: Vec<_> = (0..states).map(|_| RunEntry::read(&mut from, entries)).collect();
        for state in &states {
            let is_state = state.partition.length_ms > partition_ms
                && (state.removals, state.returns) == (0, 0)
                && state.rows == state.objects;
            let fault = (!is_state).then_some("a state is none");
            if let Some(fault) = fault.or_else(|| state.fault(partition_ms)) {
                return damaged(header_bytes, fault);
            }
        }
        if !states.is_sorted_by(|before, after| before.partition < after.partition) {
            return damaged(header_bytes, "states are not in order");
        }
        if !erasing.is_sorted() {
            return damaged(header_bytes, "objects that are being erased are not in order");
        }
        Ok(Self {
            fleet_id,
            space,
            partition_ms,
            next_number,
            next_generation,
            next_removal,
            floor_ms,
            reached_ms,
            watermark,
            runs,
            erasing,
            gaps,
            states,
        })
    }
}

/// True if two partitions overlap or are not in order; equal partitions do not overlap.
pub(crate) fn overlap(runs: &[RunEntry]) -> bool {
    runs.windows(2).any(|pair| {
        let [before, after] = [pair[0].partition, pair[1].partition];
        before != after && before.end_ms() > after.start_ms
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::Partition;
    use crate::run::Zone;

    fn sample() -> Manifest {
        let zone = Zone { time_ms: (3_600_000, 3_700_000), x: (-1, 2), y: (3, 4), object: (5, 9) };
        let run = RunEntry {
            number: 7,
            generation: 6,
            partition: Partition { start_ms: 3_600_000, length_ms: 3_600_000 },
            rows: 5,
            objects: 2,
            removals: 1,
            bytes: 8_192,
            zone,
            returns: 1,
            reach_ms: 3_700_000,
            removed_from_ms: 3_700_001,
            pages: [1, 1, 1, 1],
            index_bytes: 300,
            index_offset: 500,
            index_crc: 99,
        };
        let position = Position { segment: 1, offset: 8_192, sequence: 3, epoch: 44 };
        Manifest {
            fleet_id: 11,
            space: SpaceTag {
                kind: SpaceKind::Geographic,
                origin_x: 0.0,
                origin_y: 0.0,
                quantum: 1e-7,
            },
            partition_ms: 3_600_000,
            next_number: 8,
            next_generation: 7,
            next_removal: 4,
            floor_ms: i64::MIN,
            reached_ms: 3_700_000,
            watermark: Watermark { term: 3, position, clock_ms: 3_700_001 },
            runs: vec![run.clone(), RunEntry { number: 6, ..run.clone() }],
            erasing: vec![4, 8],
            gaps: vec![Gap { first_epoch: 5, last_epoch: 9, from_ms: i64::MIN, to_ms: 77 }],
            states: vec![RunEntry {
                partition: Partition { start_ms: 0, length_ms: 28_800_000 },
                objects: 5,
                removals: 0,
                returns: 0,
                ..run
            }],
        }
    }

    #[test]
    fn a_manifest_reads_back_and_every_flipped_bit_is_found() {
        let manifest = sample();
        let bytes = manifest.encode();
        assert_eq!(
            bytes.len(),
            HEADER_BYTES + 3 * RunEntry::bytes_of(RunEntry::VERSION).unwrap() + 16 + Gap::BYTES
        );
        assert_eq!(Manifest::parse(&bytes, "m").unwrap(), manifest);
        for bit in 0..8 * bytes.len() {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Manifest::parse(&flipped, "m").is_err(), "bit {bit}");
        }
        for end in 0..bytes.len() {
            assert!(Manifest::parse(&bytes[..end], "m").is_err(), "cut at {end}");
        }
    }

    #[test]
    fn entries_that_no_writer_makes_are_refused() {
        let mut manifest = sample();
        manifest.runs[1].zone.time_ms.1 = 7_200_000;
        let error =
            |manifest: &Manifest| Manifest::parse(&manifest.encode(), "m").unwrap_err().to_string();
        assert!(error(&manifest).contains("times leave"), "{}", error(&manifest));
        manifest.runs.truncate(1);
        manifest.runs[0].partition.length_ms = 7_200_000;
        assert!(error(&manifest).contains("partition is none"), "{}", error(&manifest));
        let mut manifest = sample();
        manifest.runs[0].partition = Partition { start_ms: 0, length_ms: 28_800_000 };
        assert!(error(&manifest).contains("overlap"), "{}", error(&manifest));
        let mut manifest = sample();
        manifest.states.push(manifest.states[0].clone());
        assert!(error(&manifest).contains("not in order"), "{}", error(&manifest));
        manifest.states.pop();
        manifest.states[0].objects = 4;
        assert!(error(&manifest).contains("a state is none"), "{}", error(&manifest));
    }
}
