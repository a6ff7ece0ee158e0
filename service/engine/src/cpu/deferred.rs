//! Deferred answers: the members of regions that may hold millions of objects.
//!
//! The cycle copies them unordered: from the cells of the region, or, if the region holds a large
//! part of all objects, from the records, shard by shard. Sorting millions of ids takes longer than
//! the cycle, so the first reader sorts them; the copy is immutable. An answer limited to the first
//! rows keeps few more rows than it returns; an all-or-none answer beyond its limit keeps none.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use shoal_codec::FixRow;

use super::record::{NO_OBJECT, Record};
use super::shard::Shard;
use super::view::View;
use crate::query::{DeferredAnswer, Filter, Projection, Query, RowLimit};
use crate::region::{Cover, PreparedRegion, Region};
use crate::space::QuantaRect;
use crate::subscription::{EventKind, Subscription};

/// The members of a region that holds more objects than this are copied unordered.
pub(super) const MANY: usize = 1 << 16;
/// If a region holds more than one in this many of all objects, all records are read instead of its
/// cells: fetching a record by its slot costs as much as reading some 16 in order (weak evidence:
/// 2 cores).
const SHARE: usize = 16;
/// Records of a shard in the sample that estimates that share.
const SAMPLE_RECORDS: usize = 64;
/// Slots whose records one task looks up.
const SLOTS_AT_ONCE: usize = 1 << 14;
/// Ids in the sample that estimates an upper bound of the first ids.
const SAMPLE_IDS: usize = 4096;

/// The objects inside a region.
#[derive(Debug)]
pub(super) enum RegionMembers {
    /// Slots, in no order.
    Few(Vec<u32>),
    Many(DeferredRows),
}

/// Rows in lists, in no order.
#[derive(Debug)]
enum Lists {
    Ids(Vec<Vec<u64>>),
    Fixes(Vec<Vec<FixRow>>),
}

/// Rows ascending by object.
#[derive(Debug, Default)]
struct Ordered {
    objects: Vec<u64>,
    kinds: Vec<u8>,
    fixes: Vec<FixRow>,
}

/// Members of a region at one epoch as columns, sorted on first read.
#[derive(Debug)]
pub(super) struct DeferredRows {
    count: usize,
    with_fixes: bool,
    /// The rows until the first read, then empty.
    unordered: Mutex<Lists>,
    ordered: OnceLock<Ordered>,
}

impl Lists {
    fn len(&self) -> usize {
        match self {
            Self::Ids(lists) => count(lists),
            Self::Fixes(lists) => count(lists),
        }
    }
}

impl DeferredRows {
    fn new(lists: Lists) -> Self {
        let (count, with_fixes) = (lists.len(), matches!(lists, Lists::Fixes(_)));
        Self { count, with_fixes, unordered: Mutex::new(lists), ordered: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// Number of records; 0 if the rows have only ids.
    pub(super) fn fixes(&self) -> usize {
        if self.with_fixes { self.count } else { 0 }
    }

    /// The rows ascending by object; sorts them at the first call, on this thread alone, because
    /// the other cores run cycles.
    fn ordered(&self) -> &Ordered {
        self.ordered.get_or_init(|| {
            let lists = std::mem::replace(
                &mut *self.unordered.lock().unwrap_or_else(PoisonError::into_inner),
                Lists::Ids(Vec::new()),
            );
            let (mut objects, mut fixes) = (Vec::with_capacity(self.count), Vec::new());
            match lists {
                Lists::Ids(lists) => {
                    lists.into_iter().for_each(|list| objects.extend(list));
                    objects.sort_unstable();
                }
                Lists::Fixes(lists) => {
                    fixes.reserve_exact(self.count);
                    lists.into_iter().for_each(|list| fixes.extend(list));
                    fixes.sort_unstable_by_key(|row: &FixRow| row.object);
                    objects.extend(fixes.iter().map(|row| row.object));
                }
            }
            Ordered { objects, kinds: vec![EventKind::Present as u8; self.count], fixes }
        })
    }
}

impl AsRef<[u64]> for DeferredRows {
    fn as_ref(&self) -> &[u64] {
        &self.ordered().objects
    }
}

impl AsRef<[u8]> for DeferredRows {
    fn as_ref(&self) -> &[u8] {
        &self.ordered().kinds
    }
}

impl AsRef<[FixRow]> for DeferredRows {
    fn as_ref(&self) -> &[FixRow] {
        if self.with_fixes { &self.ordered().fixes } else { &[] }
    }
}

/// A region and a filter, with a rectangle that decides most positions cheaply.
struct RegionTest<'a> {
    region: &'a PreparedRegion<'a>,
    cover: Cover,
    /// A rectangle that lies in the region.
    core: Option<QuantaRect>,
    filter: Option<&'a Filter>,
    clock_ms: i64,
}

impl<'a> RegionTest<'a> {
    fn new(region: &'a PreparedRegion<'a>, filter: Option<&'a Filter>, clock_ms: i64) -> Self {
        let cover = region.cover();
        Self { region, cover, core: core(region, cover.as_slice()), filter, clock_ms }
    }

