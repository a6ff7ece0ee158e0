//! A history on a simulated disk and its model, and random steps that change both.

use std::sync::Arc;

use shoal_codec::{FixColumns, FixRow, SpaceKind, SpaceTag};
use shoal_history::limits::COARSER_ROWS_DEFAULT;
use shoal_history::{
    AsOf, AsOfQuery, Batch, Density, DensityGrid, HistoryError, HistoryOptions, HistoryWriter,
    Objects, PageMemory, QueryBudget, Replay, RowFilter, RunDevice, Scan, Trajectory, Version,
    Watermark, Zone,
};
use shoal_position_log::{SimulatedDisk, Storage};
use shoal_testkit::{NaivePast, Random};

pub(crate) const FOLDER: &str = "fleets/buses/history";
pub(crate) const PARTITION_MS: i64 = 60_000;
/// First time of a past; a multiple of the partition.
pub(crate) const START_MS: i64 = 1_700_000_040_000;
pub(crate) const EVERYWHERE: Rectangle = [i32::MIN, i32::MIN, i32::MAX, i32::MAX];
pub(crate) const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };

pub(crate) fn options() -> HistoryOptions {
    HistoryOptions {
        partition_ms: PARTITION_MS,
        pages: PageMemory::new(1 << 16),
        reserve_bytes: 0,
        ..HistoryOptions::new(7, SPACE)
    }
}

/// A rectangle that a test asks for: west, south, east, north.
pub(crate) type Rectangle = [i32; 4];

/// A filter by rectangle.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Inside(pub(crate) Rectangle);

impl RowFilter for Inside {
    fn may_match(&self, zone: &Zone) -> bool {
        let [west, south, east, north] = self.0;
        zone.x.0 <= east && west <= zone.x.1 && zone.y.0 <= north && south <= zone.y.1
    }

    fn bounds(&self) -> Zone {
        let [x_min, y_min, x_max, y_max] = self.0;
        Zone { x: (x_min, x_max), y: (y_min, y_max), ..Zone::EVERYTHING }
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.has(&rows.row(row))
    }
}

impl Inside {
    pub(crate) fn has(&self, row: &FixRow) -> bool {
        let [west, south, east, north] = self.0;
        (west..=east).contains(&row.x) && (south..=north).contains(&row.y)
    }
}

/// How a past looks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) objects: usize,
    pub(crate) batch_rows: usize,
    pub(crate) partitions: i64,
}

/// A history and its model.
pub(crate) struct World {
    pub(crate) disk: SimulatedDisk,
    pub(crate) writer: Option<HistoryWriter>,
    /// What is sealed.
    pub(crate) model: NaivePast,
    pub(crate) epoch: u64,
    pub(crate) shape: Shape,
    chance: Random,
    /// The device that searches runs, if any.
    pub(crate) device: Option<Arc<dyn RunDevice>>,
    /// See [`HistoryOptions`].
    pub(crate) coarser_rows_max: u64,
    /// On average, one of this many rows of a batch is a removal.
    pub(crate) removal_one_in: usize,
}

/// A step that changes a history.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Seal,
    Work,
    Retain,
    Erase,
    Restart,
}

impl World {
    pub(crate) fn new(seed: u64, shape: Shape) -> Self {
        let (disk, chance) = (SimulatedDisk::new(seed), Random::new(seed));
        Self {
            disk,
            writer: None,
            model: NaivePast::new(),
            epoch: 0,
            shape,
            chance,
            device: None,
            coarser_rows_max: COARSER_ROWS_DEFAULT,
            removal_one_in: 40,
        }
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        self.chance.below(limit)
    }

    pub(crate) fn open(&mut self) -> Result<(), HistoryError> {
        self.writer = None;
        let storage: Arc<dyn Storage> = Arc::new(self.disk.clone());
        let options = HistoryOptions {
            device: self.device.clone(),
            coarser_rows_max: self.coarser_rows_max,
            ..options()
        };
        self.writer = Some(HistoryWriter::open(storage, FOLDER, &options)?);
        Ok(())
    }

    pub(crate) fn writer(&mut self) -> &mut HistoryWriter {
        self.writer.as_mut().unwrap()
    }

    pub(crate) fn version(&self) -> Arc<Version> {
        self.writer.as_ref().unwrap().history().version()
    }

