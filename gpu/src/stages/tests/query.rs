//! Range and nearest queries against a linear scan, in all shapes, under all filters.
//!
//! From parts to sorted ids and records, through the steps that the driver queues. The model is
//! `Region::contains` and `Filter::passes`, row by row.

use std::collections::BTreeMap;
use std::f64::consts::PI;

use shoal_codec::{ALTITUDE_UNKNOWN, FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN, VALIDITY_UNKNOWN};
use shoal_engine::layout::AnswerRecord;
use shoal_engine::sphere::EARTH_RADIUS_M;
use shoal_engine::{
    CycleInput, Filter, HashKey, Projection, Query, QueryKind, Ranker, Region, Space,
};

use super::scene::Scene;
use crate::launch::ViewArgument;
use crate::launch::tests::{BOUNDARIES, Bench, seeds};
use crate::stages::dispatch::staging::{Arena, Staged, stage};
use crate::stages::query::answers::AnswerBuilder;
use crate::stages::query::batch::{QueryBatch, Sorted};
use crate::stages::query::parts::QueryParts;
use crate::stages::timeline::Timeline;
use crate::stages::update::tables::Tables;
use crate::state::grid_cells::GridCells;
use crate::state::record;
use crate::state::records::Records;

const NOW_MS: i64 = 1_704_067_200_000;
/// A number of objects for which one answer is longer than a block can sort.
const MANY: usize = 6_000;

fn known(scene: &mut Scene, object: u64) -> AnswerRecord {
    let (x, y) = scene.point();
    let random = &mut scene.random;
    let has = |random: &mut shoal_testkit::Random| random.once_in(2);
    AnswerRecord {
        object,
        time_ms: NOW_MS - random.between(0, 30_000),
        x,
        y,
        speed_mm_s: if has(random) { random.below(20_000) as u32 } else { SPEED_UNKNOWN },
        altitude_mm: if has(random) { random.quanta(-9_000, 9_000) } else { ALTITUDE_UNKNOWN },
        heading_cdeg: if has(random) {
            random.below(36_000) as u32
        } else {
            HEADING_UNKNOWN.into()
        },
        valid_ms: if has(random) { random.below(9_000) as u32 } else { VALIDITY_UNKNOWN },
        state: random.below(16) as u32,
        found: 1,
        ..AnswerRecord::default()
    }
}

/// Objects with ids of every size, in no order, in two crowds.
fn objects(scene: &mut Scene, length: usize) -> Vec<AnswerRecord> {
    let mut rows = BTreeMap::new();
    while rows.len() < length {
        if scene.random.once_in(100) {
            scene.turn();
        }
        let bits = *scene.random.pick(&[13, 33, 63]);
        let object = scene.random.word() >> (64 - bits);
        rows.insert(object, known(scene, object));
    }
    let mut rows: Vec<AnswerRecord> = rows.into_values().collect();
    scene.shuffle(&mut rows);
    rows
}

/// The state that queries read: records, one grid and the lists of the stage.
struct Stage {
    bench: Bench,
    rows: Vec<AnswerRecord>,
    records: Records,
    cells: GridCells,
    query_batch: QueryBatch,
    sorted: Sorted,
    query_parts: QueryParts,
    spare: Option<Arena>,
}

impl Stage {
    fn new(scene: &mut Scene, length: usize) -> Self {
        let bench = Bench::new();
        let rows = objects(scene, length);
        let (kernels, stream, memory) = (&bench.gpu.kernels, &bench.stream, &bench.memory);
        let mut records = Records::new(memory, kernels, stream, HashKey::FIXED).unwrap();
        records.replace(stream, &rows).unwrap();
        let grid = scene.grid();
        let mut cells = GridCells::new(memory, &grid).unwrap();
        let mut tables = Tables::new(memory).unwrap();
        let of = (length as u32, length as u64);
        let is_tight = scene.random.once_in(2);
        cells
            .rebuild(kernels, stream, &mut tables, (&grid, is_tight), &records.current, of)
            .unwrap();
        bench.wait();
        Self {
            rows,
            records,
            cells,
            query_batch: QueryBatch::new(memory, kernels, stream.clone()).unwrap(),
            sorted: Sorted::new(memory).unwrap(),
            query_parts: QueryParts::default(),
            spare: Some(Arena::new(memory).unwrap()),
            bench,
        }
    }

