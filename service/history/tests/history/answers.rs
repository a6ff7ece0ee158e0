//! Answers equal the model's after random pasts: late fixes, equal times, removals, clears,
//! retention, erasure, merges and restarts.

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow};
use shoal_history::limits::{AS_OF_TILES_MIN, TILE_ROWS};
use shoal_history::{AsOf, AsOfQuery, Batch, Everywhere, HistoryError, QueryBudget, RunDevice};
use shoal_testkit::{NaivePast, Random};

use crate::host_device::HostDevice;
use crate::scale::seeds;
use crate::world::{PARTITION_MS, START_MS, Shape, Step, World, rows};

/// Ten seeds in a usual run; `scale.rs` has the settings for more.
const SEEDS: u64 = 10;

fn random_step(world: &mut World) -> Step {
    match world.below(40) {
        0..=19 => Step::Seal,
        20..=34 => Step::Work,
        35..=36 => Step::Restart,
        37..=38 => Step::Erase,
        _ => Step::Retain,
    }
}

/// Compares answers with the model in random pasts; `device` searches runs, if there is one.
pub(crate) fn compare_pasts(count: u64, device: Option<&Arc<dyn RunDevice>>) {
    for seed in seeds(count) {
        let objects = [3, 40, 400, 3_000][seed as usize % 4];
        let batch_rows = [60, 3_000, 9_000][seed as usize % 3];
        let mut world =
            World::new(seed, Shape { objects, batch_rows, partitions: [4, 30][seed as usize % 2] });
        world.device = device.cloned();
        // Partitions are joined, or ranges of them have states.
        world.coarser_rows_max = [1 << 19, 30, 3][seed as usize % 3];
        world.open().unwrap();
        for number in 0..60 {
            let step = random_step(&mut world);
            let name = format!("seed {seed} step {number} {step:?}");
            world.step(step).unwrap_or_else(|error| panic!("{name}: {error}"));
            let rows_max = [1, 17, 1_000, 1 << 20][world.below(4)];
            // A budget of few rows scans a partition very often.
            let rows_max = rows_max.max(world.model.fixes.len() / 5);
            for _ in 0..2 {
                world.compare(&name, rows_max);
            }
        }
        world.check_all(&format!("seed {seed}"));
    }
}

#[test]
fn answers_equal_the_model_after_random_pasts() {
    compare_pasts(SEEDS, None);
}

#[test]
fn answers_with_a_device_equal_the_model() {
    let device = Arc::new(HostDevice::default());
    let shared: Arc<dyn RunDevice> = device.clone();
    compare_pasts(SEEDS, Some(&shared));
    assert!(device.calls() > 1_000, "only {} calls", device.calls());
}

#[test]
fn merging_ends_and_leaves_few_runs() {
    let mut world = World::new(77, Shape { objects: 50, batch_rows: 400, partitions: 4 });
    world.open().unwrap();
    for _ in 0..40 {
        world.step(Step::Seal).unwrap();
        world.work(100).unwrap();
        // Four partitions, and a number of runs in each that is logarithmic in their rows.
        assert!(world.version().runs() <= 4 * 8, "{} runs", world.version().runs());
    }
    assert!(world.writer().next_work().unwrap().is_none());
    world.check_all("merged");
}

/// Removals and returns fill several pages, with clears between them. Each part of the state reads
/// the removals and returns of its objects.
#[test]
fn parts_read_the_pages_of_their_objects() {
    const OBJECTS: u64 = 20_000;
    let mut world = World::new(3, Shape { objects: 1, batch_rows: 1, partitions: 2 });
    world.open().unwrap();
    let (mut batch, mut model, mut random) = (Batch::default(), NaivePast::new(), Random::new(3));
    let fix = |object: u64, at_ms: i64| FixRow::new(object, START_MS + at_ms, 7, 8);
    for round in 0..3 {
        for object in 0..OBJECTS {
            let row = fix(object, 10_000 * round + i64::from(random.below(30_000)));
            batch.fix(row);
            model.fix(row);
            if random.below(4) > 0 {
                batch.removal(object);
                batch.end_cycle(row.time_ms);
                model.remove(Some(object), row.time_ms);
            }
        }
        if round == 1 {
            batch.clear_all();
            batch.end_cycle(START_MS + 15_000);
            model.remove(None, START_MS + 15_000);
        }
        let watermark = world.watermark(1);
        world.writer().seal(&mut batch, watermark).unwrap();
        batch.clear();
    }
    for (time_ms, rows_max) in [(9_000, 700), (14_999, 3_000), (25_000, 900), (70_000, 800)] {
        let time_ms = START_MS + time_ms;
        let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
        let budget = QueryBudget::new(u64::MAX, rows_max, Arc::default());
        let mut states = AsOf::new(world.version(), query, Everywhere, budget);
        let mut out = FixColumns::new();
        while states.next(&mut out).unwrap() {}
        let expected = model.as_of(time_ms, None, |_| true);
        assert!(expected.len() > 500, "{}", expected.len());
        assert!(rows(&out) == expected, "{time_ms} in parts of {rows_max}");
    }
}

/// Several threads read the tiles of a run. A part that is shortened meanwhile loses nothing.
#[test]
fn a_moment_is_read_with_several_threads() {
    const OBJECTS: u64 = 30_000;
    const TILES: usize = 3 * AS_OF_TILES_MIN;
    let mut world = World::new(5, Shape { objects: 1, batch_rows: 1, partitions: 1 });
    world.open().unwrap();
    let (mut batch, mut model, mut random) = (Batch::default(), NaivePast::new(), Random::new(5));
    for number in 0..(TILES * TILE_ROWS) as i32 {
        let time_ms = START_MS + random.below(PARTITION_MS);
        let row = FixRow::new(random.below(OBJECTS), time_ms, number, -number);
        batch.fix(row);
        model.fix(row);
    }
    let watermark = world.watermark(1);
    world.writer().seal(&mut batch, watermark).unwrap();
    assert_eq!(world.version().runs(), 1);
    let query = |time_ms| AsOfQuery { time_ms, ttl_ms: None, objects: None };
    for (at_ms, rows_max) in [(PARTITION_MS / 2, 1 << 20), (90, 1 << 20), (PARTITION_MS, 2_000)] {
        let expected = model.as_of(START_MS + at_ms, None, |_| true);
        for threads in [1, 2, 3, 16] {
            let budget = QueryBudget::new(u64::MAX, rows_max, Arc::default());
            let states = AsOf::new(world.version(), query(START_MS + at_ms), Everywhere, budget);
            let (mut states, mut out) = (states.on_threads(threads), FixColumns::new());
            while states.next(&mut out).unwrap() {}
            assert!(rows(&out) == expected, "{at_ms} with {threads} threads");
        }
    }
    // Each thread heeds the budget.
    let budget = QueryBudget::new(TILES as u64 / 2, 1 << 20, Arc::default());
    let states = AsOf::new(world.version(), query(i64::MAX), Everywhere, budget);
    let error = states.on_threads(3).next(&mut FixColumns::new()).unwrap_err();
    assert!(matches!(error, HistoryError::Budget { unit: "tiles", .. }), "{error}");
}
