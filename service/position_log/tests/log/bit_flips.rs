//! Flips each bit of a small log and of a checkpoint. The flip must be harmless, be reported with
//! its place, or lie in the torn tail.

use std::sync::Arc;

use shoal_position_log::{
    CheckpointHeader, CheckpointWriter, LogError, PastTerm, Position, ProducerState, ReadMode,
    SimulatedDisk, Storage, open_newest,
};

use crate::built::{Built, Outcome};
use crate::sample::{CHECKPOINT, fleet};

/// Names of a segment in a message.
fn is_named(error: &LogError) -> bool {
    let text = error.to_string();
    text.contains(".segment") && (text.contains("byte") || text.contains("version"))
}

fn flip_every_bit(is_closed: bool, seed: u64) {
    let built = Built::new(seed, 5, 2_500, is_closed);
    let segments = built.segments();
    assert!(segments.len() >= 2, "the log must span segments");
    let all = built.cycles.len();
    let (mut found, mut torn, mut harmless) = (0, 0, 0);
    for path in &segments {
        let bytes = built.disk.bytes(path).unwrap();
        let is_used = |bit: &usize| bytes[bit / 8 / 512 * 512..][..512].iter().any(|it| *it != 0);
        // Of sectors without content one bit of each byte.
        for bit in (0..bytes.len() * 8).filter(|bit| bit % 8 == 3 || is_used(bit)) {
            built.disk.flip(path, bit);
            let Outcome { cycles, end } = built.read(ReadMode::Recover);
            match end {
                Ok(_) if cycles == all => harmless += 1,
                Ok(recovered) => {
                    // Nothing after the last frame says that it was synced.
                    assert!(!is_closed, "{path} bit {bit}: {cycles} of {all} cycles, no error");
                    let end = recovered.end();
                    let is_last = Some(path) == segments.last() && bit as u64 / 8 >= end.offset;
                    assert!(is_last, "{path} bit {bit}: the log ends at {end:?}");
                    torn += 1;
                }
                Err(error) => {
                    assert!(is_named(&error), "{path} bit {bit}: {error}");
                    found += 1;
                }
            }
            built.disk.flip(path, bit);
        }
    }
    println!("{found} found, {torn} in the torn tail, {harmless} harmless");
    assert!(found > 50_000 && harmless > 10_000 && (torn > 0) != is_closed);
}

#[test]
fn a_bit_of_a_log_that_was_cut_off() {
    flip_every_bit(false, 1);
}

#[test]
fn a_bit_of_a_log_that_was_closed() {
    flip_every_bit(true, 3);
}

#[test]
fn a_bit_of_a_checkpoint() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    storage.create_dir(CHECKPOINT).unwrap();
    let past = [PastTerm { term: 4, last_epoch: 9 }];
    let producer = ProducerState { producer: "p".into(), greatest: 7, open: vec![3, 5] };
    for epoch in [1, 2] {
        let position = Position { segment: 1, offset: 4096, sequence: 2, epoch };
        let header = CheckpointHeader { fleet: fleet(), term: 1, epoch, clock_ms: 0, position };
        let mut file =
            CheckpointWriter::create(storage.clone(), CHECKPOINT, &header, &past, 0).unwrap();
        file.producers([producer.clone()]).unwrap();
        file.section(16, &[epoch as u8; 900]).unwrap();
        file.finish().unwrap();
    }
    let path = format!("{CHECKPOINT}/0000000000000002.checkpoint");
    let (mut found, mut harmless) = (0, 0);
    for bit in 0..disk.bytes(&path).unwrap().len() * 8 {
        disk.flip(&path, bit);
        let checkpoints = open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap();
        let mut reader = checkpoints.newest.expect("the older one is whole");
        if let [rejected] = &checkpoints.rejected[..] {
            assert_eq!((rejected.epoch, reader.header().epoch), (2, 1));
            assert!(rejected.error.to_string().contains(&path), "{}", rejected.error);
            found += 1;
        } else {
            assert_eq!((reader.header().epoch, reader.past_terms()), (2, &past[..]));
            while reader.next_section().unwrap().is_some() {}
            harmless += 1;
        }
        disk.flip(&path, bit);
    }
    println!("{found} found, {harmless} harmless");
    assert!(found > 40_000, "{found} found, {harmless} harmless");
}
