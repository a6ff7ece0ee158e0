//! The work limit of the queries of a cycle. Work is the number of positions that a query visits,
//! weighted by the cost of its test, and the cost of copying the rows of its answer: at most as
//! many as pass the test, before filters.
//!
//! Updates wait for the queries of the cycle. To bound that wait, a cycle leaves queries unanswered
//! once the work is used up. Queries that are running at that moment may exceed the limit.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::query::{Projection, Query, RowLimit};
use crate::region::{Preparation, PreparedRegion};

/// Least work of visiting a bucket, which may be empty: a cache miss, mostly fetched ahead.
const BUCKET_WORK: u64 = 2;
/// Work of finding one object by its id: two cache misses.
const GET_WORK: u64 = 8;
/// Work of reading one record for a filter: a cache miss that overlaps with others.
const FILTER_WORK: u64 = 3;
/// Work of copying one record into an answer: two cache lines, often of new memory. Copying a
/// million records takes 25 ms of two cores, testing them 3 ms.
const RECORD_WORK: u64 = 8;
/// Work of copying one id into an answer.
const ID_WORK: u64 = 1;

/// Work of copying the rows of an answer if this number of objects match.
pub(super) fn copy_work(query: &Query, matches: u64) -> u64 {
    let row = match query.projection {
        Projection::Count => 0,
        Projection::Ids => ID_WORK,
        Projection::Fixes => RECORD_WORK,
    };
    let most = match query.limit {
        Some(RowLimit::First(most) | RowLimit::AllOrNone(most)) => most,
        None => u64::MAX,
    };
    row * matches.min(most)
}

/// The work left for each group of queries, shared by the cores.
pub(super) struct QueryWork {
    left: Vec<AtomicU64>,
    /// The group of each query; if empty, all queries are in the first group.
    groups: Vec<u32>,
}

impl QueryWork {
    /// A budget of `work_max` for a single group.
    pub(super) fn of_one(work_max: u64) -> Self {
        Self { left: vec![AtomicU64::new(work_max)], groups: Vec::new() }
    }

    /// Splits `work_max` equally among the groups with these end indices; `None` is no limit.
    pub(super) fn shared(work_max: Option<u64>, ends: &[u32]) -> Self {
        let Some(work_max) = work_max.filter(|_| ends.len() > 1) else {
            return Self::of_one(work_max.unwrap_or(u64::MAX));
        };
        let share = work_max / ends.len() as u64;
        let mut groups = Vec::with_capacity(ends.last().map_or(0, |end| *end as usize));
        (0..).zip(ends).for_each(|(group, end)| groups.resize(*end as usize, group));
        Self { left: ends.iter().map(|_| AtomicU64::new(share)).collect(), groups }
    }

    fn group(&self, query: u32) -> usize {
        self.groups.get(query as usize).map_or(0, |group| *group as usize)
    }

    /// Starts the meter of a query; `None` if its group has no work left.
    pub(super) fn begin(&self, query: u32) -> Option<Meter> {
        let group = self.group(query);
        let left = self.left[group].load(Ordering::Relaxed);
        (left > 0).then_some(Meter { group, left, ..Meter::UNBOUNDED })
    }

    /// Subtracts the work of a query from its group; false if it exceeds what was left when the
    /// query began.
    pub(super) fn end(&self, meter: &Meter) -> bool {
        // `u64::MAX` is no bound.
        let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(meter.used));
        let left = &self.left[meter.group];
        let _ = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less);
        !meter.is_over()
    }

    /// Subtracts `work` from the query's group and returns true; if less is left, changes nothing
    /// and returns false.
    pub(super) fn take_all(&self, query: u32, work: u64) -> bool {
        let less = |left: u64| if left == u64::MAX { Some(left) } else { left.checked_sub(work) };
        let left = &self.left[self.group(query)];
        left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }

    /// Sum of the work left in all groups.
    pub(super) fn rest(&self) -> u64 {
        self.left.iter().fold(0, |sum, left| sum.saturating_add(left.load(Ordering::Relaxed)))
    }
}

/// The work of one query.
#[derive(Clone, Copy, Debug)]
pub(super) struct Meter {
    group: usize,
    left: u64,
    used: u64,
    /// Work of one visited position.
    weight: u64,
    /// True if the query needs a step that exceeds what is left. It is not begun.
    is_refused: bool,
}

impl Meter {
    /// A meter without a limit.
    pub(super) const UNBOUNDED: Self =
        Self { group: 0, left: u64::MAX, used: 0, weight: 1, is_refused: false };