    #[inline]
    fn contains(&self, record: &Record) -> bool {
        let (x, y) = (record.x, record.y);
        self.core.is_some_and(|core| core.contains(x, y))
            || (self.cover.contains(x, y) && self.region.contains(x, y))
    }

    #[inline]
    fn holds(&self, shard: &Shard, slot: usize, record: &Record) -> bool {
        self.contains(record) && self.passes(shard, slot, record)
    }

    #[inline]
    fn passes(&self, shard: &Shard, slot: usize, record: &Record) -> bool {
        let row = || record.row(shard.attributes_of(slot));
        self.filter.is_none_or(|filter| filter.passes(&row(), self.clock_ms))
    }
}

/// The cover of a region, or else the middle seven tenths of its sides, if that lies in the region;
/// `None` if neither does or the cover has two rectangles.
fn core(region: &PreparedRegion<'_>, cover: &[QuantaRect]) -> Option<QuantaRect> {
    let [rect] = cover else { return None };
    let part = |min: i32, max: i32| {
        let margin = (i64::from(max) - i64::from(min)) * 3 / 20;
        ((i64::from(min) + margin) as i32, (i64::from(max) - margin) as i32)
    };
    let ((x_min, x_max), (y_min, y_max)) =
        (part(rect.x_min, rect.x_max), part(rect.y_min, rect.y_max));
    let inner = QuantaRect { x_min, y_min, x_max, y_max };
    [*rect, inner].into_iter().find(|rect| region.covers(rect))
}

impl View<'_> {
    /// All members of a region at a tick. Includes records only if the subscription wants them and
    /// the region holds more than [`MANY`] objects.
    pub(super) fn members(&self, of: &Subscription, tick_ms: i64) -> RegionMembers {
        let region = &self.prepare(&of.region);
        let test = RegionTest::new(region, of.filter.as_deref(), tick_ms);
        if let Some(mut slots) = self.slots_up_to(region, MANY) {
            slots.retain(|slot| self.holds(&test, *slot));
            return RegionMembers::Few(slots);
        }
        let are_listed = !self.is_large(region);
        let slots = if are_listed { self.slots_up_to(region, usize::MAX) } else { None };
        let slots = slots.as_deref();
        RegionMembers::Many(DeferredRows::new(if of.with_fixes {
            Lists::Fixes(self.collect(&test, slots, |row, _| Some(row())))
        } else {
            Lists::Ids(self.collect(&test, slots, |_, object| Some(object)))
        }))
    }

    /// The answer to a query for a region that holds a large part of all objects.
    pub(super) fn answer_deferred(&self, query: &Query, region: &Region) -> DeferredAnswer {
        let region = &self.prepare(region);
        let test = RegionTest::new(region, query.filter.as_deref(), self.clock_ms);
        let most = query.matches_max();
        let lists = match (query.projection, query.limit) {
            (Projection::Count, _) => {
                let counted = self.collect(&test, None, |_, _| Some(()));
                return DeferredAnswer::count(count(&counted) as u64);
            }
            (_, Some(RowLimit::First(limit))) if limit < self.objects() => {
                return self.answer_first(query, &test);
            }
            (Projection::Fixes, _) => {
                self.collect_up_to(&test, most, |row, _| Some(row())).map(Lists::Fixes)
            }
            (Projection::Ids, _) => {
                self.collect_up_to(&test, most, |_, object| Some(object)).map(Lists::Ids)
            }
        };
        match lists {
            Ok(lists) => deferred(lists.len(), query, lists),
            Err(total) => deferred(total, query, Lists::Ids(Vec::new())),
        }
    }

