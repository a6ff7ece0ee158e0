//! Reads a log while a writer is active, as a follower does; and groups larger than a segment.

use std::cell::Cell;
use std::sync::Arc;

use shoal_position_log::{
    CycleSource, Group, LogReader, LoggedCycle, Position, ReadMode, ReadOptions, RequestBody,
    Retention, SimulatedDisk, Storage, create_log,
};
use shoal_testkit::Random;

use crate::built::Built;
use crate::sample::{
    LOG, OwnedBody, OwnedCycle, OwnedRequest, cycle, open, options, reader, recover,
};

#[test]
fn a_reader_follows_a_writer_across_segments() {
    let built = Built::new(1, 0, 1, false);
    let mut log = open(&built.storage, options(16 << 10), 2).unwrap();
    let mut follower = reader(&built.storage, 0, ReadMode::Through(0)).unwrap();
    let (mut chance, mut group, mut read) = (Random::new(3), Group::new(), 0);
    let mut cycles: Vec<OwnedCycle> = Vec::new();
    for round in 0..200 {
        for _ in 0..chance.below(4) {
            let cycle = cycle(&mut chance, cycles.len() as u64 + 1, 2_500);
            cycle.append_to(&mut group);
            cycles.push(cycle);
        }
        let written = log.write(&mut group).unwrap();
        // What is written and not synced must not be read.
        follower.read_through(log.synced());
        if chance.below(2) == 0 {
            follower.read_through(log.sync().unwrap());
            assert_eq!(log.synced(), written);
        }
        // Sometimes only a part of what there is.
        let limit = if chance.below(3) == 0 { 1 } else { usize::MAX };
        for _ in 0..limit {
            let Some(cycle) = follower.next_cycle().unwrap() else { break };
            assert!(cycles[read].is(&cycle), "round {round} cycle {read}");
            read += 1;
        }
        assert!(read as u64 <= log.synced().epoch);
        log.retire(read as u64, &Retention::default(), 0).unwrap();
    }
    follower.read_through(log.sync().unwrap());
    while let Some(cycle) = follower.next_cycle().unwrap() {
        assert!(cycles[read].is(&cycle));
        read += 1;
    }
    assert_eq!(read, cycles.len());
}

#[test]
fn a_log_that_is_streamed_in_parts_is_the_log() {
    let built = Built::new(5, 25, 9_000, true);
    let mode = ReadMode::Through(u64::MAX);
    let mut whole = reader(&built.storage, 0, ReadMode::Inspect).unwrap();
    let read = ReadOptions { fleet: None, after_epoch: 0, mode };
    let mut parts = LogReader::open_streamed(built.storage.clone(), LOG, read).unwrap();
    parts.read_through(whole_end(&built));
    let mut chance = Random::new(6);
    while let Some(frame) = whole.next_frame().unwrap() {
        assert_eq!(parts.next_header().unwrap(), Some(frame.header));
        // Sometimes only the beginning is read.
        let wanted = if chance.below(4) == 0 { chance.below(100) } else { usize::MAX };
        let mut payload = Vec::new();
        while !parts.is_payload_read() && payload.len() < wanted {
            let part = parts.payload_part(1 + chance.below(7_000)).unwrap();
            assert!(!part.is_empty());
            payload.extend_from_slice(part);
        }
        assert!(frame.payload().starts_with(&payload));
        assert!(payload.len() >= wanted || payload.len() == frame.payload().len());
    }
    assert_eq!(parts.next_header().unwrap(), None);
}

fn whole_end(built: &Built) -> Position {
    recover(&built.storage, 0, |_| {}).unwrap().end()
}

#[test]
fn a_stream_of_records_gives_the_same_log() {
    let (leader, follower) = (Built::new(4, 10, 2_000, true), Built::new(1, 0, 1, false));
    let mut log = open(&follower.storage, options(64 << 10), 7).unwrap();
    let mut group = Group::new();
    let each = |cycle: &LoggedCycle<'_>| {
        let sent = cycle.encoded().to_vec();
        group.append_logged(&LoggedCycle::parse(cycle.term, &sent).unwrap()).unwrap();
    };
    recover(&leader.storage, 0, each).unwrap();
    log.write(&mut group).unwrap();
    log.close().unwrap();
    let mut read = leader.cycles.iter();
    recover(&follower.storage, 0, |cycle| assert!(read.next().unwrap().is(cycle))).unwrap();
    assert!(read.next().is_none());
}

