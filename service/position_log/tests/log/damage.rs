//! Files that are absent, exchanged, old, foreign or of another version; and the repair of a log.

use std::sync::Arc;

use shoal_position_log::{
    FleetIdentity, Group, LogError, LogOptions, LogReader, LogWriter, ReadMode, Retention, Storage,
    list_segments, repair,
};
use shoal_testkit::Random;

use crate::built::Built;
use crate::sample::{LOG, cycle, open, options, reader, recover};
use crate::seal::{seal_segment, set};

fn assert_says(text: &str, parts: &[&str]) {
    assert!(parts.iter().all(|part| text.contains(part)), "{text}\nlacks one of {parts:?}");
}

#[test]
fn a_segment_that_is_absent_is_named() {
    for removed in 0..4 {
        let built = Built::new(1, 20, 1_000, false);
        let segments = built.segments();
        assert!(segments.len() > 5);
        // The first, two others, and the last.
        let path = &segments[[0, 1, 3, segments.len() - 1][removed]];
        built.storage.remove(path).unwrap();
        let number = path.trim_end_matches(".segment").rsplit('/').next().unwrap();
        assert_says(&built.error(), &[number, "estore the"]);
    }
}

#[test]
fn a_log_without_any_segment_is_damaged_until_the_loss_is_accepted() {
    for are_bounds_left in [true, false] {
        let built = Built::new(1, 20, 1_000, true);
        let first = built.segments()[0].clone();
        for name in built.storage.list(LOG).unwrap() {
            if name != "bounds" || !are_bounds_left {
                built.storage.remove(&format!("{LOG}/{name}")).unwrap();
            }
        }
        let named = if are_bounds_left { &first } else { LOG };
        assert_says(&built.error(), &[&format!("{named} is missing"), "Restore the"]);
        // From a checkpoint of epoch 9.
        repair(built.storage.clone(), LOG, options(16 << 10), 9, 5).unwrap();
        let recovered = reader(&built.storage, 9, ReadMode::Recover).unwrap().finish().unwrap();
        assert_eq!((recovered.end().epoch, recovered.term()), (9, Some(5)));
    }
}

#[test]
fn damaged_bounds_are_replaced_by_a_repair() {
    let built = Built::new(1, 20, 1_000, true);
    let path = format!("{LOG}/bounds");
    built.disk.flip(&path, 8 * 20);
    assert_says(&built.error(), &[&path, "damaged"]);
    repair(built.storage.clone(), LOG, options(16 << 10), 0, 5).unwrap();
    assert_eq!(built.read(ReadMode::Recover).cycles, built.cycles.len());
}

#[test]
fn a_log_that_is_closed_while_segments_are_retired_is_whole() {
    for untaken in 1..4 {
        let built = Built::new(1, 20, 1_000, true);
        let mut log = open(&built.storage, options(16 << 10), 2).unwrap();
        let epoch = built.cycles.len() as u64;
        let retirement = log.retirement(epoch, &Retention::default(), 0).unwrap();
        // Another thread has retired some segments, and their results are not passed back.
        assert!(retirement.take(untaken).all(|retired| retired.is_ok()));
        log.close().unwrap();
        let read = reader(&built.storage, epoch, ReadMode::Recover).unwrap();
        assert!(read.finish().unwrap().was_clean());
    }
}

#[test]
fn a_log_that_was_closed_ends_where_it_did() {
    let built = Built::with(1, 4, 1_000, true, options(256 << 10));
    assert_eq!(built.segments().len(), 1);
    let path = &built.segments()[0];
    let bytes = built.disk.bytes(path).unwrap();
    // Removes all frames, including their statements of what was synced.
    built.disk.put(path, &bytes[..4096]);
    assert_says(&built.error(), &["the log ends at epoch", "was synced"]);
}

#[test]
fn an_exchanged_segment_is_found() {
    let built = Built::new(2, 20, 3_000, true);
    let segments = built.segments();
    let (one, other) = (&segments[1], &segments[3]);
    let swap = format!("{LOG}/swap");
    for (from, to) in [(one, &swap), (other, one), (&swap, other)] {
        built.storage.rename(from, to).unwrap();
    }
    assert_says(&built.error(), &[one, "another segment"]);
}