    /// The answer to a query that returns the first of many rows.
    fn answer_first(&self, query: &Query, test: &RegionTest<'_>) -> DeferredAnswer {
        let mut ids = self.collect(test, None, |_, object| Some(object));
        let total = count(&ids);
        let bound = bound(&ids, total, query.returned(total));
        let is_wanted = |object: u64| bound.is_none_or(|bound| object <= bound);
        if query.projection == Projection::Ids {
            if bound.is_some() {
                ids.par_iter_mut().for_each(|list| {
                    list.retain(|object| is_wanted(*object));
                    list.shrink_to_fit();
                });
            }
            return deferred(total, query, Lists::Ids(ids));
        }
        drop(ids);
        let row = |row: &dyn Fn() -> FixRow, object| is_wanted(object).then(row);
        deferred(total, query, Lists::Fixes(self.collect(test, None, row)))
    }

    pub(super) fn objects(&self) -> u64 {
        self.shards.iter().map(Shard::objects).sum()
    }

    /// True if, by a sample, a region holds more than one in [`SHARE`] of all objects, so that
    /// reading all records in order is cheaper.
    pub(super) fn is_large(&self, region: &PreparedRegion<'_>) -> bool {
        let test = RegionTest::new(region, None, self.clock_ms);
        let (mut held, mut seen) = (0, 0);
        for shard in self.shards {
            let step = (shard.records.len() / SAMPLE_RECORDS).max(1);
            for record in shard.records.iter().step_by(step) {
                seen += 1;
                held += usize::from(record.object != NO_OBJECT && test.contains(record));
            }
        }
        held * SHARE > seen
    }

    /// Whether the filter passes a slot of the region.
    fn holds(&self, test: &RegionTest<'_>, slot: u32) -> bool {
        let (shard, slot) = self.shard_of(slot);
        test.passes(shard, slot, &shard.records[slot])
    }

    /// Maps matching records; returns only their number if it exceeds `most`. Once it does, the
    /// matches of further shards are only counted.
    fn collect_up_to<T: Send>(
        &self,
        test: &RegionTest<'_>,
        most: usize,
        each: impl Fn(&dyn Fn() -> FixRow, u64) -> Option<T> + Sync,
    ) -> Result<Vec<Vec<T>>, usize> {
        let found = AtomicUsize::new(0);
        let list = |shard: &Shard| {
            if found.load(Ordering::Relaxed) > most {
                let counted = collect_shard(shard, test, |_, _, _| Some(()));
                found.fetch_add(counted.len(), Ordering::Relaxed);
                return Vec::new();
            }
            let list = collect_shard(shard, test, |shard, slot, record| {
                each(&|| record.row(shard.attributes_of(slot)), record.object)
            });
            let before = found.fetch_add(list.len(), Ordering::Relaxed);
            if before + list.len() > most { Vec::new() } else { list }
        };
        let lists = self.shards.par_iter().map(list).collect();
        let found = found.into_inner();
        if found > most { Err(found) } else { Ok(lists) }
    }

    /// Maps the records that match, among `slots` if they are given.
    fn collect<T: Send>(
        &self,
        test: &RegionTest<'_>,
        slots: Option<&[u32]>,
        each: impl Fn(&dyn Fn() -> FixRow, u64) -> Option<T> + Sync,
    ) -> Vec<Vec<T>> {
        let each = |shard: &Shard, slot: usize, record: &Record| {
            each(&|| record.row(shard.attributes_of(slot)), record.object)
        };
        let Some(slots) = slots else {
            return self.shards.par_iter().map(|shard| collect_shard(shard, test, each)).collect();
        };
        let part = |part: &[u32]| {
            let mut list = Vec::with_capacity(part.len());
            for slot in self.ahead(part) {
                let (shard, slot) = self.shard_of(slot);
                let record = &shard.records[slot];
                if test.passes(shard, slot, record) {
                    list.extend(each(shard, slot, record));
                }
            }
            list
        };
        slots.par_chunks(SLOTS_AT_ONCE).map(part).collect()
    }
}

