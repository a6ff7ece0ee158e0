//! Answers queries by reading every record of an export once, outside the cycles of an engine.
//!
//! An export returns the state of one epoch while cycles run. A scan of its rows answers queries
//! that would delay a cycle too long. Regions are found through an index
//! of their cells, so that records in a cell that lies wholly inside are not tested one by one.

mod found;

use std::collections::HashMap;
use std::ops::Range;

use shoal_codec::FixColumns;

use self::found::Found;
use crate::query::{AnswerPage, Query, QueryKind};
use crate::rank::{RankPoint, Ranker};
use crate::region::{Circle, Cover, Preparation, PreparedRegion, Region};
use crate::space::{QuantaRect, Space};
use crate::stage::region_index::RegionIndex;

/// Rows whose positions are compared with a box at once.
const BLOCK_ROWS: usize = 16;

/// A box without points.
const NOWHERE: QuantaRect = QuantaRect { x_min: 1, y_min: 0, x_max: 0, y_max: 0 };

/// A polygon is expected to have this many times the tests that it would have if positions were
/// spread evenly.
const CROWDING: f64 = 16.0;

/// The state that a scan reads, and what it may take.
#[derive(Clone, Copy, Debug)]
pub struct ScannedState {
    /// The space.
    pub space: Space,
    /// The clock of the state.
    pub clock_ms: i64,
    /// Its number of records.
    pub records: u64,
    /// Bytes that the raster of a polygon may take; many polygons have rasters at once.
    pub raster_bytes_max: usize,
}

/// Queries during a scan.
#[derive(Debug)]
pub struct RecordScan<'a> {
    state: ScannedState,
    queries: Vec<&'a Query>,
    found: Vec<Found>,
    /// The regions of the queries; none for other kinds.
    prepared: Vec<Option<PreparedRegion<'a>>>,
    /// The regions of range queries, by query.
    regions: RegionIndex,
    /// The queries that get an object.
    gets: HashMap<u64, Vec<u32>>,
    nearest: Vec<NearestScan>,
    /// Scratch: rows by cell.
    cells: Vec<(u64, u32)>,
    /// Scratch: rows for the rankers.
    points: Vec<RankPoint>,
}

/// A nearest query.
#[derive(Debug)]
struct NearestScan {
    number: u32,
    ranker: Ranker,
    k: u64,
    rank_max: u64,
    /// Contains every point that may still be among the nearest. Most rows are outside, and this
    /// test is much cheaper than computing a rank.
    within: QuantaRect,
}

impl NearestScan {
    fn new(space: &Space, number: u32, ranker: Ranker, k: u32, rank_max: u64) -> Self {
        let within = box_of(&Circle::reaching(space, &ranker, rank_max).cover());
        Self { number, ranker, k: k.into(), rank_max, within }
    }

    /// Shrinks `within` to the points whose rank is at most that of the last row that can still be
    /// returned. Empties it when only the total is needed and `k` rows are found.
    fn narrow(&mut self, space: &Space, found: &Found) {
        if found.counts_only() && found.total >= self.k {
            self.within = NOWHERE;
        } else if found.rank_max() < self.rank_max {
            self.rank_max = found.rank_max();
            self.within = box_of(&Circle::reaching(space, &self.ranker, self.rank_max).cover());
        }
    }
}

impl<'a> RecordScan<'a> {
    /// A scan without queries.
    #[must_use]
    pub fn new(state: ScannedState) -> Self {
        Self {
            state,
            queries: Vec::new(),
            found: Vec::new(),
            prepared: Vec::new(),
            regions: RegionIndex::new(state.space.bounds()),
            gets: HashMap::new(),
            nearest: Vec::new(),
            cells: Vec::new(),
            points: Vec::new(),
        }
    }

    /// Adds the next query, before rows are read.
    pub fn add(&mut self, query: &'a Query) {
        let number = self.queries.len() as u32;
        let mut prepared = None;
        match &query.kind {
            QueryKind::Get(objects) => {
                for object in objects {
                    let queries = self.gets.entry(*object).or_default();
                    // Repeated ids count once.
                    if queries.last() != Some(&number) {
                        queries.push(number);
                    }
                }
            }
            QueryKind::Range(region) => {
                let tests = || self.state.tests_of(region);
                let raster_bytes_max = self.state.raster_bytes_max;
                let region = Preparation::new(region, raster_bytes_max, tests).prepare();
                self.regions.insert_prepared(number, &region);
                prepared = Some(region);
            }
            QueryKind::Nearest { x, y, k, rank_max } => {
                let space = &self.state.space;
                let ranker = Ranker::new(space, *x, *y);
                self.nearest.push(NearestScan::new(space, number, ranker, *k, *rank_max));
            }
        }
        self.found.push(Found::new(query, self.state.records));
        self.prepared.push(prepared);
        self.queries.push(query);
    }