    /// The time of most fixes of the next batch.
    fn now_ms(&self) -> i64 {
        let span = self.shape.partitions * PARTITION_MS;
        START_MS + span * (self.epoch as i64 % 12 + 1) / 12
    }

    pub(crate) fn time_ms(&mut self) -> i64 {
        let span = self.shape.partitions * PARTITION_MS;
        START_MS + self.chance.below(span as usize) as i64
    }

    /// A batch, and the model after it.
    pub(crate) fn batch(&mut self) -> (Batch, NaivePast) {
        let (mut batch, mut model) = (Batch::default(), self.model.clone());
        // Most fixes are of the present, some are late.
        let now_ms = self.now_ms();
        for _ in 0..1 + self.below(self.shape.batch_rows) {
            let object = self.below(self.shape.objects) as u64;
            let time_ms = match self.below(8) {
                0 => self.time_ms(),
                // Equal times are frequent.
                _ => now_ms - 1_000 * self.below(20) as i64,
            };
            match self.below(self.removal_one_in) {
                0 => {
                    batch.removal(object);
                    batch.end_cycle(time_ms);
                    model.remove(Some(object), time_ms);
                }
                1 if self.below(10) == 0 => {
                    batch.clear_all();
                    batch.end_cycle(time_ms);
                    model.remove(None, time_ms);
                }
                _ => {
                    let row = self.row(object, time_ms);
                    batch.fix(row);
                    model.fix(row);
                }
            }
        }
        (batch, model)
    }

    fn row(&mut self, object: u64, time_ms: i64) -> FixRow {
        let mut place = |scale: i32| self.chance.below(2_000) * scale - 1_000 * scale;
        let row = FixRow::new(object, time_ms, place(900_000), place(400_000));
        match self.below(4) {
            0 => FixRow { speed_mm_s: self.below(30_000) as u32, ..row },
            1 => FixRow { state: self.below(4) as u32, ..row },
            2 => FixRow { valid_ms: [0, 1_000, 5_000, 50_000][self.below(4)], ..row },
            _ => row,
        }
    }

    pub(crate) fn watermark(&self, epoch: u64) -> Watermark {
        let mut watermark = Watermark { term: 3, clock_ms: self.now_ms(), ..Watermark::default() };
        watermark.position.epoch = epoch;
        watermark
    }

    pub(crate) fn step(&mut self, step: Step) -> Result<(), HistoryError> {
        match step {
            Step::Seal => {
                let (mut batch, model) = self.batch();
                let watermark = self.watermark(self.epoch + 1);
                self.writer().seal(&mut batch, watermark)?;
                (self.model, self.epoch) = (model, self.epoch + 1);
            }
            Step::Work => self.work(1)?,
            Step::Retain => {
                let from_ms = START_MS + self.below(2) as i64 * PARTITION_MS;
                self.writer().retain(Some(from_ms), None)?;
                self.drop_what_is_not_kept();
            }
            Step::Erase => {
                let object = self.below(self.shape.objects) as u64;
                self.writer().begin_erase(&[object])?;
                self.model.erase(object);
                while self.writer().is_erasing() {
                    self.work(1)?;
                }
            }
            Step::Restart => self.open()?,
        }
        Ok(())
    }

    /// The model after retention: whole partitions are dropped.
    pub(crate) fn drop_what_is_not_kept(&mut self) {
        if let Some(floor_ms) = self.version().kept_from_ms() {
            self.model.drop_before(floor_ms);
        }
    }

    /// Completes up to `count` pieces of background work.
    pub(crate) fn work(&mut self, count: usize) -> Result<(), HistoryError> {
        for _ in 0..count {
            let Some(mut work) = self.writer().next_work()? else { break };
            while !work.step(700)? {}
            self.writer().finish(work)?;
        }
        Ok(())
    }

    /// Compares everything that is sealed with the model.
    pub(crate) fn check_all(&self, name: &str) {
        let window = (i64::MIN / 4, i64::MAX / 4);
        let mut found = scan(self.version(), window, EVERYWHERE);
        found.sort_by_key(|row| (row.object, row.time_ms));
        let expected: Vec<FixRow> = self.model.fixes.values().copied().collect();
        assert_eq!(found, expected, "{name}");
        let watermark = self.version().watermark();
        assert_eq!(watermark.position.epoch, self.epoch, "{name}");
    }
}

pub(crate) fn rows(columns: &FixColumns) -> Vec<FixRow> {
    (0..columns.len()).map(|row| columns.row(row)).collect()
}

