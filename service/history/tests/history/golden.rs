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

const FILES: [&str; 5] = [
    "history.manifest",
    "0000000000000001.run",
    "0000000000000002.run",
    "0000000000000003.run",
    "0000000000000004.run",
];

fn path(name: &str) -> PathBuf {
    GoldenFolder { package: env!("CARGO_MANIFEST_DIR") }.path("v1").join(name)
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

fn batches() -> [Batch; 2] {
    let (mut first, mut second) = (Batch::default(), Batch::default());
    (0..3_000).for_each(|index| first.fix(fix(index)));
    first.removal(3, START_MS + 2 * PARTITION_MS);
    second.fix(correction());
    second.clear_all(START_MS + 500);
    [first, second]
}

#[test]
fn history_version_1() {
    let mut world = World::new(1, Shape { objects: 5, batch_rows: 1, partitions: 1 });
    if GoldenFolder::is_written() {
        world.open().unwrap();
        for (epoch, mut batch) in (1..).zip(batches()) {
            let watermark = world.watermark(epoch);
            world.writer().seal(&mut batch, watermark).unwrap();
        }
        world.writer().begin_erase(&[4]).unwrap();
        fs::create_dir_all(path("")).unwrap();
        for name in world.disk.list(FOLDER).unwrap() {
            if !path(&name).exists() {
                let bytes = world.disk.bytes(&format!("{FOLDER}/{name}")).unwrap();
                fs::write(path(&name), bytes).unwrap();
            }
        }
    }
    let mut world = World::new(1, Shape { objects: 5, batch_rows: 1, partitions: 1 });
    world.disk.create_dir(FOLDER).unwrap();
    for name in FILES {
        let bytes = fs::read(path(name)).expect("golden files are part of the tree");
        world.disk.put(&format!("{FOLDER}/{name}"), &bytes);
    }
    world.open().unwrap();
    assert_eq!(world.writer().watermark().position.epoch, 2);
    assert!(world.writer().is_erasing());
    let mut found = scan(world.version(), (i64::MIN / 4, i64::MAX / 4), EVERYWHERE);
    found.sort_by_key(|row| row.time_ms);
    let expected: Vec<FixRow> = (0..3_000)
        .map(|index| if index == 1_501 { correction() } else { fix(index) })
        .filter(|row| row.object != 4)
        .collect();
    assert_eq!(found, expected);

    let as_of = |time_ms| {
        let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
        let budget = QueryBudget::unlimited();
        let mut as_of = AsOf::new(world.version(), query, Inside(EVERYWHERE), budget);
        let mut out = shoal_codec::FixColumns::new();
        while as_of.next(&mut out).unwrap() {}
        rows(&out).iter().map(|row| row.object).collect::<Vec<_>>()
    };
    assert_eq!(as_of(START_MS + 499), [0, 1, 2, 3]);
    assert_eq!(as_of(START_MS + 500), []);
    assert_eq!(as_of(START_MS + 2 * PARTITION_MS), [0, 1, 2]);
}
