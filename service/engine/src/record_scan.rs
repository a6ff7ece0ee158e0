//! Answers queries by reading every record of an export once, outside the cycles of an engine.
//!
//! An export returns the state of one epoch while cycles run. A scan of its rows answers queries
//! that would delay a cycle too long. Regions are found through an index
//! of their cells, so that records in a cell that lies wholly inside are not tested one by one.

use std::collections::HashMap;
use std::ops::Range;

use shoal_codec::{FixColumns, FixRow};

use crate::query::{AnswerHead, AnswerPage, Projection, Query, QueryKind, RowLimit};
use crate::rank::{RankPoint, Ranker};
use crate::region::{Circle, Cover};
use crate::space::{QuantaRect, Space};
use crate::stage::region_index::RegionIndex;

/// Least number of rows collected beyond the limit before the list is truncated.
const SPARE_ROWS: usize = 64;

/// Rows whose positions are compared with a box at once.
const BLOCK_ROWS: usize = 16;

/// A box without points.
const NOWHERE: QuantaRect = QuantaRect { x_min: 1, y_min: 0, x_max: 0, y_max: 0 };

/// Queries during a scan.
#[derive(Debug)]
pub struct RecordScan {
    space: Space,
    clock_ms: i64,
    queries: Vec<Query>,
    found: Vec<Found>,
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
        } else if found.last.0 < self.rank_max {
            self.rank_max = found.last.0;
            self.within = box_of(&Circle::reaching(space, &self.ranker, self.rank_max).cover());
        }
    }
}

/// What a query has found so far.
#[derive(Debug)]
struct Found {
    total: u64,
    keep: Keep,
    /// Rank and id. All ranks are 0 unless the query is a nearest query.
    ids: Vec<(u64, u64)>,
    /// Rank and record, used instead of `ids` if the query wants records.
    fixes: Vec<(u64, FixRow)>,
    /// Rows after this (rank, id) are not kept.
    last: (u64, u64),
}

/// The rows that a query keeps.
#[derive(Clone, Copy, Debug)]
enum Keep {
    All,
    /// The first by (rank, id).
    First(usize),
    /// All rows up to this number, none if there are more; 0 only counts.
    AllOrNone(usize),
}