/// The answer to a query with `total` matches, from lists that hold at least the rows to return.
fn deferred(total: usize, query: &Query, lists: Lists) -> DeferredAnswer {
    let (returned, members) = (query.returned(total), Arc::new(DeferredRows::new(lists)));
    let fixes = members.fixes().min(returned);
    DeferredAnswer::new(total as u64, (returned, fixes), members.clone(), members)
}

fn count<T>(lists: &[Vec<T>]) -> usize {
    lists.iter().map(Vec::len).sum()
}

/// An id that is an upper bound of at least `wanted` of the `total` ids, and of few more. `None` if
/// half or more are wanted, or if too few ids are below the bound that the sample gives.
fn bound(lists: &[Vec<u64>], total: usize, wanted: usize) -> Option<u64> {
    if 2 * wanted >= total {
        return None;
    }
    let step = (total / SAMPLE_IDS).max(1);
    let mut sample: Vec<u64> =
        lists.iter().flat_map(|list| list.iter().step_by(step).copied()).collect();
    sample.sort_unstable();
    // The expected rank in the sample, plus a quarter and 64 as a margin for its deviation.
    let bound = *sample.get(wanted * sample.len() / total * 5 / 4 + 64)?;
    let below = |list: &Vec<u64>| list.iter().filter(|object| **object <= bound).count();
    (lists.par_iter().map(below).sum::<usize>() >= wanted).then_some(bound)
}

