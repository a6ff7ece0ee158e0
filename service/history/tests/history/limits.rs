//! Budgets, cancellation and limits end a query with an error that names them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use shoal_codec::{FixColumns, FixRow};
use shoal_history::limits::ERASING_MAX;
use shoal_history::{
    AsOf, AsOfQuery, Batch, Density, DensityGrid, Everywhere, HistoryError, HistoryOptions,
    HistoryWriter, Objects, QueryBudget, Replay, Scan,
};

use crate::world::{
    EVERYWHERE, FOLDER, Inside, PARTITION_MS, START_MS, Shape, Step, World, options, rows,
};

const WHOLE: (i64, i64) = (i64::MIN / 4, i64::MAX / 4);

fn world() -> World {
    let mut world = World::new(12, Shape { objects: 300, batch_rows: 9_000, partitions: 2 });
    world.open().unwrap();
    while world.model.fixes.len() < 4_000 {
        world.step(Step::Seal).unwrap();
    }
    world
}

#[test]
fn a_query_ends_at_its_budget_and_when_it_is_cancelled() {
    let (world, flag) = (world(), Arc::new(AtomicBool::new(false)));
    let mut out = FixColumns::new();
    let budget = QueryBudget::new(2, 1 << 20, flag.clone());
    let mut scan = Scan::new(world.version(), WHOLE, Everywhere, budget);
    let error = (0..3).find_map(|_| scan.next(&mut out).err()).unwrap();
    assert!(matches!(error, HistoryError::Budget { unit: "tiles", limit: 2 }), "{error}");

    let budget = || QueryBudget::new(u64::MAX, 100, flag.clone());
    let objects = Objects::new(Scan::new(world.version(), WHOLE, Everywhere, budget())).all();
    assert!(matches!(objects, Err(HistoryError::Budget { unit: "objects", limit: 100 })));
    let grid = DensityGrid { cell_quanta: 1, step_ms: Some(1) };
    let scan = || Scan::new(world.version(), WHOLE, Everywhere, budget());
    let (mut density, mut squares) = (Density::new(scan(), grid).unwrap(), Vec::new());
    let error = (0..100).find_map(|_| density.next(&mut squares).err()).unwrap();
    assert!(matches!(error, HistoryError::Budget { limit: 100, .. }), "{error}");
    let grid = DensityGrid { cell_quanta: 0, step_ms: Some(1) };
    assert!(matches!(Density::new(scan(), grid), Err(HistoryError::Input(_))));

    let mut replay = Replay::new(world.version(), WHOLE, Everywhere, budget());
    out.clear();
    while out.is_empty() {
        assert!(replay.next(&mut out).unwrap());
    }
    assert!(out.len() <= 100, "{}", out.len());
    flag.store(true, Ordering::Relaxed);
    assert!(matches!(replay.next(&mut out), Err(HistoryError::Cancelled)));
}

/// Slices of a partition fit the rows of the budget even if all fixes have one time, and the tiles
/// of the partition count once.
#[test]
fn a_replay_of_a_partition_of_any_size_counts_its_tiles_once() {
    const FIXES: u64 = 60_000;
    let mut world = World::new(4, Shape { objects: 1, batch_rows: 1, partitions: 1 });
    world.open().unwrap();
    let mut batch = Batch::default();
    let mut expected = Vec::new();
    for fix in 0..FIXES {
        let at_ms = if fix % 2 == 0 { 7_000 } else { (fix * 7_919 % 60_000) as i64 };
        let object = fix.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let row = FixRow::new(object, START_MS + at_ms, fix as i32, 5);
        batch.fix(row);
        expected.push(row);
    }
    expected.sort_by_key(|row| (row.time_ms, row.object));
    let watermark = world.watermark(1);
    world.writer().seal(&mut batch, watermark).unwrap();
    assert_eq!(world.version().rows_of_fullest(WHOLE), FIXES as usize);
    let tiles = FIXES.div_ceil(1_024);
    for rows_max in [500, 20_000, 1 << 20] {
        let budget = QueryBudget::new(tiles, rows_max, Arc::default());
        let mut replay = Replay::new(world.version(), WHOLE, Everywhere, budget);
        let mut out = FixColumns::new();
        while replay.next(&mut out).unwrap() {}
        assert!(rows(&out) == expected, "in slices of {rows_max}");
    }
}

