//! Scans that decode few columns: filters of every column, counts, parts, and what zones prove.
//!
//! The same past is asked with a filter that reads one column and with all columns tested row by
//! row.

use shoal_codec::{Column, ColumnSet, ColumnValues, FixColumns, FixRow};
use shoal_history::limits::TILE_ROWS;
use shoal_history::{
    Batch, Density, DensityGrid, Everywhere, HistoryError, Objects, QueryBudget, RowFilter, Scan,
    Zone,
};
use shoal_testkit::{NaivePast, Random};

use crate::scale::seeds;
use crate::world::{PARTITION_MS, START_MS, Shape, Step, World, rows};

/// Values of one column between two, both included.
#[derive(Clone, Copy, Debug)]
struct Between {
    column: Column,
    low: i64,
    high: i64,
}

impl Between {
    fn has(&self, value: i64) -> bool {
        self.low <= value && value <= self.high
    }

    /// The range of the column in a zone, if zones have the column.
    fn range(&self, zone: &Zone) -> Option<(i64, i64)> {
        Some(match self.column {
            Column::Time => zone.time_ms,
            Column::Object => (zone.object.0 as i64, zone.object.1 as i64),
            Column::X => (zone.x.0.into(), zone.x.1.into()),
            Column::Y => (zone.y.0.into(), zone.y.1.into()),
            _ => return None,
        })
    }

    fn value(&self, row: &FixRow) -> i64 {
        match self.column {
            Column::Object => row.object as i64,
            Column::Time => row.time_ms,
            Column::X => row.x.into(),
            Column::Y => row.y.into(),
            Column::Speed => row.speed_mm_s.into(),
            Column::Heading => row.heading_cdeg.into(),
            Column::Altitude => row.altitude_mm.into(),
            Column::State => row.state.into(),
            Column::Validity => row.valid_ms.into(),
        }
    }
}

impl RowFilter for Between {
    fn may_match(&self, zone: &Zone) -> bool {
        self.range(zone).is_none_or(|(low, high)| low <= self.high && self.low <= high)
    }

    fn covers(&self, zone: &Zone) -> bool {
        self.range(zone).is_some_and(|(low, high)| self.low <= low && high <= self.high)
    }

    fn columns(&self) -> ColumnSet {
        ColumnSet::NONE.with(self.column)
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.has(self.value(&rows.row(row)))
    }

    fn select(&self, rows: &FixColumns, flags: &mut [bool]) {
        for column in Column::ALL.into_iter().filter(|column| *column != self.column) {
            let others = rows.column(column).map_or(0, |values| values.len());
            assert_eq!(others * usize::from(column != Column::Time), 0, "{}", column.name());
        }
        let values = rows.column(self.column);
        for (row, flag) in flags.iter_mut().enumerate() {
            let value = match values {
                None => self.column.unknown().unwrap(),
                Some(ColumnValues::U16(values)) => values[row].into(),
                Some(ColumnValues::U32(values)) => values[row].into(),
                Some(ColumnValues::U64(values)) => values[row] as i64,
                Some(ColumnValues::I32(values)) => values[row].into(),
                Some(ColumnValues::I64(values)) => values[row],
            };
            *flag &= self.has(value);
        }
    }
}

/// Tests whole rows.
#[derive(Clone, Copy, Debug)]
struct Slow(Between);

impl RowFilter for Slow {
    fn may_match(&self, _: &Zone) -> bool {
        true
    }

    fn matches(&self, rows: &FixColumns, row: usize) -> bool {
        self.0.matches(rows, row)
    }
}

fn answer<F: RowFilter>(mut scan: Scan<F>) -> Vec<FixRow> {
    let mut out = FixColumns::new();
    while scan.next(&mut out).unwrap() {}
    rows(&out)
}

/// A past with several runs a partition, and an object that is being erased now and then.
fn world(seed: u64) -> World {
    let objects = [3, 400, 2_000][seed as usize % 3];
    let mut world = World::new(seed, Shape { objects, batch_rows: 9_000, partitions: 2 });
    world.open().unwrap();
    while world.model.fixes.len() < 5 * TILE_ROWS {
        world.step(Step::Seal).unwrap();
        if world.below(4) == 0 {
            world.step(Step::Work).unwrap();
        }
    }
    if seed.is_multiple_of(2) {
        world.writer().begin_erase(&[1]).unwrap();
        world.model.erase(1);
    }
    world
}