    /// Whether a step that takes this work may begin; if not, the query ends.
    pub(super) fn allows(&mut self, work: u64) -> bool {
        self.is_refused |= self.used.saturating_add(work) > self.left;
        !self.is_refused
    }

    /// Prepares a region and counts the work; `None` if it exceeds what is left.
    pub(super) fn prepare<'a>(&mut self, region: Preparation<'a>) -> Option<PreparedRegion<'a>> {
        let work = region.work();
        if !self.allows(work) {
            return None;
        }
        self.used = self.used.saturating_add(work);
        Some(region.prepare())
    }

    /// Sets the work of each further position to that of a test in this region.
    pub(super) fn test_against(&mut self, region: &PreparedRegion<'_>) {
        self.weight = region.test_work();
    }

    /// The work so far.
    pub(super) fn used(&self) -> u64 {
        self.used
    }

    /// True once the work exceeds what was left, or a step did not begin that would.
    pub(super) fn is_over(&self) -> bool {
        self.is_refused || self.used > self.left
    }

    /// Counts the positions of a visited bucket; false once they exceed what was left.
    #[inline(always)]
    pub(super) fn visit(&mut self, positions: usize) -> bool {
        let work = (positions as u64 * self.weight).max(BUCKET_WORK);
        self.used = self.used.saturating_add(work);
        !self.is_over()
    }

    /// Counts slots whose records are read for a filter.
    pub(super) fn filter(&mut self, slots: usize) {
        self.used = self.used.saturating_add(slots as u64 * FILTER_WORK);
    }

    /// Counts the rows of an answer to which this number of objects match.
    pub(super) fn copy(&mut self, query: &Query, matches: usize) {
        self.used = self.used.saturating_add(copy_work(query, matches as u64));
    }

    /// Counts objects that are looked up by id.
    pub(super) fn look_up(&mut self, objects: usize) {
        self.used = self.used.saturating_add(objects as u64 * GET_WORK);
    }
}

#[cfg(test)]
mod tests {
    use shoal_codec::{FixColumns, FixRow};

    use super::*;
    use crate::backend::{Backend as _, EngineOptions};
    use crate::cpu::CpuBackend;
    use crate::cycle::{CycleInput, CycleOutput, Request};
    use crate::query::{Projection, Query, QueryKind, RowLimit};
    use crate::region::Region;
    use crate::space::Space;

    #[test]
    fn work_is_used_up_by_the_queries_of_a_group() {
        let work = QueryWork::shared(Some(200), &[2, 3]);
        let mut meter = work.begin(0).unwrap();
        assert!(meter.visit(60) && work.end(&meter));
        let mut meter = work.begin(1).unwrap();
        assert!(meter.visit(40) && !meter.visit(1) && !work.end(&meter));
        assert!(work.begin(0).is_none() && !work.take_all(1, 1));
        assert!(work.take_all(2, 30) && !work.take_all(2, 71));
        // A step that is too large is not counted.
        let mut meter = work.begin(2).unwrap();
        assert!(meter.allows(70) && !meter.allows(71) && !meter.allows(1) && !work.end(&meter));
        assert_eq!(work.rest(), 70);
        let unbounded = QueryWork::shared(None, &[1, 2]);
        let mut meter = unbounded.begin(1).unwrap();
        assert!(meter.visit(usize::MAX) && unbounded.end(&meter) && unbounded.begin(0).is_some());
    }

    /// Objects on a square of `side` points, and queries of every kind, the last for nearly all.
    fn engine_and_queries(side: i32) -> (CpuBackend, Vec<Query>) {
        let space = Space::planar(1e4, 1e4, 1.0).unwrap();
        let mut rows = FixColumns::new();
        for place in 0..side * side {
            let time_ms = crate::limits::TIME_MIN_MS;
            rows.push_row(FixRow::new(place as u64, time_ms, place % side, place / side));
        }
        let mut engine = CpuBackend::new(EngineOptions::new(space));
        let requests = vec![Request::Fixes(rows)].into();
        engine.run(CycleInput { time_max_ms: i64::MAX, requests, ..Default::default() }).unwrap();
        let query = |kind| Query { kind, filter: None, projection: Projection::Ids, limit: None };
        let mut queries = Vec::new();
        for at in 0..40_i32 {
            let low = f64::from(at * 7 % side);
            queries.push(query(QueryKind::nearest(at * 7 % side, at, 9)));
            queries.push(query(QueryKind::Get((0..at as u64).collect())));
            let rectangle = Region::rectangle(&space, low, 0.0, low + 9.0, 9.0).unwrap();
            queries.push(query(QueryKind::Range(rectangle)));
        }
        let circle = Region::circle(&space, 0.0, 0.0, 1e5).unwrap();
        queries.push(query(QueryKind::Range(circle)));
        (engine, queries)
    }