#[test]
fn an_old_copy_of_a_segment_is_found() {
    let built = Built::new(3, 5, 3_000, false);
    let path = built.segments().last().unwrap().clone();
    let old = built.disk.bytes(&path).unwrap();
    let (mut group, mut log) = (Group::new(), open(&built.storage, options(16 << 10), 2).unwrap());
    for epoch in 100..110 {
        cycle(&mut Random::new(epoch), epoch, 3_000).append_to(&mut group);
        log.write(&mut group).unwrap();
        log.sync().unwrap();
    }
    drop(log);
    built.disk.put(&path, &old);
    assert_says(&built.error(), &[&path, "truncate the log here"]);
}

#[test]
fn a_frame_of_another_history_is_found() {
    // Equal seeds give equal salts: only the chain of checksums tells the two logs apart.
    let (one, other) = (Built::new(4, 6, 900, true), Built::new(7, 6, 900, true));
    let path = &one.segments()[0];
    let (mut bytes, foreign) = (one.disk.bytes(path).unwrap(), other.disk.bytes(path).unwrap());
    assert_ne!(bytes[8192..12288], foreign[8192..12288]);
    set(&mut bytes, 8192, &foreign[8192..12288]);
    one.disk.put(path, &bytes);
    // The foreign frame itself continues the frame before it; the next one shows the exchange.
    let error = recover(&one.storage, 0, |_| {}).unwrap_err().to_string();
    assert_says(&error, &[path, "byte 12288", "does not continue"]);
}

#[test]
fn a_short_file_is_found() {
    let built = Built::new(6, 20, 3_000, true);
    let path = &built.segments()[2];
    let bytes = built.disk.bytes(path).unwrap();
    for length in [0, 100, 4096, bytes.len() - 4096] {
        built.disk.put(path, &bytes[..length]);
        assert_says(&built.error(), &[path]);
    }
}

/// Length of a file without the zeros at its end.
fn used(bytes: &[u8]) -> usize {
    bytes.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1)
}

#[test]
fn a_file_that_ends_behind_its_last_frame_is_whole() {
    for is_closed in [false, true] {
        let built = Built::new(5, 12, 3_000, is_closed);
        let whole = built.read(ReadMode::Recover);
        let end = whole.end.unwrap().end();
        let segments = built.segments();
        let bytes: Vec<Vec<u8>> =
            segments.iter().map(|path| built.disk.bytes(path).unwrap()).collect();
        let last = segments.len() - 1;
        // Cuts each segment after the padding of its last frame and within the padding.
        for (index, cut) in
            (0..=last).flat_map(|it| [(it, used(&bytes[it])), (it, used(&bytes[it]) + 7)])
        {
            built.disk.put(&segments[index], &bytes[index][..cut]);
        }
        for mode in [ReadMode::Inspect, ReadMode::Recover] {
            let read = built.read(mode);
            assert_eq!(read.cycles, built.cycles.len());
            assert_eq!(read.end.unwrap().end(), end);
        }
        // The next writer gives the last one its bytes back, and the log continues.
        drop(open(&built.storage, options(16 << 10), 3).unwrap());
        assert_eq!(built.disk.bytes(&segments[last]).unwrap().len(), bytes[last].len());
        assert_eq!(built.read(ReadMode::Recover).cycles, built.cycles.len());
    }
}

#[test]
fn a_file_that_ends_within_a_frame_is_damaged() {
    let built = Built::new(5, 12, 3_000, false);
    let path = built.segments().last().unwrap().clone();
    let bytes = built.disk.bytes(&path).unwrap();
    let frame = used(&bytes) / 4096 * 4096;
    for cut in [frame + 1, frame + 100, used(&bytes) - 1] {
        built.disk.put(&path, &bytes[..cut]);
        assert_says(&built.error(), &[&path, "ends within the frame", "are lost"]);
    }
    repair(built.storage.clone(), LOG, options(16 << 10), 0, 5).unwrap();
    // The last frame has one cycle or two.
    let kept = built.read(ReadMode::Recover).cycles;
    assert!((built.cycles.len() - 2..built.cycles.len()).contains(&kept), "{kept}");
}

