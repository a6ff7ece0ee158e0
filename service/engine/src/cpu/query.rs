//! Stage `query`: answers all queries of a cycle on the state after it.
//!
//! Queries are ordered by place, so that neighbours share cells in the cache, and answered in pages
//! in parallel. A page first collects the candidate slots of all its queries, then looks up their
//! records with overlapped cache misses.

use rayon::prelude::*;

use super::deferred::MANY;
use super::nearest::{self, Neighbour};
use super::parallel::SMALL_WORK;
use super::query_work::{Meter, QueryWork, copy_work};
use super::row_order::{FoundRow, RowOrder};
use super::shard::SLOT_BITS;
use super::view::{RECORDS_AHEAD, View};
use crate::cycle::CycleInput;
use crate::query::{
    AnswerHead, AnswerPage, AnswerSet, DeferredAnswer, Projection, Query, QueryKind,
};
use crate::region::Region;

/// Queries of one page; the pages of a cycle are spread over the cores.
const PAGE_QUERIES: usize = 128;
/// Number of queries ahead for which cells are prefetched.
const QUERIES_AHEAD: usize = 4;
/// Maximum work of one test if the region is prepared for many tests.
const LARGE_TEST_WORK: u64 = 4;
/// Least number of queries that are ordered in parallel.
const PARALLEL_SORT_QUERIES: usize = 1 << 13;

impl View<'_> {
    /// Answers the queries of a cycle within its work limit. First each group has an equal share;
    /// then unfinished queries, in order, use what is left of all shares.
    pub(super) fn answer(&self, input: &CycleInput) -> AnsweredQueries {
        let CycleInput { queries, query_work_max, query_groups, .. } = input;
        let work = QueryWork::shared(*query_work_max, query_groups);
        let measured = if query_work_max.is_some() { queries.len() } else { 0 };
        let mut answered = AnsweredQueries {
            pages: Vec::new(),
            places: vec![(0, 0); queries.len()],
            deferred: Vec::new(),
            unfinished: Vec::new(),
            work: vec![0; measured],
        };
        self.answer_some(queries, &self.order(queries), &work, &mut answered);
        let rest = work.rest();
        if !answered.unfinished.is_empty() && query_groups.len() > 1 && rest > 0 {
            let order = std::mem::take(&mut answered.unfinished);
            self.answer_some(queries, &order, &QueryWork::of_one(rest), &mut answered);
        }
        answered
    }

    /// Answers the queries in `order`, which decides priority when work runs out.
    fn answer_some(
        &self,
        queries: &[Query],
        order: &[u32],
        work: &QueryWork,
        out: &mut AnsweredQueries,
    ) {
        let page = |queries_of: &[u32]| Page::default().answer(self, queries, queries_of, work);
        let answered: Vec<Answered> = if order.len() * 64 < SMALL_WORK {
            order.chunks(PAGE_QUERIES).map(page).collect()
        } else {
            order.par_chunks(PAGE_QUERIES).map(page).collect()
        };
        for (at, query) in order.iter().enumerate() {
            let page = out.pages.len() + at / PAGE_QUERIES;
            out.places[*query as usize] = (page as u32, (at % PAGE_QUERIES) as u32);
        }
        let mut large = Vec::new();
        for Answered { page, large: of_page, unfinished, work } in answered {
            out.pages.push(page);
            large.extend(of_page);
            out.unfinished.extend(unfinished);
            work.into_iter().for_each(|(number, work)| out.count(number, work));
        }
        self.answer_large(queries, large, work, out);
        out.unfinished.sort_unstable();
    }

    /// Answers the queries for regions with many objects, each on all cores.
    fn answer_large(
        &self,
        queries: &[Query],
        mut large: Vec<u32>,
        work: &QueryWork,
        out: &mut AnsweredQueries,
    ) {
        large.sort_unstable();
        for number in large {
            let query = &queries[number as usize];
            let QueryKind::Range(region) = &query.kind else { continue };
            // A region prepared for this many tests takes only a few comparisons for each test.
            let objects = self.objects();
            let tests = objects.saturating_mul(region.test_work().min(LARGE_TEST_WORK));
            let others = self.preparation(region).work() + copy_work(query, objects);
            let cost = tests.saturating_add(others);
            if work.take_all(number, cost) {
                out.count(number, cost);
                out.deferred.push((number, self.answer_deferred(query, region)));
            } else {
                out.unfinished.push(number);
            }
        }
    }

    /// The numbers of the queries, ordered by their first cell.
    fn order(&self, queries: &[Query]) -> Vec<u32> {
        let place = |query: &Query| match &query.kind {
            QueryKind::Get(_) => 0,
            QueryKind::Nearest { x, y, .. } => self.place(*x, *y),
            QueryKind::Range(region) => region
                .cover()
                .as_slice()
                .first()
                .map_or(0, |rect| self.place(rect.x_min, rect.y_min)),
        };
        let mut keyed: Vec<(u64, u32)> = queries.iter().map(place).zip(0..).collect();
        if keyed.len() < PARALLEL_SORT_QUERIES {
            keyed.sort_unstable();
        } else {
            keyed.par_sort_unstable();
        }
        keyed.into_iter().map(|(_, query)| query).collect()
    }

    fn place(&self, x: i32, y: i32) -> u64 {
        let (band, cell) = self.cells.grid.locate(x, y);
        u64::from(band) << 32 | u64::from(cell)
    }
}

