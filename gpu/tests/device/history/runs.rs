//! Runs on the device select the same tiles and find the same states as a scan of their rows.
//!
//! Runs are built from blocks in memory, with every aim and with tiles of every length.

use bytes::Bytes;
use shoal_codec::{
    Aim, Block, BlockCodec, BlockPlan, Budget, Column, CpuCodec, FixColumns, FixRow, Planner,
    SpaceKind, SpaceTag,
};
use shoal_engine::layout::RunZone;
use shoal_gpu::{DeviceHistory, DeviceRun, Gpu, RunSource};
use shoal_history::ObjectTime;
use shoal_history::RunObject;
use shoal_testkit::Random;

/// Device memory of the tests.
const BUDGET_BYTES: u64 = 4 << 30;
const TILE_ROWS: usize = 1024;
const BLOCK_ROWS: usize = 32 * TILE_ROWS;
const START_MS: i64 = 1_700_000_000_000;
const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 0.01 };

fn device() -> DeviceHistory {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    DeviceHistory::new(&gpu, BUDGET_BYTES).unwrap()
}

/// Rows of a run. The objects are not ordered by id; the rows of each object are ordered by time.
struct Past {
    rows: FixColumns,
    objects: Vec<RunObject>,
}

impl Past {
    fn draw(random: &mut Random, rows_most: usize) -> Self {
        let (mut rows, mut objects) = (FixColumns::new(), Vec::new());
        let object_rows = *random.pick(&[1, 3, 40, 700, 5_000]);
        let has_attributes = random.once_in(2);
        let spread = *random.pick(&[10, 1_000, 100_000_000]);
        let mut object = random.below(100_u64);
        while rows.len() < rows_most {
            let step = 1 << random.below(40);
            object = object.wrapping_add(1 + random.below(step));
            // A run is ordered by the cells of its objects, so the ids do not ascend.
            let id = object.reverse_bits();
            let count = 1 + random.below(2 * object_rows) as usize;
            objects.push(RunObject {
                object: id,
                first_row: rows.len() as u32,
                rows: count as u32,
            });
            let mut row = FixRow::new(
                id,
                START_MS + random.between(0, 600_000),
                random.between(-spread, spread) as i32,
                random.between(-spread, spread) as i32,
            );
            for _ in 0..count {
                if has_attributes {
                    row.speed_mm_s = random.below(30_000) as u32;
                    row.heading_cdeg = random.below(36_000_u32) as u16;
                    row.altitude_mm = random.between(-9, 9) as i32;
                    row.state = random.below(3) as u32;
                }
                rows.push_row(row);
                row.time_ms += random.between(1, 2_000);
                row.x += random.between(-500, 500) as i32;
                row.y += random.between(-500, 500) as i32;
            }
        }
        objects.sort_unstable_by_key(|it| it.object);
        Self { rows, objects }
    }

    fn blocks(&self, random: &mut Random) -> Vec<Block> {
        let aim = *random.pick(&[Aim::Fast, Aim::Balanced, Aim::Small]);
        let mut planner = Planner::new(random.word(), aim);
        let firsts = (0..self.rows.len()).step_by(BLOCK_ROWS);
        let block = |first: usize| {
            let end = self.rows.len().min(first + BLOCK_ROWS);
            let mut columns = self.rows.slice(first..end);
            if first / BLOCK_ROWS % 3 == 1 {
                // A block has no column for an attribute without known values.
                columns.speed_mm_s = None;
            }
            let base_ms = columns.time_ms.iter().copied().min().unwrap();
            let mut plan = BlockPlan::raw();
            for (column, planner) in planner.columns_mut() {
                if let Some(values) = columns.values(column, base_ms) {
                    plan = plan.with(column, planner.plan(&values, None));
                }
            }
            let mut bytes = Vec::new();
            let outcomes = CpuCodec.encode_planned(&columns, &plan, &SPACE, 1, &mut bytes).unwrap();
            planner.finish(&outcomes, &mut bytes).unwrap();
            Block::parse(Bytes::from(bytes), &Budget::default()).unwrap()
        };
        firsts.map(block).collect()
    }