#[test]
fn a_group_larger_than_a_segment_gets_its_own() {
    let built = Built::new(2, 1, 100, false);
    let mut log = open(&built.storage, options(16 << 10), 2).unwrap();
    let (mut group, mut epoch) = (Group::new(), built.cycles.len() as u64);
    let mut sizes = Vec::new();
    for bytes in [10, 5_000_000, 10, 70_000, 20_000] {
        epoch += 1;
        let body = OwnedBody::Block(vec![epoch as u8; bytes]);
        let header = cycle(&mut Random::new(1), epoch, 2).header;
        let requests = vec![OwnedRequest { body, batch: None }];
        OwnedCycle { header, requests, outcome: None, names: None }.append_to(&mut group);
        log.write(&mut group).unwrap();
        sizes.push(bytes);
    }
    log.sync().unwrap();
    let mut read = Vec::new();
    let each = |cycle: &LoggedCycle<'_>| {
        for request in cycle.requests() {
            let RequestBody::Block(bytes) = request.body else { panic!("{request:?}") };
            assert!(bytes.iter().all(|byte| u64::from(*byte) == cycle.header.epoch));
            read.push(bytes.len());
        }
    };
    recover(&built.storage, built.cycles.len() as u64, each).unwrap();
    assert_eq!(read, sizes);
    // Only segments of the usual size are recycled.
    log.retire(u64::MAX, &Retention::default(), 0).unwrap();
    assert!(log.bytes() <= 32 << 10);
}

#[test]
fn a_segment_that_is_no_longer_wanted_leaves_no_file() {
    let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
    create_log(&*storage, LOG).unwrap();
    let mut log = open(&storage, options(64 << 20), 0).unwrap();
    let before = storage.list(LOG).unwrap();
    // At once, and after the content was written.
    for steps in 0..2 {
        let asked = Cell::new(0);
        let job = log.spare_job().unwrap();
        let stopped = job.run_while(|| asked.replace(asked.get() + 1) < steps).unwrap_err();
        assert!(stopped.to_string().contains("prepare"), "{stopped}");
        assert_eq!((asked.get(), storage.list(LOG).unwrap()), (steps + 1, before.clone()));
    }
    log.spare_job().unwrap().run().unwrap();
    assert_eq!(storage.list(LOG).unwrap().len(), before.len() + 1);
}

#[test]
fn segments_grow_with_the_log() {
    const LARGEST: u64 = 2 << 20;
    let storage: Arc<dyn Storage> = Arc::new(SimulatedDisk::new(1));
    create_log(&*storage, LOG).unwrap();
    let (mut group, mut epoch, mut sizes) = (Group::new(), 0, Vec::new());
    for life in 0..4 {
        let mut log = open(&storage, options(LARGEST), life).unwrap();
        // The next segment is ready, and none is prepared in vain.
        let ready = log.spare_job().map(|job| job.run().unwrap());
        let mut late = None;
        for _ in 0..30 {
            epoch += 1;
            let body = OwnedBody::Block(vec![epoch as u8; 60_000]);
            let header = cycle(&mut Random::new(1), epoch, 2).header;
            let requests = vec![OwnedRequest { body, batch: None }];
            OwnedCycle { header, requests, outcome: None, names: None }.append_to(&mut group);
            log.write(&mut group).unwrap();
            if let Some(job) = log.spare_job().filter(|_| late.is_none() && life == 1) {
                late = Some(job.run().unwrap());
            }
        }
        ready.into_iter().chain(late).for_each(|spare| log.add_spare(spare));
        sizes = log.segments().map(|segment| segment.bytes).collect();
        log.sync().unwrap();
        log.close().unwrap();
    }
    let expected: Vec<u64> =
        (0..).map(|step| (256_u64 << 10 << step.min(3)).min(LARGEST)).take(sizes.len()).collect();
    assert_eq!(sizes, expected);
    assert!(sizes.len() >= 6, "{sizes:?}");
    let mut read = 0;
    recover(&storage, 0, |_| read += 1).unwrap();
    assert_eq!(read, epoch);
    let spares = storage.list(LOG).unwrap().iter().filter(|name| name.contains("spare")).count();
    assert!(spares <= 1, "{spares} spares");
}