    fn view(&self) -> ViewArgument {
        ViewArgument::new(
            &self.cells.argument(),
            self.cells.is_tight,
            self.records.argument(),
            0,
            NOW_MS,
        )
    }

    /// Runs all queries in one cycle and compares the counts and matches.
    fn run(&mut self, queries: &[Query], what: &str) {
        let input = CycleInput { queries: queries.to_vec(), ..CycleInput::default() };
        let (memory, stream) = (&self.bench.memory, &self.bench.stream);
        let (timeline, spare) = (Timeline::default(), &mut self.spare);
        let staged =
            stage(memory, stream, &timeline, 1, spare, input, &mut self.query_parts).unwrap();
        let (bounds, totals) = self.count(&staged);
        for (number, query) in queries.iter().enumerate() {
            let found = self.scan(query).len() as u64;
            let (listed, counted) = match (&query.kind, query.projection) {
                (QueryKind::Range(_), Projection::Count) => (0, found),
                (QueryKind::Range(_), _) => (found, 0),
                _ => (0, 0),
            };
            let seen = bounds[number + 1] - bounds[number];
            assert_eq!(seen, listed, "{what}: matches of {query:?}");
            assert_eq!(totals[number], counted, "{what}: total of {query:?}");
        }
        let matches = bounds[queries.len()] as usize;
        if matches > 0 {
            self.find(&staged, queries, &bounds, what);
        }
        self.get(&staged, queries, what);
        self.spare = Some(staged.arena);
    }

    /// Runs the range queries as warp queries, which request only ids.
    fn run_by_warp(&mut self, queries: &[Query], what: &str) {
        let ranges = queries.iter().filter(|query| matches!(query.kind, QueryKind::Range(_)));
        let plain = |query: &Query| Query { projection: Projection::Ids, ..query.clone() };
        let queries: Vec<Query> = ranges.map(plain).collect();
        let input = CycleInput { queries: queries.clone(), ..CycleInput::default() };
        let (memory, stream) = (&self.bench.memory, &self.bench.stream);
        let (timeline, spare) = (Timeline::default(), &mut self.spare);
        let query_parts = &mut self.query_parts;
        let staged = stage(memory, stream, &timeline, 1, spare, input, query_parts).unwrap();
        if staged.query_ranges.parts.length > 0 {
            assert!(staged.are_plain, "{what}: all want ids");
            let (view, input) = (self.view(), staged.query_input());
            let mut bounds = vec![u64::MAX; queries.len() + 1];
            self.query_batch.count_by_warp(&view, input).unwrap();
            let room = self.query_batch.write_short(&view, queries.len(), &self.sorted).unwrap();
            self.query_batch.take_counts((&mut bounds).into()).unwrap();
            self.bench.wait();
            let matches = bounds[queries.len()] as usize;
            let mut objects = Vec::new();
            if matches > 0 {
                let sorted = &mut self.sorted;
                self.query_batch.write_by_warp(&view, input, matches, room, sorted).unwrap();
                objects = self.query_batch.take_objects(&self.sorted, matches).unwrap();
            }
            for (query, bound) in queries.iter().zip(bounds.windows(2)) {
                let ids: Vec<u64> = self.scan(query).iter().map(|row| row.object).collect();
                let found = &objects[bound[0] as usize..bound[1] as usize];
                assert_eq!(found, ids, "{what}: ids of {query:?}, by warp");
            }
        }
        self.spare = Some(staged.arena);
    }

    /// Bounds of listed matches, and totals of counted ones, by query.
    fn count(&mut self, staged: &Staged) -> (Vec<u64>, Vec<u64>) {
        let queries = staged.queries.len();
        let (mut bounds, mut totals) = (vec![0; queries + 1], vec![0; queries]);
        if staged.query_ranges.parts.length > 0 {
            let (view, input) = (self.view(), staged.query_input());
            self.query_batch.cut(&view, input).unwrap().synchronize().unwrap();
            self.query_batch.count(&view, input, &mut bounds, Some(&mut totals)).unwrap();
            self.bench.wait();
        }
        (bounds, totals)
    }