#[test]
fn a_repair_completes_a_file_that_ends_within_its_last_page() {
    for rest in [1, 55, 4_095] {
        let built = Built::new(1, 20, 1_000, false);
        let path = built.segments()[0].clone();
        let mut bytes = built.disk.bytes(&path).unwrap();
        let (whole, last) = (bytes.len(), bytes.len() - 4_096);
        // Damage before it, and a rest of a frame in it.
        bytes[4_096 + 100] ^= 1;
        bytes.truncate(last + rest);
        bytes[last..].fill(0x55);
        built.disk.put(&path, &bytes);
        repair(built.storage.clone(), LOG, options(16 << 10), 0, 5).unwrap();
        assert_eq!(built.disk.bytes(&path).unwrap().len(), whole);
        reader(&built.storage, 0, ReadMode::Recover).unwrap().finish().unwrap();
        continue_log(&built.storage, 1);
        reader(&built.storage, 0, ReadMode::Recover).unwrap().finish().unwrap();
    }
}

#[test]
fn bytes_behind_a_segment_are_not_read() {
    let built = Built::new(5, 12, 3_000, false);
    let path = built.segments().last().unwrap().clone();
    let mut bytes = built.disk.bytes(&path).unwrap();
    bytes.resize(bytes.len() + (1 << 20), 7);
    built.disk.put(&path, &bytes);
    assert_eq!(built.read(ReadMode::Recover).cycles, built.cycles.len());
}

#[test]
fn another_version_and_another_fleet_are_refused() {
    let built = Built::new(7, 2, 500, true);
    let path = built.segments()[0].clone();
    let mut bytes = built.disk.bytes(&path).unwrap();
    bytes[8] = 2;
    seal_segment(&mut bytes, 0);
    built.disk.put(&path, &bytes);
    assert_says(&built.error(), &[&path, "version 2", "version 1"]);

    let fleet = FleetIdentity::new(9, "tram").unwrap();
    let built = Built::with(8, 2, 500, true, LogOptions { fleet, ..options(16 << 10) });
    assert_says(&built.error(), &["tram", "bus", "Move it back"]);
}

#[test]
fn unknown_content_with_right_checksums_is_named() {
    // Offsets of the kind of frame, the kind of record and the kind of a request.
    for (at, value, text) in
        [(8192 + 8, 77, "kind of frame: 77"), (8192 + 132, 78, "kind of record: 78")]
    {
        let built = Built::new(9, 1, 500, false);
        let path = built.segments()[0].clone();
        let mut bytes = built.disk.bytes(&path).unwrap();
        bytes[at] = value;
        seal_segment(&mut bytes, 0);
        built.disk.put(&path, &bytes);
        assert_says(&built.error(), &[&path, text, "byte"]);
    }
}

#[test]
fn a_checkpoint_beyond_the_log_is_an_error_until_the_loss_is_accepted() {
    let built = Built::new(10, 3, 500, false);
    let end = built.cycles.len() as u64;
    let behind = || reader(&built.storage, end + 5, ReadMode::Recover)?.finish();
    assert!(matches!(behind(), Err(LogError::Behind { .. })));
    repair(built.storage.clone(), LOG, options(16 << 10), end + 5, 9).unwrap();
    let recovered = behind().unwrap();
    assert_eq!((recovered.end().epoch, recovered.term()), (end + 5, Some(9)));
    // With an older checkpoint cycles are missing.
    let older = reader(&built.storage, end, ReadMode::Recover).and_then(LogReader::finish);
    assert!(matches!(older, Err(LogError::Gap { .. })), "{older:?}");
}