fn budget(rows_max: usize) -> QueryBudget {
    QueryBudget::new(u64::MAX, rows_max, Arc::default())
}

pub(crate) fn scan(version: Arc<Version>, window: (i64, i64), region: Rectangle) -> Vec<FixRow> {
    let mut scan = Scan::new(version, window, Inside(region), QueryBudget::unlimited());
    let mut out = FixColumns::new();
    while scan.next(&mut out).unwrap() {}
    rows(&out)
}

impl World {
    /// One random query of each kind against the model; `rows_max` bounds what a query holds.
    pub(crate) fn compare(&mut self, name: &str, rows_max: usize) {
        let (a, b) = (self.time_ms(), self.time_ms());
        let window = (a.min(b), a.max(b));
        let mut side = |scale: i32| (self.chance.below(2_000) - 1_000) * scale;
        let (a, b, c, d) = (side(900_000), side(900_000), side(400_000), side(400_000));
        let region = [a.min(b), c.min(d), a.max(b), c.max(d)];
        let is_inside = |row: &FixRow| Inside(region).has(row);
        let (model, version) = (&self.model, self.version());
        let name = format!("{name} window {window:?} region {region:?}");

        let mut passed = scan(version.clone(), window, region);
        passed.sort_by_key(|row| (row.object, row.time_ms));
        assert_eq!(passed, model.passed(window, is_inside), "{name}");
        let whole = QueryBudget::unlimited;
        let inside = Scan::new(version.clone(), window, Inside(region), whole());
        let objects = Objects::new(inside).all();
        let mut expected: Vec<u64> = passed.iter().map(|row| row.object).collect();
        expected.dedup();
        assert_eq!(objects.unwrap(), expected, "{name}");
        // Few rows may lie in one of the largest squares.
        let cell_quanta = [70_000_000, i32::MAX as u32][self.chance.below(2)];
        let step_ms = [None, Some(7_000)][self.chance.below(2)];
        let grid = DensityGrid { cell_quanta, step_ms };
        let inside = Scan::new(version.clone(), window, Inside(region), whole());
        let (mut density, mut squares) = (Density::new(inside, grid).unwrap(), Vec::new());
        while density.next(&mut squares).unwrap() {}
        let squares = squares.into_iter();
        let found = squares.map(|cell| ((cell.time_ms, cell.row, cell.column), cell.fixes));
        let step_ms = step_ms.unwrap_or_default();
        let expected = model.density(window, is_inside, f64::from(cell_quanta), step_ms);
        assert!(found.eq(expected), "{name} {grid:?}");

        let mut replay = Replay::new(version, window, Inside(region), budget(rows_max));
        let mut out = FixColumns::new();
        while replay.next(&mut out).unwrap() {}
        assert_eq!(rows(&out), model.replay(window, is_inside), "{name}");
        self.compare_objects(&name, window, region, rows_max);
    }

    fn compare_objects(
        &mut self,
        name: &str,
        window: (i64, i64),
        region: Rectangle,
        rows_max: usize,
    ) {
        let asked: Vec<u64> =
            (0..self.below(5)).map(|_| self.below(self.shape.objects + 1) as u64).collect();
        let every_ms = [0, 0, 1, 5_000][self.below(4)];
        let version = self.version();
        let mut tracks =
            Trajectory::new(version.clone(), &asked, window, every_ms, QueryBudget::unlimited());
        let mut out = FixColumns::new();
        while tracks.next(&mut out).unwrap() {}
        let expected = self.model.trajectory(&asked, window, every_ms);
        assert_eq!(rows(&out), expected, "{name} tracks of {asked:?} every {every_ms}");

        let ttl_ms = [None, Some(0), Some(10_000), Some(100_000)][self.below(4)];
        let asked = (self.below(2) == 0).then_some(asked);
        let time_ms = window.1;
        let query = AsOfQuery { time_ms, ttl_ms, objects: asked.clone() };
        let mut as_of = AsOf::new(version, query, Inside(region), budget(rows_max));
        out.clear();
        while as_of.next(&mut out).unwrap() {}
        let expected = self.model.as_of(time_ms, ttl_ms, |row| {
            asked.as_ref().is_none_or(|asked| asked.contains(&row.object))
                && Inside(region).has(row)
        });
        assert_eq!(rows(&out), expected, "{name} as of {time_ms} TTL {ttl_ms:?} of {asked:?}");
    }
}