/// Maps the matching records of a shard.
fn collect_shard<T>(
    shard: &Shard,
    test: &RegionTest<'_>,
    each: impl Fn(&Shard, usize, &Record) -> Option<T>,
) -> Vec<T> {
    // Records are read in order only if many of them match.
    let mut list = Vec::with_capacity(shard.records.len());
    for (slot, record) in shard.records.iter().enumerate() {
        if record.object != NO_OBJECT && test.holds(shard, slot, record) {
            list.extend(each(shard, slot, record));
        }
    }
    if 2 * list.len() < list.capacity() {
        list.shrink_to_fit();
    }
    list
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

    use super::*;
    use crate::backend::{Backend, EngineOptions};
    use crate::cpu::CpuBackend;
    use crate::cycle::{CycleInput, Request};
    use crate::space::Space;

    #[test]
    fn cells_and_records_find_the_same_members() {
        let space = Space::planar(1_000.0, 1_000.0, 1.0).unwrap();
        let mut engine = CpuBackend::new(EngineOptions::new(space));
        let rows: Vec<FixRow> = (0..40_000_u64)
            .map(|object| {
                let place = object * 7_919;
                let (x, y) = ((place % 1_000) as i32, (place / 1_000 % 1_000) as i32);
                let state = (object % 3) as u32;
                FixRow { state, ..FixRow::new(object << 40, 1_704_067_200_000, x, y) }
            })
            .collect();
        let mut columns = shoal_codec::FixColumns::with_capacity(rows.len());
        rows.iter().for_each(|row| columns.push_row(*row));
        let requests = vec![Request::Fixes(columns)].into();
        let input = CycleInput { time_max_ms: i64::MAX, requests, ..CycleInput::default() };
        engine.run(input).unwrap();
        let filter = Filter { state_mask: 2, state_value: 2, ..Filter::default() };
        let ring = [(10.0, 10.0), (900.0, 30.0), (500.0, 950.0)].to_vec();
        for region in [
            Region::rectangle(&space, 100.0, 100.0, 700.0, 999.0).unwrap(),
            Region::circle(&space, 300.0, 300.0, 350.0).unwrap(),
            Region::circle(&space, 300.0, 300.0, f64::INFINITY).unwrap(),
            Region::polygon(&space, &[ring]).unwrap(),
        ] {
            for filter in [None, filter.boxed()] {
                let of = Subscription { filter, ..Subscription::new(region.clone()) };
                let mut expected = rows.clone();
                expected.retain(|row| of.holds(row, 0));
                expected.sort_unstable_by_key(|row| row.object);
                let view = engine.view();
                let prepared = &view.prepare(&region);
                let test = RegionTest::new(prepared, of.filter.as_deref(), 0);
                let slots = view.slots_up_to(prepared, rows.len()).unwrap();
                for with_fixes in [false, true] {
                    for slots in [Some(&slots[..]), None] {
                        let members = DeferredRows::new(if with_fixes {
                            Lists::Fixes(view.collect(&test, slots, |row, _| Some(row())))
                        } else {
                            Lists::Ids(view.collect(&test, slots, |_, object| Some(object)))
                        });
                        let (objects, fixes): (&[u64], &[FixRow]) =
                            (members.as_ref(), members.as_ref());
                        let kinds: &[u8] = members.as_ref();
                        assert!(expected.iter().map(|row| row.object).eq(objects.iter().copied()));
                        assert_eq!(fixes, if with_fixes { &expected[..] } else { &[] });
                        assert_eq!((members.len(), kinds.len()), (expected.len(), expected.len()));
                        assert!(kinds.iter().all(|kind| *kind == EventKind::Present as u8));
                    }
                }
                let RegionMembers::Few(found) = view.members(&of, 0) else {
                    panic!("these are few")
                };
                assert_eq!(found.len(), expected.len());
                assert_eq!(view.slots_up_to(prepared, slots.len() - 1), None);
            }
        }
    }

    #[test]
    fn rows_beyond_the_limit_are_counted_without_being_computed() {
        let space = Space::planar(1_000.0, 1_000.0, 1.0).unwrap();
        let mut engine = CpuBackend::new(EngineOptions::new(space));
        let mut columns = shoal_codec::FixColumns::new();
        for object in 0..6_400 {
            columns.push_row(FixRow::new(object, 1_704_067_200_000, object as i32 % 1_000, 5));
        }
        let requests = vec![Request::Fixes(columns)].into();
        engine.run(CycleInput { time_max_ms: i64::MAX, requests, ..Default::default() }).unwrap();
        let region = Region::rectangle(&space, 0.0, 0.0, 999.0, 999.0).unwrap();
        let view = engine.view();
        let region = &view.prepare(&region);
        let test = RegionTest::new(region, None, 0);
        let computed = AtomicUsize::new(0);
        let each = |_: &dyn Fn() -> FixRow, object| {
            computed.fetch_add(1, Ordering::Relaxed);
            Some(object)
        };
        let one_thread = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
        one_thread.install(|| {
            assert_eq!(view.collect_up_to(&test, 6_399, each), Err(6_400));
            assert_eq!(view.collect_up_to(&test, 6_400, each).map(|it| count(&it)), Ok(6_400));
            computed.store(0, Ordering::Relaxed);
            assert_eq!(view.collect_up_to(&test, 640, each), Err(6_400));
        });
        // The rest of the shard in which the limit is exceeded, at most.
        let largest = view.shards.iter().map(|shard| shard.records.len()).max().unwrap();
        assert!((641..=640 + largest).contains(&computed.into_inner()) && largest < 640);
    }

    #[test]
    fn a_bound_leaves_what_is_wanted_and_little_more() {
        let lists: Vec<Vec<u64>> = (0..64)
            .map(|list| (0..2_000).map(|at| (at * 64 + list) * 0x9e37_79b9 % 1_000_003).collect())
            .collect();
        let total = count(&lists);
        for wanted in [0, 1, 500, 10_000, total / 2 - 1] {
            let bound = bound(&lists, total, wanted).unwrap();
            let left = lists.iter().flatten().filter(|object| **object <= bound).count();
            assert!(left >= wanted && left < 2 * wanted + total / 32, "{wanted}: {left}");
        }
        assert_eq!(bound(&lists, total, total / 2), None);
        // One list has the smallest ids, few of which are in the sample.
        let lists = [vec![5; 60], (1_000..200_000).collect()];
        let bound = bound(&lists, count(&lists), 60).unwrap();
        assert!((5..20_000).contains(&bound), "{bound}");
    }
}
