//! Released bytes, in `tests/golden`: they stay readable, and the writer still writes them.
//!
//! See `GoldenFolder`.

use std::sync::Arc;

use shoal_position_log::{
    CheckpointHeader, CheckpointWriter, CycleHeader, CycleOutcome, EVERY_ROW, FrameKind, Group,
    LoggedCycle, LoggedNames, Manifest, ManifestEntry, ObjectIds, PastTerm, Position,
    ProducerState, ReadMode, Section, SimulatedDisk, Storage, create_log, decode_producers,
    open_newest,
};
use shoal_testkit::GoldenFolder;

use crate::sample::{
    CHECKPOINT, LOG, OwnedBody, OwnedCycle, OwnedNames, OwnedRequest, fleet, open, options, reader,
    recover,
};

const GOLDEN: GoldenFolder = GoldenFolder { package: env!("CARGO_MANIFEST_DIR") };

/// Two cycles with every kind of request.
fn cycles() -> Vec<OwnedCycle> {
    let header = |epoch| CycleHeader {
        epoch,
        system_ms: 1_700_000_000_000 + epoch as i64,
        time_max_ms: 1_700_000_005_000,
    };
    let batch = |name: &str, number| Some((name.to_owned(), number));
    let request = |body, batch| OwnedRequest { body, batch };
    let requests = vec![
        request(OwnedBody::Block(b"a client's block".to_vec()), batch("depot-7", 1)),
        request(OwnedBody::Rows(b"rows".to_vec()), None),
        request(OwnedBody::Remove(vec![1, 0x0102_0304_0506_0708]), batch("bücher", 99)),
        request(OwnedBody::Clear, None),
    ];
    vec![
        OwnedCycle { header: header(41), requests, outcome: None, names: None },
        OwnedCycle { header: header(43), requests: Vec::new(), outcome: None, names: None },
    ]
}

/// The same, with what they did.
fn settled_cycles() -> Vec<OwnedCycle> {
    let refused = [vec![(0, EVERY_ROW), (1, 0), (1, 7)], Vec::new()];
    let outcome = |refused| Some((1_700_000_000_050, refused));
    let settled = |(cycle, refused)| OwnedCycle { outcome: outcome(refused), ..cycle };
    cycles().into_iter().zip(refused).map(settled).collect()
}

/// The same, with names and forgotten numbers.
fn naming_cycles() -> Vec<OwnedCycle> {
    let names = [
        OwnedNames::new(7, &["truck-42", "Käthe", &"n".repeat(256)], &[1, 6]),
        OwnedNames::new(0, &[], &[3]),
    ];
    let named = |(cycle, names)| OwnedCycle { names: Some(names), ..cycle };
    settled_cycles().into_iter().zip(names).map(named).collect()
}

#[test]
fn cycles_with_outcomes() {
    assert_records("settled_cycles_v1.records", &settled_cycles());
}

#[test]
fn cycles_with_names() {
    assert_records("naming_cycles_v1.records", &naming_cycles());
}

fn assert_records(name: &str, cycles: &[OwnedCycle]) {
    let mut group = Group::new();
    cycles.iter().for_each(|cycle| cycle.append_to(&mut group));
    GOLDEN.assert_is(name, group.payload());
    let golden = GOLDEN.bytes(name);
    let mut rest = &golden[..];
    for expected in cycles {
        let cycle = LoggedCycle::parse(1, rest).unwrap();
        assert!(expected.is(&cycle), "{cycle:?}");
        rest = &rest[cycle.encoded().len()..];
    }
    assert!(rest.is_empty());
}

#[test]
fn wrong_names_are_neither_written_nor_read() {
    let cycle = &naming_cycles()[0];
    let mut group = Group::new();
    cycle.append_to(&mut group);
    let sound = group.payload().to_vec();
    let texts = sound.windows(8).position(|bytes| bytes == b"truck-42").unwrap();
    // A name of no bytes, of more than its record, of more than 256, and one that is no UTF-8.
    let cases = [(texts - 2, 0), (texts - 1, 9), (texts - 1, 1), (texts, 0xff)];
    // A wrong number of names, and one name of number 0.
    let cases = cases.into_iter().chain([(56, 2), (48, 0)]);
    for (place, byte) in cases {
        let mut bytes = sound.clone();
        bytes[place] = byte;
        assert!(LoggedCycle::parse(1, &bytes).is_err(), "byte {place}");
    }
    let view = OwnedNames::new(7, &["a"], &[]);
    for wrong in [
        LoggedNames { count: 2, ..view.view() },
        LoggedNames { first_number: 0, ..view.view() },
        LoggedNames { first_number: u64::MAX, ..view.view() },
        LoggedNames { texts: &[2, 0, b'a'], ..view.view() },
        LoggedNames { forgotten: ObjectIds::Ids(&[2, 2]), ..view.view() },
        LoggedNames { forgotten: ObjectIds::Ids(&[0]), ..view.view() },
    ] {
        let outcome = CycleOutcome { clock_ms: 0, refused: &[], names: Some(wrong) };
        let appended = Group::new().append_settled(cycle.header, Some(outcome), cycle.views());
        assert!(appended.is_err(), "{wrong:?}");
    }
}

