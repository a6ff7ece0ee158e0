//! Real files: a log and its checkpoint across restarts, and a folder that is used twice.

use std::fs;
use std::sync::Arc;

use shoal_position_log::{
    CheckpointHeader, CheckpointWriter, DirectoryLock, EpochState, FileStorage, Group, LogError,
    LogWriter, Manifest, ManifestEntry, PastTerm, ProducerState, ReadMode, Retention, Section,
    Storage, Terms, create_log, decode_producers, open_newest,
};
use shoal_testkit::Random;

use crate::sample::{CHECKPOINT, LOG, cycle, fleet, open, options, reader, recover};

#[test]
fn a_log_continues_across_restarts() {
    let folder = tempfile::tempdir().unwrap();
    let _lock = DirectoryLock::acquire(folder.path(), "test").unwrap();
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder.path()));
    create_log(&*storage, LOG).unwrap();
    let mut chance = Random::new(1);
    let cycles: Vec<_> = (1..=300).map(|epoch| cycle(&mut chance, epoch, 9_000)).collect();
    let mut group = Group::new();
    for (run, part) in cycles.chunks(100).enumerate() {
        let mut log = open(&storage, options(256 << 10), 10 + run as u64).unwrap();
        assert_eq!(log.term(), [10, 10, 12][run]);
        for some in part.chunks(7) {
            some.iter().for_each(|cycle| cycle.append_to(&mut group));
            let written = log.write(&mut group).unwrap();
            assert_eq!(log.sync().unwrap(), written);
        }
        if run == 0 {
            log.close().unwrap();
        }
    }
    let mut read = 0;
    let recovered = recover(&storage, 0, |it| {
        assert!(cycles[read].is(it), "cycle {read}");
        read += 1;
    });
    let recovered = recovered.unwrap();
    assert_eq!((read, recovered.end().epoch), (300, 300));
    assert_eq!(recovered.ended_terms(), [PastTerm { term: 10, last_epoch: 200 }]);
    assert!(!recovered.was_clean() && recovered.torn_tail().is_none());
    assert!(recovered.segments().len() > 3);
    let mut terms = Terms::new(10, Vec::new());
    terms.extend(recovered.ended_terms(), 13);
    assert_eq!(terms.judge(10, 201), EpochState::Lost { last_epoch: 200 });
}

#[test]
fn what_was_sealed_without_recycling_leaves_no_byte() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder.path()));
    create_log(&*storage, LOG).unwrap();
    let mut log = open(&storage, options(64 << 10), 1).unwrap();
    let (mut chance, mut group) = (Random::new(2), Group::new());
    let mut write = |log: &mut LogWriter, epochs: std::ops::RangeInclusive<u64>| {
        for epoch in epochs {
            cycle(&mut chance, epoch, 9_000).append_to(&mut group);
            log.write(&mut group).unwrap();
        }
        log.sync().unwrap();
    };
    let files = || storage.list(LOG).unwrap();
    write(&mut log, 1..=40);
    log.retire(20, &Retention::default(), 0).unwrap();
    let spares = |files: Vec<String>| files.iter().filter(|name| name.contains("spare")).count();
    assert!(spares(files()) > 0, "{:?}", files());
    log.recycle(false).unwrap();
    assert_eq!(spares(files()), 0);
    assert_eq!(log.seal().unwrap().epoch, 40);
    write(&mut log, 41..=42);
    log.retire(41, &Retention::default(), 0).unwrap();
    assert_eq!(log.segments().next().unwrap().epoch_before, 40);
    // The other file is the bounds file.
    assert_eq!((spares(files()), files().len()), (0, log.segments().count() + 1));
    log.recycle(true).unwrap();
    log.close().unwrap();
    let mut epochs = Vec::new();
    recover(&storage, 41, |it| epochs.push(it.header.epoch)).unwrap();
    assert_eq!(epochs, [42]);
}

#[test]
fn a_checkpoint_and_the_rest_of_the_log_are_the_state() {
    let folder = tempfile::tempdir().unwrap();
    let storage: Arc<dyn Storage> = Arc::new(FileStorage::new(folder.path()));
    create_log(&*storage, LOG).unwrap();
    storage.create_dir(CHECKPOINT).unwrap();
    let mut log = open(&storage, options(64 << 10), 1).unwrap();
    let (mut chance, mut group) = (Random::new(2), Group::new());
    let producer = |number: u64| ProducerState {
        producer: format!("p{number}"),
        greatest: 100 + number,
        open: (0..number % 4).collect(),
    };
    let blob: Vec<u8> = (0..3_000_000).map(|_| chance.word() as u8).collect();
    for epoch in 1..=90 {
        cycle(&mut chance, epoch, 9_000).append_to(&mut group);
        log.write(&mut group).unwrap();
        if epoch % 30 == 0 {
            let position = log.sync().unwrap();
            let header =
                CheckpointHeader { fleet: fleet(), term: 1, epoch, clock_ms: -5, position };
            let past = [PastTerm { term: 9, last_epoch: 3 }];
            let mut file =
                CheckpointWriter::create(storage.clone(), CHECKPOINT, &header, &past, 0).unwrap();
            file.producers((0..50_000).map(producer)).unwrap();
            file.section(16, &blob).unwrap();
            file.section(17, &[]).unwrap();
            let summary = file.finish().unwrap();
            assert_eq!(summary.needed_epoch, [0, 30, 60][epoch as usize / 30 - 1]);
            log.retire(summary.needed_epoch, &Retention::default(), 0).unwrap();
        }
    }
    log.close().unwrap();
    let found = open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap();
    let mut checkpoint = found.newest.unwrap();
    assert_eq!((checkpoint.header().epoch, found.needed_epoch), (90, 60));
    assert_eq!(checkpoint.past_terms(), [PastTerm { term: 9, last_epoch: 3 }]);
    let (mut producers, mut sections) = (Vec::new(), Vec::new());
    while let Some(section) = checkpoint.next_section().unwrap() {
        match section {
            Section::Producers(bytes) => producers.extend(decode_producers(bytes)),
            Section::Server { kind, bytes } => sections.push((kind, bytes.to_vec())),
        }
    }
    assert!(producers.into_iter().map(Result::unwrap).eq((0..50_000).map(producer)));
    assert_eq!(sections, [(16, blob), (17, Vec::new())]);
    let mut epochs = Vec::new();
    let recovered = recover(&storage, 60, |it| epochs.push(it.header.epoch)).unwrap();
    assert!(epochs.into_iter().eq(61..=90) && recovered.was_clean());
    assert!(matches!(reader(&storage, 0, ReadMode::Recover), Err(LogError::Gap { .. })));
    let names: Vec<_> = fs::read_dir(folder.path().join(LOG)).unwrap().collect();
    assert!(names.len() < 13, "{names:?}");
}

#[test]
fn the_manifest_is_replaced_whole() {
    let folder = tempfile::tempdir().unwrap();
    let storage = FileStorage::new(folder.path());
    assert_eq!(Manifest::load(&storage).unwrap(), None);
    let entry = ManifestEntry { fleet: fleet(), description: b"options".to_vec() };
    for count in [0, 1, 63, 2] {
        let manifest = Manifest { fleets: vec![entry.clone(); count] };
        manifest.store(&storage).unwrap();
        assert_eq!(Manifest::load(&storage).unwrap(), Some(manifest));
    }
    fs::write(folder.path().join("fleets.manifest"), b"junk").unwrap();
    let error = Manifest::load(&storage).unwrap_err().to_string();
    assert!(error.contains("fleets.manifest"), "{error}");
}
