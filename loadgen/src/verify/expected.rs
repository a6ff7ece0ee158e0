//! What should the answers at one epoch be?
//!
//! All questions of an epoch are answered in one pass over all records, each question tested
//! against each record by the definition of its region or rank. Slow and without an index, on
//! purpose.

use std::collections::{BinaryHeap, HashSet};

use shoal_codec::FixRow;
use shoal_engine::{Projection, QuantaRect, Query, QueryKind, Ranker, Region};

use super::oracle::Oracle;

/// The right answer to one question.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Expected {
    /// Objects that match; nearest: at most k.
    pub total: u64,
    /// The limit cuts rows off.
    pub truncated: bool,
    /// Records in the order of the answer, none for a count.
    pub rows: Vec<FixRow>,
    /// Ranks beside them, for nearest.
    pub ranks: Vec<u64>,
}

/// The right answers to `queries` on the oracle's state, in their order.
#[must_use]
pub fn expected(oracle: &Oracle, queries: &[&Query]) -> Vec<Expected> {
    let mut scan = Scan::new(oracle, queries);
    for row in oracle.rows() {
        scan.row(row);
    }
    scan.finish(queries)
}

/// All questions of a pass, by kind, so that the loop over records is tight.
struct Scan<'a> {
    clock_ms: i64,
    /// A rectangle is its own cover: at most two boxes that share no point.
    rectangles: Vec<(QuantaRect, usize)>,
    regions: Vec<(&'a Region, usize)>,
    nearest: Vec<Nearest<'a>>,
    queries: Vec<&'a Query>,
    found: Vec<Vec<FixRow>>,
}

/// A nearest question and the best records so far.
struct Nearest<'a> {
    query: &'a Query,
    ranker: Ranker,
    k: usize,
    rank_max: u64,
    /// The worst on top.
    best: BinaryHeap<Ranked>,
    question: usize,
}

/// A record by its rank, then object.
struct Ranked {
    rank: u64,
    row: FixRow,
}

impl Ranked {
    fn key(&self) -> (u64, u64) {
        (self.rank, self.row.object)
    }
}

impl PartialEq for Ranked {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Ranked {}

impl PartialOrd for Ranked {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ranked {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<'a> Scan<'a> {
    fn new(oracle: &Oracle, queries: &[&'a Query]) -> Self {
        let mut scan = Self {
            clock_ms: oracle.clock_ms(),
            rectangles: Vec::new(),
            regions: Vec::new(),
            nearest: Vec::new(),
            queries: queries.to_vec(),
            found: vec![Vec::new(); queries.len()],
        };
        for (question, query) in queries.iter().enumerate() {
            match &query.kind {
                QueryKind::Range(Region::Rectangle(rectangle)) => {
                    let cover = rectangle.cover();
                    let boxes = cover.as_slice().iter();
                    scan.rectangles.extend(boxes.map(|rect| (*rect, question)));
                }
                QueryKind::Range(region) => scan.regions.push((region, question)),
                QueryKind::Nearest { x, y, k, rank_max } => scan.nearest.push(Nearest {
                    query,
                    ranker: Ranker::new(oracle.space(), *x, *y),
                    k: *k as usize,
                    rank_max: *rank_max,
                    best: BinaryHeap::new(),
                    question,
                }),
                QueryKind::Get(objects) => {
                    let mut known = HashSet::new();
                    let once = objects.iter().filter(|object| known.insert(**object));
                    let rows = once.filter_map(|object| oracle.get(*object));
                    let passing = rows.filter(|row| query.passes(row, scan.clock_ms));
                    scan.found[question].extend(passing);
                }
            }
        }
        scan
    }

    fn row(&mut self, row: &FixRow) {
        for (rectangle, question) in &self.rectangles {
            if rectangle.contains(row.x, row.y)
                && self.queries[*question].passes(row, self.clock_ms)
            {
                self.found[*question].push(*row);
            }
        }
        for (region, question) in &self.regions {
            if region.contains(row.x, row.y) && self.queries[*question].passes(row, self.clock_ms) {
                self.found[*question].push(*row);
            }
        }
        for nearest in &mut self.nearest {
            nearest.row(row, self.clock_ms);
        }
    }

    fn finish(mut self, queries: &[&Query]) -> Vec<Expected> {
        let mut ranks = vec![Vec::new(); queries.len()];
        for nearest in self.nearest {
            for Ranked { rank, row } in nearest.best.into_sorted_vec() {
                ranks[nearest.question].push(rank);
                self.found[nearest.question].push(row);
            }
        }
        let answers = queries.iter().zip(self.found).zip(ranks);
        answers.map(|((query, found), ranks)| cut(query, found, ranks)).collect()
    }
}

impl Nearest<'_> {
    fn row(&mut self, row: &FixRow, clock_ms: i64) {
        if self.k == 0 {
            return;
        }
        let ranked = Ranked { rank: self.ranker.rank(row.x, row.y), row: *row };
        let is_full = self.best.len() == self.k;
        let is_beaten = is_full && self.best.peek().is_some_and(|worst| ranked >= *worst);
        if is_beaten || ranked.rank > self.rank_max {
            return;
        }
        if self.query.passes(row, clock_ms) {
            if is_full {
                self.best.pop();
            }
            self.best.push(ranked);
        }
    }
}

/// Orders what was found and cuts it to what was asked for.
fn cut(query: &Query, mut found: Vec<FixRow>, mut ranks: Vec<u64>) -> Expected {
    let total = found.len() as u64;
    if query.projection == Projection::Count {
        return Expected { total, ..Expected::default() };
    }
    if !matches!(query.kind, QueryKind::Nearest { .. }) {
        found.sort_unstable_by_key(|row| row.object);
    }
    let limit = usize::try_from(query.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    found.truncate(limit);
    ranks.truncate(limit);
    Expected { total, truncated: (found.len() as u64) < total, rows: found, ranks }
}