/// Each partition has all objects, so only the newest one has fixes to read. Pages of objects
/// and removals in the other partitions count too.
#[test]
fn pages_of_objects_count_and_can_be_cancelled() {
    const PARTITIONS: i64 = 30;
    let mut world = World::new(8, Shape { objects: 9, batch_rows: 1, partitions: PARTITIONS });
    world.open().unwrap();
    for at in 0..PARTITIONS {
        let mut batch = Batch::default();
        (0..9)
            .for_each(|object| batch.fix(FixRow::new(object, START_MS + at * PARTITION_MS, 5, 6)));
        batch.removal(99);
        batch.end_cycle(START_MS + at * PARTITION_MS);
        let watermark = world.watermark(1);
        world.writer().seal(&mut batch, watermark).unwrap();
    }
    let flag = Arc::new(AtomicBool::new(false));
    let ask = |tiles_max| {
        let query = AsOfQuery { time_ms: i64::MAX, ttl_ms: None, objects: None };
        let budget = QueryBudget::new(tiles_max, 1 << 10, flag.clone());
        let (mut states, mut out) =
            (AsOf::new(world.version(), query, Everywhere, budget.clone()), FixColumns::new());
        while states.next(&mut out)? {}
        assert_eq!(out.len(), 9);
        Ok::<_, HistoryError>(budget.tiles())
    };
    let tiles = ask(u64::MAX).unwrap();
    assert_eq!(tiles, 1 + 2 * PARTITIONS as u64);
    assert!(matches!(ask(tiles - 1), Err(HistoryError::Budget { unit: "tiles", .. })));
    flag.store(true, Ordering::Relaxed);
    assert!(matches!(ask(u64::MAX), Err(HistoryError::Cancelled)));
}

#[test]
fn steps_begin_with_the_window_however_long_it_is() {
    let mut world = World::new(4, Shape { objects: 3, batch_rows: 1, partitions: 1 });
    world.open().unwrap();
    let mut batch = Batch::default();
    batch.fix(FixRow::new(1, START_MS, 5, 6));
    let watermark = world.watermark(1);
    world.writer().seal(&mut batch, watermark).unwrap();
    let times = |window: (i64, i64), step_ms| {
        let scan = Scan::new(world.version(), window, Inside(EVERYWHERE), QueryBudget::unlimited());
        let mut density = Density::new(scan, DensityGrid { cell_quanta: 10, step_ms }).unwrap();
        let mut cells = Vec::new();
        while density.next(&mut cells).unwrap() {}
        cells.iter().map(|cell| cell.time_ms).collect::<Vec<_>>()
    };
    for from_ms in [i64::MIN, i64::MIN + 1, -1, 0, START_MS - 1, START_MS] {
        for step_ms in [1, 7, 1_000, i64::MAX] {
            let passed = i128::from(START_MS) - i128::from(from_ms);
            let expected = START_MS - (passed % i128::from(step_ms)) as i64;
            assert_eq!(
                times((from_ms, i64::MAX), Some(step_ms)),
                [expected],
                "{from_ms} {step_ms}"
            );
        }
        assert_eq!(times((from_ms, i64::MAX), None), [from_ms]);
    }
}

#[test]
fn options_out_of_range_are_refused() {
    let world = world();
    for partition_ms in [0, -1, 59_999, 86_400_001] {
        let options = HistoryOptions { partition_ms, ..options() };
        let storage = Arc::new(world.disk.clone());
        let error = HistoryWriter::open(storage, FOLDER, &options).unwrap_err();
        assert!(matches!(error, HistoryError::Input(_)), "{error}");
    }
}

#[test]
fn so_many_objects_are_erased_at_a_time() {
    let mut world = world();
    let many: Vec<u64> = (0..=ERASING_MAX as u64).collect();
    world.writer().begin_erase(&many[1..]).unwrap();
    for more in [&many[..1], &many] {
        let error = world.writer().begin_erase(more).unwrap_err();
        assert!(matches!(error, HistoryError::Erasing { limit: 65_536 }), "{error}");
    }
    world.writer().begin_erase(&many[1..]).unwrap();
}
