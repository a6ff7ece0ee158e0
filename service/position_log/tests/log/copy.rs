//! What a follower needs: terms that begin while the log is open, copies of checkpoints, and
//! folders that are set aside.

use std::sync::Arc;

use shoal_position_log::{
    CheckpointExport, CheckpointHeader, CheckpointImport, CheckpointWriter, Fault, Group, LogError,
    PastTerm, Position, SimulatedDisk, Storage, open_newest,
};
use shoal_testkit::Random;

use crate::built::Built;
use crate::sample::{CHECKPOINT, LOG, cycle, fleet, open, options, recover};

#[test]
fn terms_begin_while_the_log_is_open() {
    let built = Built::new(1, 0, 1, false);
    let mut log = open(&built.storage, options(16 << 10), 3).unwrap();
    let (mut chance, mut group) = (Random::new(3), Group::new());
    let mut expected = Vec::new();
    let first = log.term();
    let mut term = first;
    for epoch in 1..=60 {
        cycle(&mut chance, epoch, 900).append_to(&mut group);
        log.write(&mut group).unwrap();
        if epoch % 7 == 0 {
            expected.push(PastTerm { term, last_epoch: epoch });
            term = 100 + epoch;
            let position = log.begin_term(term).unwrap();
            assert_eq!((position, log.synced(), log.term()), (log.written(), position, term));
        }
    }
    log.close().unwrap();
    let mut terms = Vec::new();
    let recovered = recover(&built.storage, 0, |cycle| terms.push(cycle.term)).unwrap();
    assert_eq!(recovered.ended_terms()[recovered.ended_terms().len() - 8..], expected);
    assert_eq!((recovered.term(), recovered.was_clean()), (Some(term), true));
    assert_eq!((terms[6], terms[7], terms[59]), (first, 107, 156));
}

/// Writes the checkpoint of an epoch with a section of `bytes` bytes.
fn write_checkpoint(storage: &Arc<dyn Storage>, epoch: u64, bytes: usize) {
    let position = Position { segment: 1, offset: 4096, sequence: 2, epoch };
    let header = CheckpointHeader { fleet: fleet(), term: 4, epoch, clock_ms: 0, position };
    let past = [PastTerm { term: 4, last_epoch: 3 }];
    let mut file =
        CheckpointWriter::create(storage.clone(), CHECKPOINT, &header, &past, 0).unwrap();
    file.section(16, &vec![7; bytes]).unwrap();
    file.finish().unwrap();
}

/// A storage with a checkpoint that has a section of `bytes` bytes.
fn checkpoint(bytes: usize) -> Arc<dyn Storage> {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
    storage.create_dir(CHECKPOINT).unwrap();
    write_checkpoint(&storage, 5, bytes);
    storage
}

#[test]
fn a_crash_brings_no_removed_checkpoint_back() {
    for seed in 0..20 {
        let disk = SimulatedDisk::new(seed);
        let storage: Arc<dyn Storage> = Arc::new(disk.clone());
        storage.create_dir(CHECKPOINT).unwrap();
        (5..9).for_each(|epoch| write_checkpoint(&storage, epoch, 100));
        let kept = storage.list(CHECKPOINT).unwrap();
        assert_eq!(kept.len(), 2);
        disk.restart();
        assert_eq!(storage.list(CHECKPOINT).unwrap(), kept, "seed {seed}");
    }
}

fn exported(storage: &Arc<dyn Storage>) -> Vec<u8> {
    let mut export = CheckpointExport::open(storage, CHECKPOINT, &fleet()).unwrap().unwrap();
    let mut bytes = Vec::new();
    while let Some(part) = export.next_part().unwrap() {
        bytes.extend_from_slice(part);
    }
    bytes
}

fn import(disk: &SimulatedDisk, bytes: &[u8], part: usize) -> Result<u64, LogError> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let mut import = CheckpointImport::create(storage, CHECKPOINT, 0)?;
    bytes.chunks(part).try_for_each(|part| import.append(part))?;
    import.finish(&fleet())
}

