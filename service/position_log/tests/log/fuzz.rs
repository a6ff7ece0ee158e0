//! Fuzz targets of every parser of the log's files: mutated segments, checkpoints, records and
//! manifests, most with right checksums. A reader may accept or refuse; it must not panic.

use std::sync::Arc;

use shoal_position_log::{
    CheckpointHeader, CheckpointWriter, LoggedCycle, Manifest, ManifestEntry, PastTerm, Position,
    ProducerState, ReadMode, Section, SimulatedDisk, Storage, decode_producers, list_segments,
    open_newest, repair,
};
use shoal_testkit::{Bound, Random, fuzz_seed};

use crate::built::Built;
use crate::sample::{CHECKPOINT, LOG, fleet, options, reader};
use crate::seal::{seal_checkpoint, seal_segment, set};

/// One change: a bit, a field, a cut, a moved piece.
fn mutate(chance: &mut Random, bytes: &mut Vec<u8>) {
    if bytes.is_empty() {
        return bytes.push(chance.edgy() as u8);
    }
    // Mostly headers: the first bytes of pages.
    let pages = bytes.len().div_ceil(4096);
    let place = match chance.below(4) {
        0 => chance.below(bytes.len()),
        _ => chance.below(pages) * 4096 + chance.below(200),
    }
    .min(bytes.len() - 1);
    let length = bytes.len();
    match chance.below(8) {
        0 | 1 => bytes[place] ^= 1 << chance.below(8),
        2 => bytes[place] = chance.edgy() as u8,
        3 if place + 4 <= length => set(bytes, place, &(chance.edgy() as u32).to_le_bytes()),
        4 | 5 if place + 8 <= length => set(bytes, place & !7, &chance.edgy().to_le_bytes()),
        6 if chance.below(4) == 0 => bytes.truncate(place),
        _ => {
            let from = chance.below(length);
            let count = chance.below(600).min(length - from.max(place));
            bytes.copy_within(from..from + count, place);
        }
    }
}

/// Reads a log in every mode; true if it is accepted.
fn read_log(built: &Built) -> bool {
    let mut is_accepted = false;
    for mode in [ReadMode::Recover, ReadMode::Inspect, ReadMode::Through(9), ReadMode::Repair] {
        let Ok(mut frames) = reader(&built.storage, 0, mode) else { continue };
        while let Ok(Some(frame)) = frames.next_frame() {
            for cycle in frame.cycles().map_while(Result::ok) {
                assert!(cycle.requests().count() == cycle.len());
            }
        }
        is_accepted |= frames.finish().is_ok() && mode == ReadMode::Recover;
    }
    is_accepted
}