    /// Ids and records of every query that lists them.
    fn find(&mut self, staged: &Staged, queries: &[Query], bounds: &[u64], what: &str) {
        let matches = bounds[queries.len()] as usize;
        let (view, input) = (self.view(), staged.query_input());
        self.query_batch.write(&view, input, matches, &mut self.sorted).unwrap();
        let objects = self.query_batch.take_objects(&self.sorted, matches).unwrap();
        let fixes = self.query_batch.fixes(&view, &self.sorted, matches).unwrap();
        for (query, bound) in queries.iter().zip(bounds.windows(2)) {
            let range = bound[0] as usize..bound[1] as usize;
            if range.is_empty() {
                continue;
            }
            let expected = self.scan(query);
            let ids: Vec<u64> = expected.iter().map(|row| row.object).collect();
            assert_eq!(objects[range.clone()], ids, "{what}: ids of {query:?}");
            assert_eq!(fixes[range], expected, "{what}: records of {query:?}");
        }
    }

    /// Records of every requested id, with or without an object.
    fn get(&mut self, staged: &Staged, queries: &[Query], what: &str) {
        if staged.gets.length == 0 {
            return;
        }
        let (view, index) = (self.view(), self.records.index());
        let input = &staged.arena.device;
        let found = self.query_batch.get(&view, &index, input, staged.gets).unwrap();
        let mut expected = Vec::new();
        for query in queries {
            if let QueryKind::Get(objects) = &query.kind {
                let mut objects = objects.clone();
                objects.sort_unstable();
                objects.dedup();
                let known = |id: &u64| self.rows.iter().find(|row| row.object == *id).copied();
                expected.extend(objects.iter().map(|id| known(id).unwrap_or_default()));
            }
        }
        assert_eq!(found, expected, "{what}: gets");
    }

    /// Runs nearest queries in one cycle.
    fn ask_nearest(&mut self, space: &Space, queries: &[Query], what: &str) {
        let view = self.view();
        let mut maker = AnswerBuilder {
            space,
            view,
            query_batch: &mut self.query_batch,
            sorted: &mut self.sorted,
            index: self.records.index(),
            work: None,
            clock_ms: NOW_MS,
            objects: self.rows.len() as u64,
        };
        let found = maker.nearest(queries).unwrap();
        for (query, bound) in queries.iter().zip(found.bounds.windows(2)) {
            let range = bound[0] as usize..bound[1] as usize;
            let seen = found.ranks[range.clone()].iter().zip(&found.fixes[range]);
            let seen: Vec<(u64, AnswerRecord)> = seen.map(|(rank, row)| (*rank, *row)).collect();
            assert_eq!(seen, self.neighbours(space, query), "{what}: {query:?}");
        }
    }

    /// The first `k` by (rank, object) of all that pass.
    fn neighbours(&self, space: &Space, query: &Query) -> Vec<(u64, AnswerRecord)> {
        let QueryKind::Nearest { x, y, k, rank_max } = query.kind else { return Vec::new() };
        let ranker = Ranker::new(space, x, y);
        let passing = self.rows.iter().filter(|row| query.passes(&record::row(row), NOW_MS));
        let ranked = passing.map(|row| (ranker.rank(row.x, row.y), *row));
        let mut found: Vec<_> = ranked.filter(|(rank, _)| *rank <= rank_max).collect();
        found.sort_unstable_by_key(|(rank, row)| (*rank, row.object));
        found.truncate(k as usize);
        found
    }

    /// The rows that match, ascending by object.
    fn scan(&self, query: &Query) -> Vec<AnswerRecord> {
        let QueryKind::Range(region) = &query.kind else { return Vec::new() };
        let passes = |row: &FixRow| query.passes(row, NOW_MS);
        let matches =
            |row: &&AnswerRecord| region.contains(row.x, row.y) && passes(&record::row(row));
        let mut found: Vec<AnswerRecord> = self.rows.iter().filter(matches).copied().collect();
        found.sort_unstable_by_key(|row| row.object);
        found
    }
}

/// The position of an object, or a random one.
fn place(scene: &mut Scene, rows: &[AnswerRecord]) -> (i32, i32) {
    if rows.is_empty() || scene.random.once_in(3) {
        return scene.point();
    }
    let row = scene.random.pick(rows);
    (row.x, row.y)
}

