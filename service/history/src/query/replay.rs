//! The fixes of a window in the order of time.
//!
//! Runs are ordered by object, so a part of the answer is collected by a scan and sorted. A
//! partition with more matches than the budget holds is cut into slices that fit it. For this, the
//! scan that finds too many matches counts the rest; then each slice is read by its own scan.

use std::sync::Arc;

use shoal_codec::{Column, ColumnSet, FixColumns};

use super::budget::QueryBudget;
use super::row_filter::RowFilter;
use super::scan::Scan;
use crate::error::HistoryError;
use crate::version::{Runs, Version};

const IDENTITIES: ColumnSet = ColumnSet::NONE.with(Column::Object).with(Column::Time);
/// Most parts of a slice whose matches are counted.
const COUNTS: u128 = 1 << 12;
/// Fixes that one step returns.
const STEP_ROWS: usize = 1 << 13;

/// The place of an identity in the order of the answer: its time, then its object.
type Place = u128;

/// Fixes between two times, both included, by (time, object).
#[derive(Debug)]
pub struct Replay<F> {
    version: Arc<Version>,
    window_ms: (i64, i64),
    filter: F,
    budget: QueryBudget,
    /// Partitions that remain, the next one last.
    partitions: Vec<Runs>,
    /// Remaining slices of the current partition, the next one last.
    slices: Vec<Slice>,
    stage: Stage<F>,
}

/// Progress of the current slice.
#[derive(Debug)]
enum Stage<F> {
    Choose,
    Collect {
        slice: Slice,
        scan: Box<Scan<F>>,
        rows: FixColumns,
    },
    /// The slice has more matches than the budget allows: counts them, to cut the slice.
    Count {
        slice: Slice,
        scan: Box<Scan<F>>,
        counts: Vec<usize>,
    },
    /// Rows `order[at..]` are still to be returned; see [`order`].
    Answer {
        rows: FixColumns,
        order: Vec<u64>,
        at: usize,
    },
}

/// A range of identities within one partition.
#[derive(Clone, Copy, Debug)]
struct Slice {
    first: Place,
    last: Place,
    /// Number of its matches, if they were counted.
    rows: Option<usize>,
}

fn place(time_ms: i64, object: u64) -> Place {
    // With the sign bit flipped, the unsigned order is the order of the times.
    let time = time_ms.cast_unsigned() ^ (1 << 63);
    (Place::from(time) << 64) | Place::from(object)
}

fn time_of(place: Place) -> i64 {
    ((place >> 64) as u64 ^ (1 << 63)).cast_signed()
}

impl Slice {
    fn window_ms(&self) -> (i64, i64) {
        (time_of(self.first), time_of(self.last))
    }

    /// Index of the part that contains `place`; `None` outside the slice.
    fn part_of(&self, place: Place) -> Option<usize> {
        let is_inside = self.first <= place && place <= self.last;
        is_inside.then(|| ((place - self.first) >> self.shift()) as usize)
    }

    /// Binary logarithm of the length of a part.
    fn shift(&self) -> u32 {
        let bits = Place::BITS - (self.last - self.first).leading_zeros();
        bits.saturating_sub(COUNTS.ilog2())
    }

    /// Joins neighbouring parts to ascending slices of at most `rows_max` matches. A part with more
    /// matches is a slice of its own, which is cut again.
    fn cut(&self, counts: &[usize], rows_max: usize) -> Vec<Self> {
        let mut slices: Vec<Self> = Vec::new();
        for (part, &count) in counts.iter().enumerate().filter(|(_, count)| **count > 0) {
            let first = self.first + ((part as Place) << self.shift());
            let last = first.saturating_add((1 << self.shift()) - 1).min(self.last);
            let fits = |rows: usize| rows.saturating_add(count) <= rows_max;
            match slices.last_mut() {
                Some(Self { last: end, rows: Some(rows), .. }) if fits(*rows) => {
                    (*end, *rows) = (last, *rows + count);
                }
                _ => slices.push(Self { first, last, rows: Some(count) }),
            }
        }
        slices
    }
}

impl<F: RowFilter + Clone> Replay<F> {
    /// Most memory for each row of the budget, if the budget is a power of two. It covers the row,
    /// its place in the order, and the unused capacity of growing columns.
    pub const ROW_BYTES: usize = size_of::<shoal_codec::FixRow>() + size_of::<u64>();

    /// Begins a replay from `from_ms` to `to_ms`.
    #[must_use]
    pub fn new(
        version: Arc<Version>,
        (from_ms, to_ms): (i64, i64),
        filter: F,
        budget: QueryBudget,
    ) -> Self {
        let partitions = version.partitions_in(from_ms, to_ms).rev().cloned().collect();
        let (window_ms, slices, stage) = ((from_ms, to_ms), Vec::new(), Stage::Choose);
        Self { version, window_ms, filter, budget, partitions, slices, stage }
    }