/// The outcome of the queries of a cycle; see [`crate::cycle::CycleOutput`].
pub(super) struct AnsweredQueries {
    pages: Vec<AnswerPage>,
    places: Vec<(u32, u32)>,
    deferred: Vec<(u32, DeferredAnswer)>,
    pub(super) unfinished: Vec<u32>,
    /// Work of each query; empty without a work limit.
    pub(super) work: Vec<u64>,
}

impl AnsweredQueries {
    fn count(&mut self, number: u32, work: u64) {
        self.work.get_mut(number as usize).into_iter().for_each(|done| *done += work);
    }

    pub(super) fn into_set(mut self) -> AnswerSet {
        // Two passes may each have added some.
        self.deferred.sort_unstable_by_key(|(query, _)| *query);
        AnswerSet::new(self.pages, self.places).with_deferred(self.deferred)
    }
}

/// The outcome of a page of queries.
struct Answered {
    page: AnswerPage,
    /// Queries whose regions hold too many objects for a page.
    large: Vec<u32>,
    /// Queries left unanswered because the work was used up.
    unfinished: Vec<u32>,
    /// Queries and the work that they did.
    work: Vec<(u32, u64)>,
}

/// A page of queries while it is answered.
#[derive(Default)]
struct Page {
    out: AnswerPage,
    slots: Vec<u32>,
    /// For each query, the index past its last slot in `slots`, and its total if the answer has no
    /// rows.
    ends: Vec<(usize, Option<u64>)>,
    rows: Vec<FoundRow>,
    order: RowOrder,
    /// As in [`Answered`].
    large: Vec<u32>,
    /// As in [`Answered`].
    unfinished: Vec<u32>,
    /// As in [`Answered`].
    work: Vec<(u32, u64)>,
}

impl Page {
    fn answer(
        mut self,
        view: &View<'_>,
        queries: &[Query],
        page: &[u32],
        work: &QueryWork,
    ) -> Answered {
        for (at, query) in page.iter().enumerate() {
            if let Some(ahead) = page.get(at + QUERIES_AHEAD)
                && let QueryKind::Range(region) = &queries[*ahead as usize].kind
            {
                region.cover().as_slice().iter().for_each(|rect| view.cells.prefetch(rect));
            }
            let total = self.collect(view, queries, *query, work);
            self.ends.push((self.slots.len(), total));
        }
        let mut first = 0;
        for (at, number) in page.iter().enumerate() {
            let query = &queries[*number as usize];
            let (end, total) = self.ends[at];
            let range = first..end;
            first = end;
            match query.kind {
                QueryKind::Nearest { x, y, k, rank_max } => {
                    let filter = query.filter.as_deref();
                    let found = work.begin(*number).and_then(|mut meter| {
                        let found =
                            nearest::nearest(view, filter, x, y, k as usize, rank_max, &mut meter);
                        self.work.push((*number, meter.used()));
                        work.end(&meter).then_some(found).flatten()
                    });
                    if found.is_none() {
                        self.unfinished.push(*number);
                    }
                    self.finish_nearest(view, query, &found.unwrap_or_default());
                }
                _ => match total {
                    Some(total) => {
                        self.close(AnswerHead { total, ..AnswerHead::default() }, query, 0);
                    }
                    None => self.finish(view, query, range),
                },
            }
        }
        let Self { out: page, large, unfinished, work, .. } = self;
        Answered { page, large, unfinished, work }
    }

    /// Lists the slots that a query tests, or returns its total if the answer has no rows. Adds the
    /// query to `unfinished` if the work runs out.
    fn collect(
        &mut self,
        view: &View<'_>,
        queries: &[Query],
        number: u32,
        work: &QueryWork,
    ) -> Option<u64> {
        let query = &queries[number as usize];
        if matches!(query.kind, QueryKind::Nearest { .. }) {
            return None;
        }
        let Some(mut meter) = work.begin(number) else {
            self.unfinished.push(number);
            return None;
        };
        let first = self.slots.len();
        let mut total = None;
        match &query.kind {
            QueryKind::Get(objects) => {
                meter.look_up(objects.len());
                if meter.allows(copy_work(query, objects.len() as u64)) {
                    self.find(view, objects);
                }
            }
            QueryKind::Range(region) => {
                total = self.collect_region(view, query, region, number, &mut meter);
            }
            QueryKind::Nearest { .. } => {}
        }
        if query.filter.is_some() {
            meter.filter(self.slots.len() - first);
        }
        meter.copy(query, self.slots.len() - first);
        self.work.push((number, meter.used()));
        if !work.end(&meter) {
            self.slots.truncate(first);
            self.unfinished.push(number);
            return None;
        }
        total
    }