#[test]
fn a_checkpoint_is_copied_whole_or_not_at_all() {
    for bytes in [0, 900, 3_000_000] {
        let leader = checkpoint(bytes);
        let sent = exported(&leader);
        let disk = SimulatedDisk::new(2);
        disk.create_dir(CHECKPOINT).unwrap();
        assert_eq!(import(&disk, &sent, 100_001).unwrap(), 5);
        let copy: Arc<dyn Storage> = Arc::new(disk);
        assert_eq!(exported(&copy), sent);
    }
    let sent = exported(&checkpoint(900));
    let disk = SimulatedDisk::new(3);
    disk.create_dir(CHECKPOINT).unwrap();
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    for length in [0, 100, 4096, sent.len() - 4096] {
        assert!(import(&disk, &sent[..length], 777).is_err(), "{length} bytes");
    }
    let mut chance = Random::new(4);
    for _ in 0..300 {
        // In the header of the first section.
        let mut flipped = sent.clone();
        let bit = 8 * 4096 + chance.below(8 * 64);
        flipped[bit / 8] ^= 1 << (bit % 8);
        assert!(import(&disk, &flipped, 5_000).is_err(), "bit {bit}");
    }
    assert!(open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap().newest.is_none());
    assert!(CheckpointExport::open(&storage, CHECKPOINT, &fleet()).unwrap().is_none());
}

/// The bytes of the newest checkpoint on the disk, if there is one.
fn newest(disk: &SimulatedDisk) -> Option<Vec<u8>> {
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    let rejected = open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap().rejected;
    assert!(rejected.is_empty(), "{rejected:?}");
    open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap().newest.map(|_| exported(&storage))
}

/// Copies a checkpoint with a fault at operation `at`, then without. Returns whether the fault was
/// reached, and whether the first attempt failed but left a whole checkpoint.
fn copy_with(sent: &[u8], at: u64, fault: Fault, seed: u64) -> (bool, bool) {
    let disk = SimulatedDisk::new(seed);
    disk.create_dir(CHECKPOINT).unwrap();
    let fault_at = disk.operations() + at;
    disk.inject(fault_at, fault);
    let is_copied = import(&disk, sent, 100_001).is_ok();
    let was_reached = disk.operations() > fault_at;
    disk.restart();
    let found = newest(&disk);
    assert!(found.is_some() || !is_copied, "the copy is lost");
    assert!(found.iter().all(|found| *found == sent), "the copy is a mix");
    // The next attempt is not disturbed by what remains.
    assert_eq!(import(&disk, sent, 777).unwrap(), 5);
    disk.restart();
    assert!(newest(&disk).is_some_and(|found| found == sent));
    (was_reached, found.is_some() && !is_copied)
}

#[test]
fn a_copy_that_fails_at_any_operation_leaves_all_or_nothing() {
    let (mut points, mut kept) = (0, 0);
    for (bytes, seed) in [(0, 1), (900, 2), (900, 3), (1_500_000, 4), (1_500_000, 5)] {
        let sent = exported(&checkpoint(bytes));
        for fault in [Fault::Crash, Fault::InputOutput, Fault::NoSpace] {
            for at in 0.. {
                let done = std::panic::catch_unwind(|| copy_with(&sent, at, fault, seed));
                let (was_reached, is_kept) =
                    done.unwrap_or_else(|_| panic!("seed {seed}: {fault:?} at {at}"));
                if !was_reached {
                    break;
                }
                (points, kept) = (points + 1, kept + u32::from(is_kept));
            }
        }
    }
    println!("{points} points, {kept} with a whole copy");
    assert!(points > 50 && kept > 0);
}

#[test]
fn a_folder_that_is_set_aside_keeps_its_files() {
    let built = Built::new(5, 10, 500, true);
    let before = built.storage.list(LOG).unwrap();
    built.storage.rename_dir("fleets/bus", "fleets/bus.aside").unwrap();
    assert!(built.storage.list(LOG).is_err());
    let after = built.storage.list("fleets/bus.aside/log").unwrap();
    assert!(before.len() > 1);
    assert_eq!(after, before);
}