    /// The version that is read.
    #[must_use]
    pub fn version(&self) -> &Arc<Version> {
        &self.version
    }

    /// Appends the next fixes, at most as many as the budget holds and possibly none. Returns false
    /// at the end.
    ///
    /// # Errors
    /// As [`super::Scan::next`]. A tile counts once against the budget, even if several slices read
    /// it.
    pub fn next(&mut self, out: &mut FixColumns) -> Result<bool, HistoryError> {
        self.budget.check()?;
        let rows_max = self.budget.rows_max();
        self.stage = match std::mem::replace(&mut self.stage, Stage::Choose) {
            Stage::Choose => match self.next_slice() {
                None => return Ok(false),
                Some(slice) => {
                    let scan = Box::new(self.scan(&slice));
                    Stage::Collect { slice, scan, rows: FixColumns::new() }
                }
            },
            Stage::Collect { slice, mut scan, mut rows } => {
                let (mut others, is_one) = (Vec::new(), slice.first == slice.last);
                let has_more = scan.visit(ColumnSet::ALL, |found, row| {
                    let place = place(found.time_ms[row], found.object[row]);
                    match slice.part_of(place) {
                        Some(_) if rows.len() < rows_max || is_one => rows.push_row(found.row(row)),
                        Some(part) => others.push(part),
                        None => {}
                    }
                })?;
                if !others.is_empty() {
                    let mut counts = vec![0; COUNTS as usize];
                    let held = rows.time_ms.iter().zip(&rows.object);
                    let held =
                        held.filter_map(|(time, object)| slice.part_of(place(*time, *object)));
                    held.chain(others).for_each(|part| counts[part] += 1);
                    Stage::Count { slice, scan, counts }
                } else if has_more {
                    Stage::Collect { slice, scan, rows }
                } else {
                    Stage::Answer { order: order(&rows), rows, at: 0 }
                }
            }
            Stage::Count { slice, mut scan, mut counts } => {
                let has_more = scan.visit(IDENTITIES, |found, row| {
                    let place = place(found.time_ms[row], found.object[row]);
                    slice.part_of(place).into_iter().for_each(|part| counts[part] += 1);
                })?;
                if has_more {
                    Stage::Count { slice, scan, counts }
                } else {
                    self.slices.extend(slice.cut(&counts, rows_max).into_iter().rev());
                    Stage::Choose
                }
            }
            Stage::Answer { rows, order, at } => {
                let end = order.len().min(at + STEP_ROWS);
                order[at..end].iter().for_each(|key| out.push_row(rows.row(row_of(*key))));
                if end < order.len() {
                    Stage::Answer { rows, order, at: end }
                } else {
                    Stage::Choose
                }
            }
        };
        Ok(true)
    }

    /// The next slice of the current partition, or all of the next partition.
    fn next_slice(&mut self) -> Option<Slice> {
        self.slices.pop().or_else(|| {
            while let Some(runs) = self.partitions.pop() {
                let zones = runs.iter().map(|file| file.entry.zone.time_ms);
                let from_ms = zones.clone().map(|zone| zone.0).min()?.max(self.window_ms.0);
                let to_ms = zones.map(|zone| zone.1).max()?.min(self.window_ms.1);
                if from_ms <= to_ms {
                    let (first, last) = (place(from_ms, 0), place(to_ms, u64::MAX));
                    return Some(Slice { first, last, rows: None });
                }
            }
            None
        })
    }

    fn scan(&self, slice: &Slice) -> Scan<F> {
        let budget =
            if slice.rows.is_some() { self.budget.uncounted() } else { self.budget.clone() };
        Scan::new(self.version.clone(), slice.window_ms(), self.filter.clone(), budget)
    }
}

/// Order of the rows of one partition by (time, object). The lower 32 bits of an element are the
/// index of the row.
fn order(rows: &FixColumns) -> Vec<u64> {
    let first_ms = rows.time_ms.iter().copied().min().unwrap_or(0);
    // Times within a partition have 32 bits.
    let key = |(row, time_ms): (usize, &i64)| ((*time_ms - first_ms) as u64) << 32 | row as u64;
    let mut order: Vec<u64> = rows.time_ms.iter().enumerate().map(key).collect();
    order.sort_unstable();
    for of_time in order.chunk_by_mut(|a, b| a >> 32 == b >> 32) {
        of_time.sort_unstable_by_key(|key| rows.object[row_of(*key)]);
    }
    order
}

fn row_of(key: u64) -> usize {
    key as u32 as usize
}