#[test]
fn misplaced_refused_rows_are_neither_written_nor_read() {
    let cycle = &settled_cycles()[0];
    let requests = cycle.views();
    for refused in [
        [(1, 0), (1, 0)],
        [(1, 1), (1, 0)],
        [(1, 0), (0, 0)],
        [(1, 0), (1, EVERY_ROW)],
        [(1, 0), (4, 0)],
    ] {
        let mut group = Group::new();
        let outcome = CycleOutcome { clock_ms: 0, refused: &refused, names: None };
        assert!(group.append_settled(cycle.header, Some(outcome), requests.clone()).is_err());
        let sound = CycleOutcome { clock_ms: 0, refused: &[(0, 0), (1, 0)], names: None };
        group.append_settled(cycle.header, Some(sound), requests.clone()).unwrap();
        let mut bytes = group.payload().to_vec();
        LoggedCycle::parse(1, &bytes).unwrap();
        let at = bytes.len() - 16;
        for (place, number) in (at..).step_by(4).zip(refused.map(|it| [it.0, it.1]).concat()) {
            bytes[place..place + 4].copy_from_slice(&number.to_le_bytes());
        }
        assert!(LoggedCycle::parse(1, &bytes).is_err(), "{refused:?}");
        // More refused rows than the record has bytes.
        bytes[36..40].copy_from_slice(&u32::MAX.to_le_bytes());
        assert!(LoggedCycle::parse(1, &bytes).is_err());
    }
}

#[test]
fn log_version_1() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    create_log(&*storage, LOG).unwrap();
    let mut log = open(&storage, options(16 << 10), 0x7e57).unwrap();
    let mut group = Group::new();
    cycles().iter().for_each(|cycle| cycle.append_to(&mut group));
    log.write(&mut group).unwrap();
    log.close().unwrap();
    for number in 1..=2 {
        let bytes = disk.bytes(&format!("{LOG}/000000000000000{number}.segment")).unwrap();
        GOLDEN.assert_is(&format!("log_v1_{number}.segment"), &bytes);
    }
}

#[test]
fn log_version_1_is_read() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    create_log(&*storage, LOG).unwrap();
    for number in 1..=2 {
        let bytes = GOLDEN.bytes(&format!("log_v1_{number}.segment"));
        disk.put(&format!("{LOG}/000000000000000{number}.segment"), &bytes);
    }
    let mut expected = cycles().into_iter();
    let recovered = recover(&storage, 0, |cycle| assert!(expected.next().unwrap().is(cycle)));
    let recovered = recovered.unwrap();
    assert!(expected.next().is_none() && recovered.was_clean());
    assert_eq!(recovered.term(), Some(0x7e57));
    let mut frames = reader(&storage, 0, ReadMode::Inspect).unwrap();
    let mut kinds = Vec::new();
    while let Some(frame) = frames.next_frame().unwrap() {
        kinds.push((frame.offset, frame.header.kind));
    }
    let expected = [
        (4096, FrameKind::Start as u16),
        (8192, FrameKind::Cycles as u16),
        (12288, FrameKind::Seal as u16),
        (4096, FrameKind::Clean as u16),
    ];
    assert_eq!(kinds, expected);
}

#[test]
fn checkpoint_version_1() {
    let disk = SimulatedDisk::new(1);
    let storage: Arc<dyn Storage> = Arc::new(disk.clone());
    storage.create_dir(CHECKPOINT).unwrap();
    let position = Position { segment: 3, offset: 8192, sequence: 17, epoch: 44 };
    let header =
        CheckpointHeader { fleet: fleet(), term: 5, epoch: 43, clock_ms: 1_700_000, position };
    let past = [PastTerm { term: 2, last_epoch: 9 }, PastTerm { term: 3, last_epoch: 30 }];
    let producers = [
        ProducerState { producer: "depot-7".into(), greatest: 1, open: Vec::new() },
        ProducerState { producer: "bücher".into(), greatest: 99, open: vec![7, 98] },
    ];
    let mut file =
        CheckpointWriter::create(storage.clone(), CHECKPOINT, &header, &past, 0).unwrap();
    file.producers(producers.clone()).unwrap();
    file.section(16, b"rows of the first table").unwrap();
    file.section(65535, &[]).unwrap();
    file.finish().unwrap();
    let path = format!("{CHECKPOINT}/0000000000000043.checkpoint");
    GOLDEN.assert_is("state_v1.checkpoint", &disk.bytes(&path).unwrap());
    let mut newest = open_newest(&storage, CHECKPOINT, Some(&fleet())).unwrap().newest.unwrap();
    assert_eq!((newest.header(), newest.past_terms()), (&header, &past[..]));
    let Some(Section::Producers(bytes)) = newest.next_section().unwrap() else { panic!() };
    assert!(decode_producers(bytes).map(Result::unwrap).eq(producers));
    let section = newest.next_section().unwrap();
    assert_eq!(section, Some(Section::Server { kind: 16, bytes: b"rows of the first table" }));
    let section = newest.next_section().unwrap();
    assert_eq!(section, Some(Section::Server { kind: 65535, bytes: b"" }));
    assert_eq!(newest.next_section().unwrap(), None);
}

#[test]
fn manifest_version_1() {
    let disk = SimulatedDisk::new(1);
    let entry = ManifestEntry { fleet: fleet(), description: b"event_clock = true".to_vec() };
    let manifest = Manifest { fleets: vec![entry] };
    manifest.store(&disk).unwrap();
    GOLDEN.assert_is("fleets_v1.manifest", &disk.bytes("fleets.manifest").unwrap());
    assert_eq!(Manifest::load(&disk).unwrap(), Some(manifest));
}
