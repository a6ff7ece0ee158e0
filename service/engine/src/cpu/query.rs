//! Stage `query`: answers all queries of a cycle on the state after it.
//!
//! Queries are ordered by place, so that neighbours share cells in the cache, and answered in pages
//! in parallel. A page first collects the candidate slots of all its queries, then looks up their
//! records with overlapped cache misses.

use std::ops::ControlFlow;

use rayon::prelude::*;

use super::deferred::MANY;
use super::index::ObjectHash;
use super::nearest::{self, Neighbour};
use super::parallel::{SMALL_WORK, sort};
use super::prefetch;
use super::record::Record;
use super::scan::{Cells, inside};
use super::shard::{SLOT_BITS, Shard};
use crate::query::{
    AnswerHead, AnswerPage, AnswerSet, DeferredAnswer, Filter, Projection, Query, QueryKind,
};
use crate::region::Region;
use crate::space::Space;

/// Queries of one page; the pages of a cycle are spread over the cores.
const PAGE_QUERIES: usize = 128;
/// Queries whose cells are prefetched.
const QUERIES_AHEAD: usize = 4;
/// Records that are prefetched.
const RECORDS_AHEAD: usize = 16;
/// Queries from which they are ordered in parallel.
const PARALLEL_SORT_QUERIES: usize = 1 << 13;

/// The state, for reading.
#[derive(Clone, Copy)]
pub(super) struct View<'a> {
    pub(super) space: &'a Space,
    pub(super) hash: ObjectHash,
    pub(super) shards: &'a [Shard],
    pub(super) cells: Cells<'a>,
    pub(super) clock_ms: i64,
}