    fn zones(&self) -> Vec<RunZone> {
        let rows = &self.rows;
        let firsts = (0..rows.len()).step_by(TILE_ROWS);
        let zone = |first: usize| {
            let rows_of = first..rows.len().min(first + TILE_ROWS);
            let time = |row: usize| (rows.time_ms[row] - START_MS) as u32;
            RunZone {
                time_min: rows_of.clone().map(time).min().unwrap(),
                time_max: rows_of.clone().map(time).max().unwrap(),
                x_min: *rows.x[rows_of.clone()].iter().min().unwrap(),
                x_max: *rows.x[rows_of.clone()].iter().max().unwrap(),
                y_min: *rows.y[rows_of.clone()].iter().min().unwrap(),
                y_max: *rows.y[rows_of].iter().max().unwrap(),
            }
        };
        firsts.map(zone).collect()
    }

    /// Row `row`, as a decoded block returns it.
    fn row(&self, row: usize) -> FixRow {
        let mut fix = self.rows.row(row);
        if row / BLOCK_ROWS % 3 == 1 {
            fix.speed_mm_s = Column::Speed.unknown().unwrap() as u32;
        }
        fix
    }

    fn matches(&self, zone: &RunZone) -> Vec<(u32, u32)> {
        let rows = &self.rows;
        let mut counts = vec![0; rows.len().div_ceil(TILE_ROWS)];
        for row in 0..rows.len() {
            let time = (rows.time_ms[row] - START_MS) as u32;
            let is_match = (zone.time_min..=zone.time_max).contains(&time)
                && (zone.x_min..=zone.x_max).contains(&rows.x[row])
                && (zone.y_min..=zone.y_max).contains(&rows.y[row]);
            counts[row / TILE_ROWS] += u32::from(is_match);
        }
        (0..).zip(counts).filter(|(_, count)| *count > 0).collect()
    }

    fn newest(&self, of: &RunObject, time_ms: i64) -> Option<FixRow> {
        let rows = of.first_row as usize..(of.first_row + of.rows) as usize;
        let found = rows.rev().find(|row| self.rows.time_ms[*row] <= time_ms);
        found.map(|row| self.row(row))
    }
}

fn between<T: Ord + Copy>(one: T, other: T) -> (T, T) {
    (one.min(other), one.max(other))
}

/// A zone whose times are those of two rows and whose box has two rows as corners. Each of time, x
/// and y is unbounded with a probability of one quarter.
fn draw_zone(random: &mut Random, past: &Past) -> RunZone {
    let rows = &past.rows;
    let mut row = || random.below(rows.len() as u64) as usize;
    let (one, other, third) = (row(), row(), row());
    let time = |row: usize| (rows.time_ms[row] - START_MS) as u32;
    let (time_min, time_max) = between(time(one), time(other));
    let (x_min, x_max) = between(rows.x[one], rows.x[third]);
    let (y_min, y_max) = between(rows.y[one], rows.y[third]);
    let mut zone = RunZone { time_min, time_max, x_min, x_max, y_min, y_max };
    if random.once_in(4) {
        (zone.time_min, zone.time_max) = (0, u32::MAX);
    }
    if random.once_in(4) {
        (zone.x_min, zone.x_max) = (i32::MIN, i32::MAX);
    }
    if random.once_in(4) {
        (zone.y_min, zone.y_max) = (i32::MIN, i32::MAX);
    }
    zone
}