    /// Reads some rows of a batch. Every record of the state must come once, in any order.
    pub fn read(&mut self, batch: &FixColumns, rows: Range<usize>) {
        for level in 0..self.regions.levels() {
            self.read_level(level, batch, rows.clone());
        }
        if !self.gets.is_empty() {
            for row in rows.clone() {
                let queries = self.gets.get(&batch.object[row]);
                for number in queries.into_iter().flatten() {
                    let number = *number as usize;
                    let query = &self.queries[number];
                    self.found[number].add(query, self.state.clock_ms, 0, batch, row);
                }
            }
        }
        if !self.nearest.is_empty() {
            self.read_nearest(batch, rows);
        }
    }

    /// Tests rows against the regions of one level of the index, cell by cell.
    fn read_level(&mut self, level: usize, batch: &FixColumns, rows: Range<usize>) {
        let Self { state: ScannedState { clock_ms, .. }, queries, found, .. } = self;
        let Self { prepared, regions, cells, .. } = self;
        cells.clear();
        let cell = |row: usize| (regions.cell(level, batch.x[row], batch.y[row]), row as u32);
        cells.extend(rows.map(cell));
        cells.sort_unstable();
        for rows in cells.chunk_by(|a, b| a.0 == b.0) {
            let of_cell = regions.regions(level, rows[0].0);
            for number in of_cell.whole() {
                let (query, found) = (&queries[*number as usize], &mut found[*number as usize]);
                if query.filter.is_none() && found.counts_only() {
                    found.total += rows.len() as u64;
                    continue;
                }
                for (_, row) in rows {
                    found.add(query, *clock_ms, 0, batch, *row as usize);
                }
            }
            for number in of_cell.partial() {
                let (query, found) = (&queries[*number as usize], &mut found[*number as usize]);
                let Some(region) = &prepared[*number as usize] else { continue };
                for row in rows.iter().map(|(_, row)| *row as usize) {
                    if region.contains(batch.x[row], batch.y[row]) {
                        found.add(query, *clock_ms, 0, batch, row);
                    }
                }
            }
        }
    }

    /// Offers rows to the nearest queries.
    fn read_nearest(&mut self, batch: &FixColumns, rows: Range<usize>) {
        let Self { state, queries, found, nearest, points, .. } = self;
        let ScannedState { space, clock_ms, .. } = state;
        let (x, y) = (&batch.x[rows.clone()], &batch.y[rows.clone()]);
        let is_geographic = space.is_geographic();
        points.clear();
        points.extend(x.iter().zip(y).map(|(x, y)| RankPoint::new(is_geographic, *x, *y)));
        for scan in nearest {
            let (query, found) = (&queries[scan.number as usize], &mut found[scan.number as usize]);
            for (block, (x, y)) in x.chunks(BLOCK_ROWS).zip(y.chunks(BLOCK_ROWS)).enumerate() {
                if !any_within(&scan.within, x, y) {
                    continue;
                }
                let first = block * BLOCK_ROWS;
                for (row, point) in points.iter().enumerate().skip(first).take(x.len()) {
                    let rank = scan.ranker.rank_of(point);
                    if rank <= scan.rank_max {
                        found.add(query, *clock_ms, rank, batch, rows.start + row);
                    }
                }
                scan.narrow(space, found);
            }
        }
    }

    /// The answers, one head per query in order.
    #[must_use]
    pub fn finish(self) -> AnswerPage {
        let mut page = AnswerPage::default();
        for (query, found) in self.queries.iter().zip(self.found) {
            found.finish(query, &mut page);
        }
        page
    }
}

impl ScannedState {
    /// A guess of the number of tests of a region.
    fn tests_of(&self, region: &Region) -> u64 {
        let area = |rect: &QuantaRect| {
            let side = |min: i32, max: i32| f64::from(max.abs_diff(min)) + 1.0;
            side(rect.x_min, rect.x_max) * side(rect.y_min, rect.y_max)
        };
        let share: f64 = region.cover().as_slice().iter().map(area).sum();
        let share = CROWDING * share / area(&self.space.bounds());
        (self.records as f64 * share.min(1.0)) as u64
    }
}

/// The least box around a cover.
fn box_of(cover: &Cover) -> QuantaRect {
    let boxes = cover.as_slice().iter().copied();
    let both = boxes.reduce(|a, b| QuantaRect {
        x_min: a.x_min.min(b.x_min),
        y_min: a.y_min.min(b.y_min),
        x_max: a.x_max.max(b.x_max),
        y_max: a.y_max.max(b.y_max),
    });
    both.unwrap_or(NOWHERE)
}

/// Whether a box has one of these points; without branches, so that it compares several at once.
fn any_within(rect: &QuantaRect, x: &[i32], y: &[i32]) -> bool {
    let within = |(x, y): (&i32, &i32)| {
        (*x >= rect.x_min) & (*x <= rect.x_max) & (*y >= rect.y_min) & (*y <= rect.y_max)
    };
    x.iter().zip(y).fold(false, |any, point| any | within(point))
}