/// A range that has none, some or all of the values of the column.
fn between(world: &mut World, column: Column) -> Between {
    let filter = Between { column, low: 0, high: 0 };
    let mut values: Vec<i64> = world.model.fixes.values().map(|row| filter.value(row)).collect();
    values.sort_unstable();
    let (least, greatest) = (values[0], values[values.len() - 1]);
    let mut pick = || values[world.below(values.len())];
    let (a, b) = (pick(), pick());
    let (low, high) = match world.below(5) {
        0 => (least, greatest),
        1 => (greatest + 1, greatest + 2),
        2 => (a, a),
        _ => (a.min(b), a.max(b)),
    };
    Between { column, low, high }
}

#[test]
fn filters_of_one_column_parts_and_counts_equal_a_test_of_every_row() {
    for seed in seeds(6) {
        let mut world = world(seed);
        for case in 0..80 {
            let filter = between(&mut world, Column::ALL[case % Column::ALL.len()]);
            let (a, b) = (world.time_ms(), world.time_ms());
            let whole = (i64::MIN / 4, i64::MAX / 4);
            let window = if case % 4 == 0 { whole } else { (a.min(b), a.max(b)) };
            let name = format!("seed {seed} case {case} {filter:?} window {window:?}");
            let (version, budget) = (world.version(), QueryBudget::unlimited);
            let expected = answer(Scan::new(version.clone(), window, Slow(filter), budget()));
            let of_model = world.model.fixes.values().filter(|row| {
                (window.0..=window.1).contains(&row.time_ms) && filter.has(filter.value(row))
            });
            assert_eq!(expected.len(), of_model.count(), "{name}");
            let scan = || Scan::new(version.clone(), window, filter, budget());
            assert_eq!(answer(scan()), expected, "{name}");
            assert_eq!(scan().count().unwrap(), expected.len() as u64, "{name}");
            let mut objects: Vec<u64> = expected.iter().map(|row| row.object).collect();
            objects.sort_unstable();
            objects.dedup();
            assert_eq!(Objects::new(scan()).all().unwrap(), objects, "{name}");

            let parts = 1 + world.below(9);
            let found: Vec<_> = std::thread::scope(|scope| {
                let parts = scan().split(parts).into_iter();
                let threads: Vec<_> = parts.map(|part| scope.spawn(|| answer(part))).collect();
                threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
            });
            assert_eq!(found, expected, "{name} in {parts} parts");
            let counts = scan().split(parts).into_iter().map(|part| part.count().unwrap());
            assert_eq!(counts.sum::<u64>(), expected.len() as u64, "{name} in {parts} parts");
            let found = together(Objects::split(scan(), parts), Objects::next);
            assert_eq!(found, objects, "{name} in {parts} parts");
            let grid = DensityGrid { cell_quanta: 90_000_000, step_ms: Some(9_000) };
            let mut whole = Density::new(scan(), grid).unwrap();
            let mut squares = Vec::new();
            while whole.next(&mut squares).unwrap() {}
            let found = together(Density::split(scan(), grid, parts).unwrap(), Density::next);
            assert_eq!(found, squares, "{name} in {parts} parts");
            assert_eq!(squares.iter().map(|it| it.fixes).sum::<u64>(), expected.len() as u64);
        }
    }
}