/// Damages one byte in each page of a log; a repair must make a log of the cycles before.
#[test]
fn a_repaired_log_holds_what_was_before_the_damage() {
    let count = Built::new(12, 12, 3_000, true).segments().len();
    assert!(count > 3);
    for (segment, page) in (0..count).flat_map(|it| (0..4).map(move |page| (it, page))) {
        let built = Built::new(12, 12, 3_000, true);
        let path = &built.segments()[segment];
        built.disk.flip(path, page * 4096 * 8 + 16 * 8);
        let before = built.read(ReadMode::Recover);
        let report = repair(built.storage.clone(), LOG, options(16 << 10), 0, 5);
        let Ok(report) = report else {
            assert_eq!((segment, page), (0, 0), "{report:?}");
            continue;
        };
        let after = built.read(ReadMode::Recover);
        assert_eq!(after.cycles, before.cycles, "{path} page {page}: {report:?}");
        let recovered = after.end.unwrap();
        assert_eq!(recovered.term(), Some(5));
        assert_eq!(recovered.end().epoch as usize, after.cycles);
        assert!(before.end.is_err() == (after.cycles < built.cycles.len()) || page > 0);
        continue_log(&built.storage, after.cycles as u64 + 1);
        for entry in list_segments(built.storage.clone(), LOG).unwrap() {
            entry.header.unwrap();
        }
    }
}

fn continue_log(storage: &Arc<dyn Storage>, epoch: u64) {
    let (mut group, mut log) = (Group::new(), open(storage, options(16 << 10), 2).unwrap());
    let cycles: Vec<_> =
        (epoch..epoch + 9).map(|epoch| cycle(&mut Random::new(epoch), epoch, 4_000)).collect();
    for cycle in &cycles {
        cycle.append_to(&mut group);
        log.write(&mut group).unwrap();
    }
    log.close().unwrap();
    let mut read = cycles.iter();
    recover(storage, epoch - 1, |it| assert!(read.next().unwrap().is(it))).unwrap();
    assert!(read.next().is_none());
}

#[test]
fn a_full_disk_is_reported_before_anything_is_written() {
    let built = Built::new(12, 1, 500, true);
    let mut log = open(&built.storage, options(16 << 10), 2).unwrap();
    let (mut group, mut epoch) = (Group::new(), 100);
    built.disk.set_capacity(64 << 10);
    let error = loop {
        cycle(&mut Random::new(epoch), epoch, 3_000).append_to(&mut group);
        epoch += 1;
        if let Err(error) = log.write(&mut group) {
            break error;
        }
    };
    assert_says(&error.to_string(), &["bytes are free", "Free space"]);
    assert!(error.is_recoverable() && log.stopped().is_none() && group.cycles() == 1);
    assert_eq!(log.sync().unwrap().epoch, epoch - 2);
    built.disk.set_capacity(u64::MAX);
    assert_eq!(log.write(&mut group).unwrap().epoch, epoch - 1);
    log.close().unwrap();
}

#[test]
fn wrong_input_changes_nothing() {
    let built = Built::new(13, 1, 500, true);
    let epoch = built.cycles.len() as u64;
    let mut log = open(&built.storage, options(16 << 10), 2).unwrap();
    let mut group = Group::new();
    let again = cycle(&mut Random::new(1), epoch, 10);
    again.append_to(&mut group);
    assert!(group.append(again.header, again.views()).is_err() && group.cycles() == 1);
    assert!(matches!(log.write(&mut group), Err(LogError::Input(_))) && group.cycles() == 1);
    group.clear();
    cycle(&mut Random::new(1), epoch + 1, 10).append_to(&mut group);
    log.write(&mut group).unwrap();
    log.close().unwrap();
    let recovered = recover(&built.storage, 0, |_| {}).unwrap();
    let storage = built.storage.clone();
    let opened = LogWriter::open(storage, LOG, options(4096), recovered.clone(), epoch + 1, 1);
    assert_says(&opened.unwrap_err().to_string(), &["4096"]);
    let opened = LogWriter::open(built.storage, LOG, options(16 << 10), recovered, epoch, 1);
    assert_says(&opened.unwrap_err().to_string(), &["before the log's end"]);
}