impl<'a> View<'a> {
    pub(super) fn record(&self, slot: u32) -> &'a Record {
        let (shard, slot) = self.shard_of(slot);
        &shard.records[slot]
    }

    /// The shard of a slot, and its place there.
    pub(super) fn shard_of(&self, slot: u32) -> (&'a Shard, usize) {
        (&self.shards[(slot >> SLOT_BITS) as usize], local(slot))
    }

    fn prefetch(&self, slot: u32) {
        let (shard, slot) = self.shard_of(slot);
        prefetch::read(&shard.records, slot);
    }

    pub(super) fn fix(&self, slot: u32) -> shoal_codec::FixRow {
        let (shard, slot) = self.shard_of(slot);
        shard.records[slot].row(shard.attributes_of(slot))
    }

    pub(super) fn passes(&self, filter: Option<&Filter>, slot: u32) -> bool {
        filter.is_none_or(|filter| filter.passes(&self.fix(slot), self.clock_ms))
    }

    /// Calls `each` with the slots of a region, in no particular order.
    pub(super) fn slots_in(&self, region: &Region, mut each: impl FnMut(u32, i32, i32)) {
        let _ = self.visit_slots(region, |slot, x, y| {
            each(slot, x, y);
            ControlFlow::Continue(())
        });
    }

    /// The slots of a region, in no particular order; `None` when there are more than `most`.
    pub(super) fn slots_up_to(&self, region: &Region, most: usize) -> Option<Vec<u32>> {
        let mut slots = Vec::new();
        self.add_slots(region, most, &mut slots).then_some(slots)
    }

    /// Adds the slots of a region; adds nothing and returns false when there are more than `most`.
    fn add_slots(&self, region: &Region, most: usize, slots: &mut Vec<u32>) -> bool {
        let (first, most) = (slots.len(), slots.len().saturating_add(most));
        let visited = self.visit_slots(region, |slot, _, _| {
            slots.push(slot);
            if slots.len() > most { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        if visited.is_break() {
            slots.truncate(first);
        }
        visited.is_continue()
    }

    #[inline(always)]
    fn visit_slots(
        &self,
        region: &Region,
        mut each: impl FnMut(u32, i32, i32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        let exact = region.is_cover();
        for rect in region.cover().as_slice() {
            self.cells.visit(rect, |bucket, is_inside| {
                let mut hits =
                    if is_inside { (1 << bucket.count) - 1 } else { inside(bucket, rect) };
                while hits != 0 {
                    let at = hits.trailing_zeros() as usize;
                    hits &= hits - 1;
                    let (x, y) = (bucket.x[at], bucket.y[at]);
                    if exact || region.contains(x, y) {
                        each(bucket.slots[at], x, y)?;
                    }
                }
                ControlFlow::Continue(())
            })?;
        }
        ControlFlow::Continue(())
    }

    /// These slots, with their records prefetched.
    pub(super) fn ahead(&self, slots: &[u32]) -> impl Iterator<Item = u32> {
        slots.iter().enumerate().map(|(at, slot)| {
            if let Some(ahead) = slots.get(at + RECORDS_AHEAD) {
                self.prefetch(*ahead);
            }
            *slot
        })
    }

    /// Answers every query.
    pub(super) fn answer(&self, queries: &[Query]) -> AnswerSet {
        let order = self.order(queries);
        let page = |queries_of: &[u32]| Page::default().answer(self, queries, queries_of);
        let (pages, large): (Vec<AnswerPage>, Vec<Vec<u32>>) = if queries.len() * 64 < SMALL_WORK {
            order.chunks(PAGE_QUERIES).map(page).unzip()
        } else {
            order.par_chunks(PAGE_QUERIES).map(page).unzip()
        };
        let mut places = vec![(0, 0); queries.len()];
        for (at, query) in order.iter().enumerate() {
            places[*query as usize] = ((at / PAGE_QUERIES) as u32, (at % PAGE_QUERIES) as u32);
        }
        AnswerSet::new(pages, places).with_deferred(self.answer_large(queries, large.concat()))
    }

    /// Answers the queries for regions with many objects, each on all cores.
    fn answer_large(&self, queries: &[Query], mut large: Vec<u32>) -> Vec<(u32, DeferredAnswer)> {
        large.sort_unstable();
        let answer = |number: u32| {
            let query = &queries[number as usize];
            match &query.kind {
                QueryKind::Range(region) => Some((number, self.answer_deferred(query, region))),
                QueryKind::Get(_) | QueryKind::Nearest { .. } => None,
            }
        };
        large.into_iter().filter_map(answer).collect()
    }

    /// The queries' numbers, by the cell where each begins.
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

fn local(slot: u32) -> usize {
    (slot & ((1 << SLOT_BITS) - 1)) as usize
}

/// Answers a page of queries; the lists are scratch.
#[derive(Default)]
struct Page {
    out: AnswerPage,
    slots: Vec<u32>,
    /// Per query the end of its candidates in `slots`.
    ends: Vec<usize>,
    rows: Vec<(u64, u32)>,
    /// Queries whose regions hold too many for a page.
    large: Vec<u32>,
}

impl Page {
    fn answer(
        mut self,
        view: &View<'_>,
        queries: &[Query],
        page: &[u32],
    ) -> (AnswerPage, Vec<u32>) {
        for (at, query) in page.iter().enumerate() {
            if let Some(ahead) = page.get(at + QUERIES_AHEAD)
                && let QueryKind::Range(region) = &queries[*ahead as usize].kind
            {
                region.cover().as_slice().iter().for_each(|rect| view.cells.prefetch(rect));
            }
            self.collect(view, queries, *query);
            self.ends.push(self.slots.len());
        }
        let mut first = 0;
        for (at, query) in page.iter().enumerate() {
            let query = &queries[*query as usize];
            let range = first..self.ends[at];
            first = range.end;
            match query.kind {
                QueryKind::Nearest { x, y, k, rank_max } => {
                    let filter = query.filter.as_deref();
                    let found = nearest::nearest(view, filter, (x, y), k as usize, rank_max);
                    self.finish_nearest(view, query, &found);
                }
                _ => self.finish(view, query, range),
            }
        }
        (self.out, self.large)
    }

    /// Lists the candidate slots of a query.
    fn collect(&mut self, view: &View<'_>, queries: &[Query], number: u32) {
        match &queries[number as usize].kind {
            QueryKind::Get(objects) => {
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
                // Repeated ids count once; only this query's part of the list is its own.
                let mut found = self.slots.split_off(first);
                found.sort_unstable();
                found.dedup();
                self.slots.append(&mut found);
            }
            QueryKind::Range(region) => {
                let slots = &mut self.slots;
                let are_few = view.add_slots(region, MANY, slots);
                if !are_few && view.is_large(region) {
                    self.large.push(number);
                } else if !are_few {
                    view.slots_in(region, |slot, _, _| slots.push(slot));
                }
            }
            QueryKind::Nearest { .. } => {}
        }
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
        sort(&mut self.rows, |row| *row);
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
