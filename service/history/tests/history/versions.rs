//! Readers hold versions. Merges, retention and erasure change no answer of a version, and a file
//! is removed when its last reader is gone.

use shoal_codec::FixRow;
use shoal_history::{Batch, ErasedLog};
use shoal_position_log::{Fault, Storage};

use crate::world::{EVERYWHERE, FOLDER, PARTITION_MS, START_MS, Shape, Step, World, scan};

const WHOLE: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

fn files(world: &World) -> usize {
    let names = world.disk.list(FOLDER).unwrap();
    names.iter().filter(|name| name.ends_with(".run")).count()
}

#[test]
fn a_version_outlives_merges_and_retention() {
    let mut world = World::new(9, Shape { objects: 20, batch_rows: 500, partitions: 3 });
    world.open().unwrap();
    for _ in 0..6 {
        world.step(Step::Seal).unwrap();
    }
    let held = world.version();
    let before = scan(held.clone(), WHOLE, EVERYWHERE);
    world.work(100).unwrap();
    let from_ms = Some(START_MS + PARTITION_MS);
    assert!(world.writer().retain(from_ms, None).unwrap() > 0);
    assert!(files(&world) > world.version().runs());
    assert_eq!(scan(held.clone(), WHOLE, EVERYWHERE), before);
    drop(held);
    assert_eq!(files(&world), world.version().runs());
}

#[test]
fn bytes_bound_the_history_and_late_fixes_do_not_bring_it_back() {
    let mut world = World::new(10, Shape { objects: 20, batch_rows: 2_000, partitions: 8 });
    world.open().unwrap();
    for _ in 0..8 {
        world.step(Step::Seal).unwrap();
    }
    let bytes = world.version().bytes();
    world.writer().retain(None, Some(bytes / 2)).unwrap();
    assert!(world.version().bytes() <= bytes / 2);
    let floor_ms = world.version().kept_from_ms().unwrap();
    world.model.drop_before(floor_ms);
    world.check_all("after retention");
    world.step(Step::Seal).unwrap();
    world.check_all("after late fixes");
    assert_eq!(world.writer().retain(None, Some(u64::MAX)).unwrap(), 0);
}

#[test]
fn an_erased_object_is_in_no_answer_at_once_and_ends_when_readers_are_gone() {
    let mut world = World::new(11, Shape { objects: 5, batch_rows: 300, partitions: 3 });
    world.open().unwrap();
    for _ in 0..4 {
        world.step(Step::Seal).unwrap();
    }
    let held = world.version();
    world.writer().begin_erase(&[2]).unwrap();
    world.model.erase(2);
    world.check_all("erasing");
    world.work(100).unwrap();
    assert!(world.writer().is_erasing(), "a reader holds files with the object");
    assert!(scan(held.clone(), WHOLE, EVERYWHERE).iter().any(|row| row.object == 2));
    // The disk refuses to remove one of them at first.
    world.disk.inject(world.disk.operations(), Fault::InputOutput);
    drop(held);
    assert_eq!(files(&world), world.version().runs() + 1);
    world.work(100).unwrap();
    assert!(!world.writer().is_erasing());
    assert_eq!(files(&world), world.version().runs());
    world.check_all("erased");
    world.open().unwrap();
    world.check_all("erased and restarted");
}

#[test]
fn objects_leave_the_room_of_erasures_when_no_run_has_them() {
    let mut world = World::new(13, Shape { objects: 5, batch_rows: 300, partitions: 3 });
    world.open().unwrap();
    world.step(Step::Seal).unwrap();
    let unknown = 1_000..61_000;
    world.writer().begin_erase(&unknown.collect::<Vec<_>>()).unwrap();
    world.writer().begin_erase(&[2]).unwrap();
    world.model.erase(2);
    world.writer().set_erased_log(ErasedLog::Unread);
    world.work(100).unwrap();
    assert_eq!(world.version().erasing(), 60_001);
    // Fixes that the log still had are dropped.
    let mut batch = Batch::default();
    batch.fix(FixRow::new(2, START_MS, 1, 1));
    let watermark = world.watermark(world.epoch);
    assert_eq!(world.writer().seal(&mut batch, watermark).unwrap().erased, 1);
    world.writer().set_erased_log(ErasedLog::Read);
    world.work(100).unwrap();
    assert_eq!(world.version().erasing(), 1);
    assert!(world.writer().is_erasing());
    world.check_all("read");
    // What arrives from now on is new, and clears count.
    let mut batch = Batch::default();
    for object in [2, 1_000, 1_001] {
        let row = FixRow::new(object, START_MS + 5, 1, 1);
        batch.fix(row);
        world.model.fix(row);
    }
    batch.clear_all();
    batch.end_cycle(START_MS + 6);
    world.model.remove(None, START_MS + 6);
    let watermark = world.watermark(world.epoch);
    assert_eq!(world.writer().seal(&mut batch, watermark).unwrap().erased, 0);
    world.open().unwrap();
    world.writer().set_erased_log(ErasedLog::Read);
    world.work(100).unwrap();
    assert_eq!(world.version().erasing(), 1);
    world.writer().set_erased_log(ErasedLog::Gone);
    world.work(1).unwrap();
    assert!(!world.writer().is_erasing());
    world.check_all("gone");
    (0..20).for_each(|_| world.compare("gone", 1_000));
}