/// What parts find on threads of their own.
fn together<P: Send, T: Send>(
    parts: Vec<P>,
    next: impl Fn(&mut P, &mut Vec<T>) -> Result<bool, HistoryError> + Sync,
) -> Vec<T> {
    let all = |mut part: P| {
        let mut found = Vec::new();
        while next(&mut part, &mut found).unwrap() {}
        found
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = parts.into_iter().map(|part| scope.spawn(|| all(part))).collect();
        threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn parts_share_a_budget() {
    let world = world(1);
    let whole = (i64::MIN / 4, i64::MAX / 4);
    let budget = QueryBudget::unlimited();
    let scan = Scan::new(world.version(), whole, Everywhere, budget.clone());
    let rows: usize = scan.split(3).into_iter().map(|part| answer(part).len()).sum();
    assert_eq!(rows, world.model.fixes.len());
    let tiles = budget.tiles();
    assert!(tiles as usize * TILE_ROWS >= rows, "{tiles} tiles");
    let budget = QueryBudget::new(tiles / 2, 1 << 20, Default::default());
    let mut parts = Scan::new(world.version(), whole, Everywhere, budget).split(3).into_iter();
    let mut out = FixColumns::new();
    let mut end = |mut part: Scan<_>| loop {
        match part.next(&mut out) {
            Ok(true) => {}
            end => break end,
        }
    };
    let has_failed = parts.any(|part| end(part).is_err());
    assert!(has_failed, "half of the tiles are not enough");
}

/// Objects stay near four places, so that many tiles lie in one square. Later runs replace fixes,
/// and some objects are being erased.
#[test]
fn tiles_in_one_square_are_counted_as_their_rows_are() {
    const SPAN_MS: i64 = 3 * PARTITION_MS;
    for seed in 0..4 {
        let mut world = World::new(seed, Shape { objects: 1, batch_rows: 1, partitions: 3 });
        world.open().unwrap();
        let (mut model, mut random) = (NaivePast::new(), Random::new(seed));
        // The runs share all objects or only few.
        let apart = if seed < 2 { 0 } else { 50 };
        for run in 0..3 {
            let mut batch = Batch::default();
            for _ in 0..20_000 {
                let object = run * apart + random.below(60_u64);
                let side = |number: u64| (number % 2) as i32 * 4_000_000 - 3_500_000;
                let [x, y] = [side(object), side(object / 2)].map(|at| at + random.below(1_000));
                // There are so few distinct times that many identities repeat.
                let time_ms = START_MS + 100 * random.below(SPAN_MS / 100);
                let mut row = FixRow::new(object, time_ms, x, y);
                row.speed_mm_s = random.below(30);
                batch.fix(row);
                model.fix(row);
            }
            let watermark = world.watermark(1);
            world.writer().seal(&mut batch, watermark).unwrap();
        }
        if seed % 2 == 1 {
            world.writer().begin_erase(&[3, 5]).unwrap();
            [3, 5].into_iter().for_each(|object| model.erase(object));
        }
        for _ in 0..40 {
            let mut time = || START_MS - 9_000 + random.below(SPAN_MS + 18_000);
            let (one, two) = (time(), time());
            let whole = (START_MS, START_MS + SPAN_MS);
            let window = if one % 3 == 0 { whole } else { (one.min(two), one.max(two)) };
            let column = [Column::Object, Column::X, Column::Speed][random.below(3_usize)];
            let high = [1, 25, 1_000, i64::MAX][random.below(4_usize)];
            let filter = Between { column, low: i64::MIN, high };
            let cell_quanta = [700, 1_000_000, 4_000_000, i32::MAX as u32][random.below(4_usize)];
            let step_ms = [None, Some(9_000), Some(70_000)][random.below(3_usize)];
            let grid = DensityGrid { cell_quanta, step_ms };
            let scan = Scan::new(world.version(), window, filter, QueryBudget::unlimited());
            let (mut density, mut found) = (Density::new(scan, grid).unwrap(), Vec::new());
            while density.next(&mut found).unwrap() {}
            let found = found.into_iter();
            let found = found.map(|cell| ((cell.time_ms, cell.row, cell.column), cell.fixes));
            let matches = |row: &FixRow| filter.has(filter.value(row));
            let step_ms = step_ms.unwrap_or_default();
            let expected = model.density(window, matches, f64::from(cell_quanta), step_ms);
            assert!(found.eq(expected), "seed {seed} {window:?} {filter:?} {grid:?}");
        }
    }
}

/// Each run has objects of its own among those of the other, at the same times, as after an import
/// of one object after the other.
#[test]
fn rows_are_sought_only_in_runs_that_have_their_object() {
    const ROWS: usize = 20_000;
    let mut world = World::new(1, Shape { objects: 1, batch_rows: 1, partitions: 1 });
    world.open().unwrap();
    for run in 0..2 {
        let mut batch = Batch::default();
        for row in 0..ROWS as u64 {
            let (object, time_ms) = (row % 50 * 2 + run, START_MS + (row / 50) as i64);
            batch.fix(FixRow { speed_mm_s: row as u32 % 30, ..FixRow::new(object, time_ms, 0, 0) });
        }
        let watermark = world.watermark(1);
        world.writer().seal(&mut batch, watermark).unwrap();
    }
    let filter = Between { column: Column::Speed, low: 3, high: 11 };
    let grid = DensityGrid { cell_quanta: 1_000, step_ms: None };
    let window = (START_MS, START_MS + PARTITION_MS);
    let tiles = 2 * ROWS.div_ceil(TILE_ROWS) as u64;
    // The first scan also reads the directories of both runs, one tile each.
    for tiles in [tiles + 2, tiles] {
        let budget = QueryBudget::unlimited();
        let scan = Scan::new(world.version(), window, filter, budget.clone());
        let (mut density, mut found) = (Density::new(scan, grid).unwrap(), Vec::new());
        while density.next(&mut found).unwrap() {}
        let expected = 2 * (0..ROWS).filter(|row| (3..=11).contains(&(row % 30))).count() as u64;
        assert_eq!(found.iter().map(|cell| cell.fixes).sum::<u64>(), expected);
        assert_eq!(budget.tiles(), tiles);
    }
}