    #[test]
    fn a_group_that_needs_much_takes_nothing_from_the_others() {
        let (mut engine, queries) = engine_and_queries(300);
        let last = queries.len() - 1;
        let all = run(&mut engine, &queries, None);
        // The large query comes first, in a group of its own; a thousandth of the rest has little.
        let queries: Vec<Query> =
            std::iter::once(&queries[last]).chain(&queries[..last]).cloned().collect();
        let number = queries.len() as u32;
        for (groups, unfinished) in [(vec![1, number], vec![0]), (vec![number], Vec::new())] {
            let input = CycleInput {
                queries: queries.clone(),
                query_work_max: Some(120_000),
                query_groups: groups.clone(),
                ..CycleInput::default()
            };
            let some = engine.run(input).unwrap();
            if groups.len() == 2 {
                assert_eq!(some.unfinished, unfinished);
                for query in 1..queries.len() {
                    assert_eq!(some.answers.get(query), all.answers.get(query - 1));
                }
            } else {
                assert!(some.unfinished.len() > 1, "nothing takes from others without groups");
            }
        }
    }

    #[test]
    fn queries_for_very_many_are_whole_or_left_in_every_group() {
        let (mut engine, queries) = engine_and_queries(300);
        let limits = [None, Some(RowLimit::AllOrNone(80_000)), Some(RowLimit::AllOrNone(100_000))];
        for limit in limits {
            let query = Query { limit, ..queries.last().unwrap().clone() };
            let queries = vec![query; 4];
            let all = run(&mut engine, &queries, None);
            let mut finished = [0; 5];
            for work_max in (0..2_000_000).step_by(20_000) {
                let input = CycleInput {
                    queries: queries.clone(),
                    query_work_max: Some(work_max),
                    query_groups: vec![3, 4],
                    ..CycleInput::default()
                };
                let some = engine.run(input).unwrap();
                assert!(some.unfinished.is_sorted_by(|a, b| a < b));
                for number in 0..queries.len() {
                    if !some.unfinished.contains(&(number as u32)) {
                        assert_eq!(some.answers.get(number), all.answers.get(number));
                    }
                }
                finished[queries.len() - some.unfinished.len()] += 1;
            }
            assert!(finished[0] > 0 && finished[4] > 0, "{finished:?}");
        }
    }

    fn run(engine: &mut CpuBackend, queries: &[Query], work_max: Option<u64>) -> CycleOutput {
        let (queries, query_work_max) = (queries.to_vec(), work_max);
        engine.run(CycleInput { queries, query_work_max, ..CycleInput::default() }).unwrap()
    }

    #[test]
    fn a_cycle_leaves_the_queries_for_which_there_is_no_work() {
        // The last region has few objects for a page, then very many.
        for side in [100, 300] {
            let (mut engine, queries) = engine_and_queries(side);
            let all = run(&mut engine, &queries, None);
            assert_eq!(all.unfinished, []);
            let mut numbers = Vec::new();
            for work_max in [0, 100, 2_000, 20_000, 1 << 40] {
                let some = run(&mut engine, &queries, Some(work_max));
                assert!(some.unfinished.is_sorted_by(|a, b| a < b));
                for number in 0..queries.len() {
                    let answer = some.answers.get(number);
                    if some.unfinished.contains(&(number as u32)) {
                        assert_eq!((answer.total, answer.objects.len()), (0, 0), "{number}");
                    } else {
                        assert_eq!(answer, all.answers.get(number), "{number} of {work_max}");
                    }
                }
                numbers.push(some.unfinished.len());
            }
            let some = run(&mut engine, &queries, Some(1 << 40));
            assert!(some.query_work.len() == queries.len() && all.query_work.is_empty());
            // The corner has 10 by 10 objects, and the cells around them.
            assert!(some.query_work[2] >= 100 && some.query_work[2] < 100_000);
            assert_eq!((numbers[0], numbers[4]), (queries.len(), 0), "{numbers:?}");
            assert!(numbers.is_sorted_by(|a, b| a >= b) && numbers[2] < numbers[1], "{numbers:?}");
        }
    }
}