fn rectangle(scene: &mut Scene, a: (i32, i32), b: (i32, i32)) -> Option<Region> {
    let (a, b) = (scene.space.to_api(a.0, a.1), scene.space.to_api(b.0, b.1));
    let (mut west, mut east) = (a.0.min(b.0), a.0.max(b.0));
    // Across the antimeridian.
    if scene.space.is_geographic() && scene.random.once_in(3) {
        (west, east) = (east, west);
    }
    Region::rectangle(&scene.space, west, a.1.min(b.1), east, a.1.max(b.1)).ok()
}

fn circle(scene: &mut Scene, a: (i32, i32), b: (i32, i32)) -> Option<Region> {
    let longest_m = if scene.space.is_geographic() {
        PI * EARTH_RADIUS_M
    } else {
        scene.space.quantum() * 1.5 * f64::from(scene.space.bounds().x_max)
    };
    let radius_m = match scene.random.below(4) {
        // Through an object.
        0 => scene.space.distance_m(Ranker::new(&scene.space, a.0, a.1).rank(b.0, b.1)),
        1 => longest_m * scene.random.unit(),
        2 => longest_m * scene.random.unit().powi(8),
        _ => *scene.random.pick(&[0.0, 1.0, f64::INFINITY]),
    };
    let (x, y) = scene.space.to_api(a.0, a.1);
    Region::circle(&scene.space, x, y, radius_m).ok()
}

/// Rings which may cross each other and themselves: even-odd decides in one polygon, the union
/// among several.
fn polygon(scene: &mut Scene, rows: &[AnswerRecord]) -> Option<Region> {
    let rings = 1 + scene.random.below(4);
    let mut ring = |_| {
        let count = 3 + scene.random.below(12);
        let mut vertex = |_| {
            let (x, y) = place(scene, rows);
            scene.space.to_api(x, y)
        };
        (0..count).map(&mut vertex).collect()
    };
    let rings: Vec<Vec<(f64, f64)>> = (0..rings).map(&mut ring).collect();
    if scene.random.once_in(2) {
        return Region::polygon(&scene.space, &rings).ok();
    }
    let parts: Vec<_> = rings.chunks(2).map(<[_]>::to_vec).collect();
    Region::multi_polygon(&scene.space, &parts).ok()
}

fn region(scene: &mut Scene, rows: &[AnswerRecord]) -> Region {
    loop {
        let (a, b) = (place(scene, rows), place(scene, rows));
        let region = match scene.random.below(3) {
            0 => rectangle(scene, a, b),
            1 => circle(scene, a, b),
            _ => polygon(scene, rows),
        };
        if let Some(region) = region {
            return region;
        }
    }
}

fn filter(scene: &mut Scene) -> Filter {
    let random = &mut scene.random;
    let mut filter = Filter::default();
    if random.once_in(2) {
        filter.state_mask = random.below(16) as u32;
        filter.state_value = random.below(16) as u32 & filter.state_mask;
    }
    if random.once_in(3) {
        filter.age_max_ms = Some(random.between(-10, 30_000));
    }
    if random.once_in(4) {
        filter.speed_mm_s = Some((random.below(9_000) as u32, 15_000));
    }
    if random.once_in(4) {
        let (from, to) = (random.below(36_000), random.below(36_000));
        filter.heading_cdeg = Some((from as u16, to as u16));
    }
    if random.once_in(4) {
        filter.altitude_mm = Some((random.quanta(-9_000, 0), 3_000));
        filter.valid_ms = random.once_in(4).then_some((1_000, 8_000));
    }
    filter
}

fn query(scene: &mut Scene, rows: &[AnswerRecord]) -> Query {
    let kind = if scene.random.once_in(8) {
        let count = scene.random.below(40);
        let mut id = |_| match rows.len() {
            0 => scene.random.word(),
            _ if scene.random.once_in(3) => scene.random.word() >> 51,
            _ => scene.random.pick(rows).object,
        };
        QueryKind::Get((0..count).map(&mut id).collect())
    } else {
        QueryKind::Range(region(scene, rows))
    };
    let projections = [Projection::Ids, Projection::Fixes, Projection::Count];
    let projection = *scene.random.pick(&projections);
    let mut filter = if scene.random.once_in(3) { filter(scene) } else { Filter::default() };
    if scene.random.once_in(5) && !rows.is_empty() {
        filter.object_after = Some(scene.random.pick(rows).object);
    }
    Query { kind, filter: filter.boxed(), projection, limit: None }
}