fn check(device: &mut DeviceHistory, run: &DeviceRun, past: &Past, random: &mut Random, of: &str) {
    for query in 0..12 {
        let zone = draw_zone(random, past);
        let found = device.select(run, zone).unwrap();
        assert!(found == past.matches(&zone), "{of}, query {query}: other tiles for {zone:?}");
    }
    let times = |random: &mut Random| {
        let row = random.below(past.rows.len() as u64) as usize;
        past.rows.time_ms[row] + random.between(-1, 1)
    };
    for query in 0..8 {
        let time_ms = match query {
            0 => START_MS - 1,
            1 => i64::MAX,
            2 => i64::MIN,
            _ => times(random),
        };
        let (from, most) = match random.below(3) {
            0 => (0, usize::MAX),
            1 => (random.pick(&past.objects).object, 1 + random.below(500) as usize),
            _ => (random.pick(&past.objects).object.saturating_add(1), usize::MAX),
        };
        let found = device.newest(run, time_ms, from, most).unwrap();
        let mut expected = FixColumns::new();
        let objects = past.objects.iter().filter(|it| it.object >= from);
        let states = objects.filter_map(|object| past.newest(object, time_ms)).take(most);
        states.for_each(|row| expected.push_row(row));
        assert_eq!(found.len(), expected.len(), "{of}, query {query}: states at {time_ms}");
        for at in 0..found.len() {
            assert_eq!(found.row(at), expected.row(at), "{of}, query {query}, state {at}");
        }
    }
    let pair = |random: &mut Random| {
        let object = random.pick(&past.objects);
        let id = if random.once_in(10) { object.object ^ 1 } else { object.object };
        ObjectTime { object: id, time: times(random) }
    };
    let mut requests: Vec<ObjectTime> = (0..2_000).map(|_| pair(random)).collect();
    requests.push(ObjectTime { object: 0, time: i64::MIN });
    requests.push(ObjectTime { object: u64::MAX, time: i64::MAX });
    let found = device.find(run, &requests).unwrap();
    for (request, found) in requests.iter().zip(found) {
        let of_object = past.objects.binary_search_by_key(&request.object, |it| it.object).ok();
        let expected = of_object.and_then(|at| past.newest(&past.objects[at], request.time));
        assert_eq!(found, expected, "{of}: {request:?}");
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn runs_on_the_device_answer_as_their_rows() {
    let mut device = device();
    for seed in 0..40 {
        let mut random = Random::new(seed);
        let most = *random.pick(&[1, 1_023, 1_025, 30_000, BLOCK_ROWS, 200_000]);
        let past = Past::draw(&mut random, most);
        let (blocks, zones) = (past.blocks(&mut random), past.zones());
        let (objects, start_ms) = (&past.objects[..], START_MS);
        let source = RunSource { start_ms, blocks: &blocks, zones: &zones, objects };
        let run = device.load(source).unwrap();
        check(&mut device, &run, &past, &mut random, &format!("seed {seed}"));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_damaged_run_is_refused() {
    let mut device = device();
    let mut random = Random::new(7);
    let past = Past::draw(&mut random, 100_000);
    let (blocks, zones) = (past.blocks(&mut random), past.zones());
    let source =
        RunSource { start_ms: START_MS, blocks: &blocks, zones: &zones, objects: &past.objects };
    assert!(device.load(source).is_ok());
    let few = RunSource { zones: &zones[1..], ..source };
    assert!(device.load(few).unwrap_err().to_string().contains("differ in rows"));
    let late = RunSource { start_ms: START_MS + 86_400_000, ..source };
    assert!(device.load(late).unwrap_err().to_string().contains("before its partition"));
    let half = RunSource { objects: &past.objects[..past.objects.len() / 2], ..source };
    assert!(device.load(half).unwrap_err().to_string().contains("differ in rows"));
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_run_that_does_not_fit_changes_nothing() {
    let gpu = Gpu::open(Gpu::FIRST).unwrap();
    let mut random = Random::new(8);
    let past = Past::draw(&mut random, 200_000);
    let (blocks, zones) = (past.blocks(&mut random), past.zones());
    let source =
        RunSource { start_ms: START_MS, blocks: &blocks, zones: &zones, objects: &past.objects };
    let used = device().used_bytes();
    let mut small = DeviceHistory::new(&gpu, used + (64 << 10)).unwrap();
    let error = small.load(source).unwrap_err();
    assert!(matches!(error, shoal_engine::EngineError::OutOfMemory { .. }), "{error}");
    assert_eq!(small.used_bytes(), used, "what was allocated is freed");
    let mut enough = device();
    let before = enough.used_bytes();
    drop(enough.load(source).unwrap());
    assert_eq!(enough.used_bytes(), before, "a run frees its memory");
}