#[test]
fn fuzz_segments() {
    let mut chance = Random::new(fuzz_seed(41));
    let built: Vec<Built> = (0..6).map(|seed| Built::new(seed, 6, 1_500, seed % 2 == 0)).collect();
    let (mut accepted, mut bound) = (0, Bound::new(6_000));
    while bound.goes_on() {
        let built = &built[chance.below(built.len())];
        let segments = built.segments();
        let whole: Vec<_> = segments.iter().map(|path| built.disk.bytes(path).unwrap()).collect();
        let mut mutants = whole.clone();
        for _ in 0..=chance.below(3) {
            let chosen = chance.below(mutants.len());
            mutate(&mut chance, &mut mutants[chosen]);
        }
        if chance.below(10) > 0 {
            mutants.iter_mut().fold(0, |crc, bytes| seal_segment(bytes, crc));
        }
        for (path, bytes) in segments.iter().zip(&mutants) {
            built.disk.put(path, bytes);
        }
        accepted += u64::from(read_log(built));
        let _ = list_segments(built.storage.clone(), LOG);
        if chance.below(20) == 0 {
            // A repair makes a log that can be read, or says why it cannot.
            let fork: Arc<dyn Storage> = Arc::new(built.disk.fork(1));
            if repair(fork.clone(), LOG, options(16 << 10), 0, 3).is_ok() {
                reader(&fork, 0, ReadMode::Recover).unwrap().finish().unwrap();
            }
        }
        for (path, bytes) in segments.iter().zip(&whole) {
            built.disk.put(path, bytes);
        }
    }
    let executions = bound.done();
    assert!(accepted > executions / 100, "only {accepted} accepted: sealing does not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}

fn checkpoint(storage: &Arc<dyn Storage>, epoch: u64, bytes: usize) {
    let position = Position { segment: 1, offset: 4096, sequence: 2, epoch };
    let header = CheckpointHeader { fleet: fleet(), term: 1, epoch, clock_ms: 0, position };
    let past = [PastTerm { term: 4, last_epoch: 9 }];
    let mut file =
        CheckpointWriter::create(storage.clone(), CHECKPOINT, &header, &past, 0).unwrap();
    let producer = |number: u64| ProducerState {
        producer: format!("producer {number}"),
        greatest: 99,
        open: (0..number).collect(),
    };
    file.producers((0..5).map(producer)).unwrap();
    file.section(16, &vec![7; bytes]).unwrap();
    file.section(17, b"tail").unwrap();
    file.finish().unwrap();
}

#[test]
fn fuzz_checkpoints() {
    let mut chance = Random::new(fuzz_seed(42));
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    storage.create_dir(CHECKPOINT).unwrap();
    checkpoint(&storage, 3, 500);
    checkpoint(&storage, 8, 9_000);
    let path = format!("{CHECKPOINT}/0000000000000008.checkpoint");
    let whole = disk.bytes(&path).unwrap();
    let (mut accepted, mut bound) = (0, Bound::new(20_000));
    while bound.goes_on() {
        let mut bytes = whole.clone();
        for _ in 0..=chance.below(3) {
            mutate(&mut chance, &mut bytes);
        }
        if chance.below(10) > 0 {
            seal_checkpoint(&mut bytes);
        }
        disk.put(&path, &bytes);
        let Ok(found) = open_newest(&storage, CHECKPOINT, Some(&fleet())) else { continue };
        let mut newest = found.newest.expect("the older one is whole");
        accepted += u64::from(newest.header().epoch == 8);
        while let Some(section) = newest.next_section().expect("it was verified") {
            if let Section::Producers(bytes) = section {
                assert!(decode_producers(bytes).count() <= bytes.len());
            }
        }
    }
    let executions = bound.done();
    assert!(accepted > executions / 100, "only {accepted} accepted: sealing does not work");
    assert!(accepted < executions * 9 / 10, "{accepted} accepted: checks do not work");
}

#[test]
fn fuzz_records_and_manifests() {
    let mut chance = Random::new(fuzz_seed(43));
    let built = Built::new(3, 8, 300, true);
    let mut records = Vec::new();
    crate::sample::recover(&built.storage, 0, |it| records.push(it.encoded().to_vec())).unwrap();
    let disk = SimulatedDisk::new(1);
    let entry = ManifestEntry { fleet: fleet(), description: vec![3; 40] };
    Manifest { fleets: vec![entry; 3] }.store(&disk).unwrap();
    let whole = disk.bytes("fleets.manifest").unwrap();
    let (mut accepted, mut bound) = (0, Bound::new(100_000));
    while bound.goes_on() {
        let mut bytes = records[chance.below(records.len())].clone();
        for _ in 0..=chance.below(3) {
            mutate(&mut chance, &mut bytes);
        }
        if let Ok(cycle) = LoggedCycle::parse(1, &bytes) {
            assert_eq!(cycle.requests().count(), cycle.len());
            accepted += 1;
        }
        if chance.below(4) == 0 {
            let mut bytes = whole.clone();
            mutate(&mut chance, &mut bytes);
            let end =
                u32::from_le_bytes(bytes.get(16..20).map_or([0; 4], |it| it.try_into().unwrap()));
            if let Some(body) = bytes.get(32..end as usize) {
                let crc = crc32c::crc32c(body).to_le_bytes();
                set(&mut bytes, 20, &crc);
                let crc = crc32c::crc32c(&bytes[..28]).to_le_bytes();
                set(&mut bytes, 28, &crc);
            }
            disk.put("fleets.manifest", &bytes);
            let _ = Manifest::load(&disk);
        }
    }
    assert!(accepted > bound.done() / 100 && accepted < bound.done(), "{accepted} accepted");
}