seeds!(ranges_find_what_a_scan_finds);
fn ranges_find_what_a_scan_finds(seed: u64) {
    let mut scene = Scene::new(seed);
    for objects in BOUNDARIES.into_iter().chain([MANY]) {
        scene.turn();
        let mut stage = Stage::new(&mut scene, objects);
        for length in [1, *scene.random.pick(&BOUNDARIES)] {
            let queries: Vec<Query> = (0..length).map(|_| query(&mut scene, &stage.rows)).collect();
            let what = format!("{objects} objects, {length} queries");
            stage.run(&queries, &what);
            stage.run_by_warp(&queries, &what);
        }
        // Everything in one query: the longest possible answer.
        let everything = everything(&scene);
        assert_eq!(stage.scan(&everything).len(), objects, "everything is inside");
        let what = format!("all of {objects} objects");
        stage.run(std::slice::from_ref(&everything), &what);
        stage.run_by_warp(&[everything], &what);
    }
}

/// A query for the ids of all objects.
fn everything(scene: &Scene) -> Query {
    let bounds = scene.space.bounds();
    let (west, south) = scene.space.to_api(bounds.x_min, bounds.y_min);
    let (east, north) = scene.space.to_api(bounds.x_max, bounds.y_max);
    let all = Region::rectangle(&scene.space, west, south, east, north).unwrap();
    let (kind, projection) = (QueryKind::Range(all), Projection::Ids);
    Query { kind, filter: None, projection, limit: None }
}

seeds!(answers_of_every_length_are_found_by_warp);
fn answers_of_every_length_are_found_by_warp(seed: u64) {
    let mut scene = Scene::new(seed);
    let mut stage = Stage::new(&mut scene, MANY);
    let mut objects: Vec<u64> = stage.rows.iter().map(|row| row.object).collect();
    objects.sort_unstable();
    // The greatest and least lengths of each way to sort.
    let lengths = [1, 31, 32, 33, 64, 65, 128, 129, 255, 256, 257, 600];
    let last = |length: usize| {
        let object_after = Some(objects[objects.len() - 1 - length]);
        let filter = Filter { object_after, ..Filter::default() }.boxed();
        Query { filter, ..everything(&scene) }
    };
    let queries: Vec<Query> = (0..240).map(|at| last(lengths[at % lengths.len()])).collect();
    // First without memory for medium answers, then with room for some answers, then for all.
    stage.run_by_warp(&queries[..40], "few answers");
    stage.run_by_warp(&queries, "more answers");
    stage.run_by_warp(&queries, "the same answers");
}

seeds!(neighbours_are_those_of_a_scan);
fn neighbours_are_those_of_a_scan(seed: u64) {
    let mut scene = Scene::new(seed);
    for objects in BOUNDARIES.into_iter().chain([MANY]) {
        scene.turn();
        let mut stage = Stage::new(&mut scene, objects);
        for length in [1, *scene.random.pick(&BOUNDARIES)] {
            let nearest = |scene: &mut Scene| {
                let (x, y) = place(scene, &stage.rows);
                let k = *scene.random.pick(&[0, 1, 2, 7, 33, 600, 4_096]);
                let filter = if scene.random.once_in(3) { filter(scene).boxed() } else { None };
                // Through an object, among the objects, or through none.
                let (to_x, to_y) = place(scene, &stage.rows);
                let rank = Ranker::new(&scene.space, x, y).rank(to_x, to_y);
                let rank_max = *scene.random.pick(&[u64::MAX, u64::MAX, rank, rank / 2, 0]);
                let kind = QueryKind::Nearest { x, y, k, rank_max };
                Query { kind, filter, projection: Projection::Fixes, limit: None }
            };
            let queries: Vec<Query> = (0..length).map(|_| nearest(&mut scene)).collect();
            let what = format!("{objects} objects, {length} nearest queries");
            stage.ask_nearest(&scene.space, &queries, &what);
        }
    }
}
