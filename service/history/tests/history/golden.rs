//! Released bytes, in `tests/golden`: they stay readable.
//!
//! A run of this test with SHOAL_WRITE_GOLDEN=yes writes the files once. Planners may find better
//! plans later, so only the content of the files is compared.

use std::fs;
use std::path::PathBuf;

use shoal_codec::FixRow;
use shoal_history::{AsOf, AsOfQuery, Batch, QueryBudget};
use shoal_position_log::Storage;
use shoal_testkit::GoldenFolder;

use crate::world::{EVERYWHERE, FOLDER, Inside, PARTITION_MS, START_MS, Shape, World, rows, scan};

fn path(version: &str, name: &str) -> PathBuf {
    GoldenFolder { package: env!("CARGO_MANIFEST_DIR") }.path(version).join(name)
}

/// Fix `index` of the first batch.
fn fix(index: i32) -> FixRow {
    let time_ms = START_MS + i64::from(index) * 30;
    let row = FixRow::new(index as u64 % 5, time_ms, 120_000_000 + 37 * index, 480_000_000 - index);
    match index % 3 {
        0 => FixRow { speed_mm_s: 8_000, heading_cdeg: 18_000, ..row },
        1 => FixRow { altitude_mm: -3_000, state: 6, ..row },
        _ => row,
    }
}

/// The same identity as another fix, elsewhere.
fn correction() -> FixRow {
    FixRow { x: -7, ..fix(1_501) }
}

/// The same identity again, after the clear.
fn returned() -> FixRow {
    FixRow { y: 9, ..fix(10) }
}

fn batches() -> [Batch; 2] {
    let (mut first, mut second) = (Batch::default(), Batch::default());
    (0..3_000).for_each(|index| first.fix(fix(index)));
    first.removal(3);
    first.end_cycle(START_MS + 2 * PARTITION_MS);
    second.fix(correction());
    second.clear_all();
    second.end_cycle(START_MS + 500);
    second.fix(returned());
    [first, second]
}

/// Fixes of several earlier partitions.
fn earlier() -> impl Iterator<Item = FixRow> {
    (0..400).map(|index| {
        let time_ms = START_MS - 800_000 + i64::from(index) * 250;
        FixRow { time_ms, ..fix(index) }
    })
}

fn world() -> World {
    World::new(1, Shape { objects: 5, batch_rows: 1, partitions: 1 })
}

/// Opens the files of a version and compares all fixes: those of the first batch, with `replaced`
/// in place of the ones that later fixes replaced, and `earlier`.
fn open(version: &str, replaced: &[(usize, FixRow)], earlier: &[FixRow]) -> World {
    let mut world = world();
    world.disk.create_dir(FOLDER).unwrap();
    for file in fs::read_dir(path(version, "")).expect("golden files are part of the tree") {
        let file = file.unwrap();
        let name = file.file_name().into_string().unwrap();
        world.disk.put(&format!("{FOLDER}/{name}"), &fs::read(file.path()).unwrap());
    }
    world.open().unwrap();
    let epoch = 2 + u64::from(!earlier.is_empty());
    assert_eq!(world.writer().watermark().position.epoch, epoch);
    assert!(world.writer().is_erasing());
    let mut found = scan(world.version(), (i64::MIN / 4, i64::MAX / 4), EVERYWHERE);
    found.sort_by_key(|row| row.time_ms);
    let mut expected: Vec<FixRow> = (0..3_000).map(fix).collect();
    replaced.iter().for_each(|(index, row)| expected[*index] = *row);
    expected.splice(0..0, earlier.iter().copied());
    expected.retain(|row| row.object != 4);
    assert_eq!(found, expected);
    world
}

/// The objects as of a moment.
fn as_of(world: &World, time_ms: i64) -> Vec<u64> {
    let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
    let budget = QueryBudget::unlimited();
    let mut as_of = AsOf::new(world.version(), query, Inside(EVERYWHERE), budget);
    let mut out = shoal_codec::FixColumns::new();
    while as_of.next(&mut out).unwrap() {}
    rows(&out).iter().map(|row| row.object).collect()
}

/// A removal of this version ends all fixes up to its clock, whenever they arrive.
#[test]
fn history_version_1() {
    let world = open("v1", &[(1_501, correction())], &[]);
    assert_eq!(as_of(&world, START_MS + 499), [0, 1, 2, 3]);
    assert_eq!(as_of(&world, START_MS + 500), []);
    assert_eq!(as_of(&world, START_MS + 2 * PARTITION_MS), [0, 1, 2]);
}

#[test]
fn history_version_1_is_continued() {
    let mut world = open("v1", &[(1_501, correction())], &[]);
    let mut batch = Batch::default();
    batch.fix(returned());
    let watermark = world.watermark(3);
    world.writer().seal(&mut batch, watermark).unwrap();
    world.open().unwrap();
    assert_eq!(as_of(&world, START_MS + 500), [0]);
    assert_eq!(as_of(&world, START_MS + 2 * PARTITION_MS), [0, 1, 2]);
}

#[test]
fn history_version_2() {
    let world = open("v2", &[(1_501, correction()), (10, returned())], &[]);
    check_returned(&world);
}

/// Fixes that arrived before the clear are over, even if their times are later than its clock.
fn check_returned(world: &World) {
    assert_eq!(as_of(world, START_MS + 499), [0, 1, 2, 3]);
    assert_eq!(as_of(world, START_MS + 500), [0]);
    assert_eq!(as_of(world, START_MS + 2 * PARTITION_MS), [0]);
}

#[test]
fn history_version_3() {
    if GoldenFolder::is_written() {
        let mut world = world();
        // Earlier partitions are not joined, and have a state.
        world.coarser_rows_max = 100;
        world.open().unwrap();
        let mut first = Batch::default();
        earlier().for_each(|fix| first.fix(fix));
        for (epoch, mut batch) in (1..).zip([first].into_iter().chain(batches())) {
            let watermark = world.watermark(epoch);
            world.writer().seal(&mut batch, watermark).unwrap();
        }
        world.work(100).unwrap();
        world.writer().begin_erase(&[4]).unwrap();
        fs::create_dir_all(path("v3", "")).unwrap();
        for name in world.disk.list(FOLDER).unwrap() {
            if !path("v3", &name).exists() {
                let bytes = world.disk.bytes(&format!("{FOLDER}/{name}")).unwrap();
                fs::write(path("v3", &name), bytes).unwrap();
            }
        }
    }
    let earlier: Vec<FixRow> = earlier().collect();
    let mut world = open("v3", &[(1_501, correction()), (10, returned())], &earlier);
    check_returned(&world);
    assert_eq!(as_of(&world, START_MS - 1), [0, 1, 2, 3]);
    assert_eq!(world.version().states(), 1);
    // The state contains the object that is being erased, so `work` drops the state.
    world.work(1).unwrap();
    assert_eq!(world.version().states(), 0);
    assert_eq!(as_of(&world, START_MS - 1), [0, 1, 2, 3]);
}