impl RecordScan {
    /// Prepares a scan for these queries; `clock_ms` is the clock of the exported state.
    #[must_use]
    pub fn new(space: &Space, queries: Vec<Query>, clock_ms: i64) -> Self {
        let mut regions = RegionIndex::new(space.bounds());
        let mut gets: HashMap<u64, Vec<u32>> = HashMap::new();
        let mut nearest = Vec::new();
        for (number, query) in (0..).zip(&queries) {
            match &query.kind {
                QueryKind::Get(objects) => {
                    for object in objects {
                        let queries = gets.entry(*object).or_default();
                        // Repeated ids count once.
                        if queries.last() != Some(&number) {
                            queries.push(number);
                        }
                    }
                }
                QueryKind::Range(region) => regions.insert(number, region),
                QueryKind::Nearest { x, y, k, rank_max } => {
                    let ranker = Ranker::new(space, *x, *y);
                    nearest.push(NearestScan::new(space, number, ranker, *k, *rank_max));
                }
            }
        }
        let found = queries.iter().map(Found::new).collect();
        let (space, cells, points) = (*space, Vec::new(), Vec::new());
        Self { space, clock_ms, queries, found, regions, gets, nearest, cells, points }
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
                    self.found[number].add(query, self.clock_ms, 0, batch, row);
                }
            }
        }
        if !self.nearest.is_empty() {
            self.read_nearest(batch, rows);
        }
    }

    /// Tests rows against the regions of one level of the index, cell by cell.
    fn read_level(&mut self, level: usize, batch: &FixColumns, rows: Range<usize>) {
        let Self { clock_ms, queries, found, regions, cells, .. } = self;
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
                let QueryKind::Range(region) = &query.kind else { continue };
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
        let Self { space, clock_ms, queries, found, nearest, points, .. } = self;
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

impl Found {
    fn new(query: &Query) -> Self {
        let rows = |rows: u64| usize::try_from(rows).unwrap_or(usize::MAX);
        let keep = match (&query.kind, query.projection, query.limit) {
            (QueryKind::Nearest { k, .. }, Projection::Ids | Projection::Fixes, _) => {
                Keep::First(*k as usize)
            }
            (_, Projection::Count, _) => Keep::AllOrNone(0),
            (_, _, Some(RowLimit::AllOrNone(most))) => Keep::AllOrNone(rows(most)),
            (_, _, Some(RowLimit::First(most))) => Keep::First(rows(most)),
            (_, _, None) => Keep::All,
        };
        let last = (u64::MAX, u64::MAX);
        Self { total: 0, keep, ids: Vec::new(), fixes: Vec::new(), last }
    }

    /// True when rows are only counted.
    fn counts_only(&self) -> bool {
        matches!(self.keep, Keep::AllOrNone(0))
    }

    /// Counts a row that passes the filter, and keeps it if the answer may contain it.
    fn add(&mut self, query: &Query, clock_ms: i64, rank: u64, batch: &FixColumns, row: usize) {
        let object = batch.object[row];
        if query.filter.is_some() && !query.passes(&batch.row(row), clock_ms) {
            return;
        }
        self.total += 1;
        let most = match self.keep {
            Keep::All => usize::MAX,
            Keep::First(_) if (rank, object) > self.last => return,
            Keep::First(most) => most.saturating_add(SPARE_ROWS.max(most / 4)),
            Keep::AllOrNone(0) => return,
            Keep::AllOrNone(most) => most,
        };
        if query.projection == Projection::Fixes {
            self.fixes.push((rank, batch.row(row)));
        } else {
            self.ids.push((rank, object));
        }
        if self.ids.len().max(self.fixes.len()) > most {
            match self.keep {
                Keep::First(most) => self.cut_to(most),
                Keep::All | Keep::AllOrNone(_) => {
                    (self.ids, self.fixes) = (Vec::new(), Vec::new());
                    self.keep = Keep::AllOrNone(0);
                }
            }
        }
    }

    /// Sorts the rows and truncates them to the first `most`.
    fn cut_to(&mut self, most: usize) {
        self.sort();
        self.ids.truncate(most);
        self.fixes.truncate(most);
        let last_id = self.ids.last().copied();
        let last = self.fixes.last().map(|(rank, row)| (*rank, row.object)).or(last_id);
        if let Some(last) = last.filter(|_| self.ids.len().max(self.fixes.len()) == most) {
            self.last = last;
        }
    }

    fn sort(&mut self) {
        self.ids.sort_unstable();
        self.fixes.sort_unstable_by_key(|(rank, row)| (*rank, row.object));
    }

    /// Appends the answer to the page.
    fn finish(mut self, query: &Query, page: &mut AnswerPage) {
        let mut total = self.total;
        if let QueryKind::Nearest { k, .. } = query.kind {
            total = total.min(k.into());
        }
        self.sort();
        let is_count = query.projection == Projection::Count;
        let returned = if is_count { 0 } else { query.returned(total as usize) };
        let is_nearest = matches!(query.kind, QueryKind::Nearest { .. });
        let first = (page.objects.len(), page.fixes.len(), page.ranks.len());
        let ranked = self.fixes.iter().map(|(rank, row)| (*rank, row.object));
        for (rank, object) in self.ids.iter().copied().chain(ranked).take(returned) {
            page.objects.push(object);
            if is_nearest {
                page.ranks.push(rank);
            }
        }
        page.fixes.extend(self.fixes.iter().take(returned).map(|(_, row)| *row));
        page.heads.push(AnswerHead {
            total,
            truncated: !is_count && (returned as u64) < total,
            objects: (first.0, page.objects.len()),
            fixes: (first.1, page.fixes.len()),
            ranks: (first.2, page.ranks.len()),
        });
    }
}