    /// The part of [`Page::collect`] for a region.
    fn collect_region(
        &mut self,
        view: &View<'_>,
        query: &Query,
        region: &Region,
        number: u32,
        meter: &mut Meter,
    ) -> Option<u64> {
        let region = &meter.prepare(view.preparation(region))?;
        let slots = &mut self.slots;
        let most = if query.filter.is_none() { query.matches_max() } else { usize::MAX };
        if most > 0 && view.add_slots(region, most.min(MANY), meter, slots) || meter.is_over() {
            return None;
        }
        if most < usize::MAX {
            let total = view.count(region, meter);
            if meter.is_over() {
                return None;
            }
            if most == 0 || total > most as u64 {
                return Some(total);
            }
        }
        if view.is_large(region) {
            self.large.push(number);
        } else {
            view.slots_within(region, meter, |slot, _, _| slots.push(slot));
        }
        None
    }

    /// Lists the slots of objects, ascending.
    fn find(&mut self, view: &View<'_>, objects: &[u64]) {
        let first = self.slots.len();
        for (at, object) in objects.iter().enumerate() {
            if let Some(ahead) = objects.get(at + RECORDS_AHEAD) {
                let (shard, hash) = view.hash.shard_and_hash(*ahead);
                view.shards[shard].prefetch(hash);
            }
            let (shard, hash) = view.hash.shard_and_hash(*object);
            if let Some(slot) = view.shards[shard].find(hash, *object) {
                self.slots.push((shard as u32) << SLOT_BITS | slot);
            }
        }
        // Repeated ids count once; earlier entries of the list belong to other queries.
        let mut found = self.slots.split_off(first);
        found.sort_unstable();
        found.dedup();
        self.slots.append(&mut found);
    }

    fn finish(&mut self, view: &View<'_>, query: &Query, range: std::ops::Range<usize>) {
        let mut head = AnswerHead::default();
        let most = query.matches_max();
        if query.filter.is_none() && range.len() > most {
            head.total = range.len() as u64;
            return self.close(head, query, 0);
        }
        let mut found = 0;
        self.rows.clear();
        for at in range {
            if let Some(ahead) = self.slots.get(at + RECORDS_AHEAD) {
                view.prefetch(*ahead);
            }
            let slot = self.slots[at];
            if view.passes(query.filter.as_deref(), slot) {
                found += 1;
                if found <= most {
                    self.rows.push((view.record(slot).object, slot));
                }
            }
        }
        head.total = found as u64;
        if found > most {
            return self.close(head, query, 0);
        }
        self.order.sort(&mut self.rows);
        let returned = query.returned(found);
        self.append(view, query, &mut head, returned);
    }

    fn finish_nearest(&mut self, view: &View<'_>, query: &Query, found: &[Neighbour]) {
        let mut head = AnswerHead { total: found.len() as u64, ..AnswerHead::default() };
        let returned = query.returned(found.len());
        self.rows.clear();
        self.rows.extend(found.iter().map(|neighbour| (neighbour.object, neighbour.slot)));
        head.ranks.0 = self.out.ranks.len();
        if query.projection != Projection::Count {
            self.out.ranks.extend(found[..returned].iter().map(|neighbour| neighbour.rank));
        }
        head.ranks.1 = self.out.ranks.len();
        self.append(view, query, &mut head, returned);
    }

    /// Appends the first `returned` rows of `rows` as this query's answer.
    fn append(&mut self, view: &View<'_>, query: &Query, head: &mut AnswerHead, returned: usize) {
        let rows = &self.rows[..returned];
        head.objects.0 = self.out.objects.len();
        head.fixes.0 = self.out.fixes.len();
        if query.projection != Projection::Count {
            self.out.objects.extend(rows.iter().map(|(object, _)| *object));
        }
        if query.projection == Projection::Fixes {
            self.out.fixes.extend(rows.iter().map(|(_, slot)| view.fix(*slot)));
        }
        head.objects.1 = self.out.objects.len();
        head.fixes.1 = self.out.fixes.len();
        self.close(*head, query, returned);
    }

    fn close(&mut self, mut head: AnswerHead, query: &Query, returned: usize) {
        head.truncated = query.projection != Projection::Count && (returned as u64) < head.total;
        self.out.heads.push(head);
    }
}
