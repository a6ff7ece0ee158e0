//! Who is in a region that may hold millions?
//!
//! The cycle only takes them as they lie: the cells of the region, or where it holds a good part of
//! all objects the records themselves, shard by shard, which are read in order. Bringing millions
//! in the order of their ids takes longer than all else, so it is left to whoever reads them first;
//! what was taken does not change any more. Few are looked up and told as slots.

use std::sync::{Mutex, OnceLock, PoisonError};

use rayon::prelude::*;
use shoal_codec::FixRow;

use super::query::View;
use super::record::{NO_OBJECT, Record};
use super::shard::Shard;
use crate::query::Filter;
use crate::region::Region;
use crate::space::QuantaRect;
use crate::subscription::{EventKind, Subscription};

/// Members from which they are taken as they lie.
const MANY: usize = 1 << 16;
/// The cells are left for the records when a region has more than this share of all objects: a
/// record that is met by its slot costs some 16 that are read in order (weak evidence: 2 cores).
const SHARE: usize = 16;
/// Slots whose records are looked up side by side.
const SLOTS_AT_ONCE: usize = 1 << 14;

/// Everything inside a region.
#[derive(Debug)]
pub(super) enum Gathered {
    /// Slots, in no order.
    Few(Vec<u32>),
    Many(Members),
}

/// Rows in lists, in no order.
#[derive(Debug)]
enum Lists {
    Ids(Vec<Vec<u64>>),
    Fixes(Vec<Vec<FixRow>>),
}

/// Rows by object.
#[derive(Debug, Default)]
struct Ordered {
    objects: Vec<u64>,
    kinds: Vec<u8>,
    fixes: Vec<FixRow>,
}

/// Members of a region at one epoch as columns of a snapshot, ordered when they are first read.
#[derive(Debug)]
pub(super) struct Members {
    count: usize,
    with_fixes: bool,
    /// Empty once they are in order.
    taken: Mutex<Lists>,
    ordered: OnceLock<Ordered>,
}

impl Members {
    fn new(lists: Lists) -> Self {
        let (count, with_fixes) = match &lists {
            Lists::Ids(lists) => (lists.iter().map(Vec::len).sum(), false),
            Lists::Fixes(lists) => (lists.iter().map(Vec::len).sum(), true),
        };
        Self { count, with_fixes, taken: Mutex::new(lists), ordered: OnceLock::new() }
    }

    pub(super) fn len(&self) -> usize {
        self.count
    }

    /// How many of them are records as well.
    pub(super) fn fixes(&self) -> usize {
        if self.with_fixes { self.count } else { 0 }
    }

    /// On this thread alone: the cores are for the cycles that run meanwhile.
    fn ordered(&self) -> &Ordered {
        self.ordered.get_or_init(|| {
            let taken = || {
                let mut taken = self.taken.lock().unwrap_or_else(PoisonError::into_inner);
                std::mem::replace(&mut *taken, Lists::Ids(Vec::new()))
            };
            let (mut objects, mut fixes) = (Vec::with_capacity(self.count), Vec::new());
            match taken() {
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

impl AsRef<[u64]> for Members {
    fn as_ref(&self) -> &[u64] {
        &self.ordered().objects
    }
}

impl AsRef<[u8]> for Members {
    fn as_ref(&self) -> &[u8] {
        &self.ordered().kinds
    }
}

impl AsRef<[FixRow]> for Members {
    fn as_ref(&self) -> &[FixRow] {
        if self.with_fixes { &self.ordered().fixes } else { &[] }
    }
}

/// A region with what decides of most positions cheaply.
struct Place<'a> {
    region: &'a Region,
    cover: &'a [QuantaRect],
    /// All of it is inside.
    core: Option<QuantaRect>,
    filter: Option<&'a Filter>,
    tick_ms: i64,
}

impl Place<'_> {
    #[inline]
    fn holds(&self, shard: &Shard, slot: usize, record: &Record) -> bool {
        let (x, y) = (record.x, record.y);
        let is_inside = self.core.is_some_and(|core| core.contains(x, y))
            || (self.cover.iter().any(|rect| rect.contains(x, y)) && self.region.contains(x, y));
        is_inside && self.passes(shard, slot, record)
    }

    #[inline]
    fn passes(&self, shard: &Shard, slot: usize, record: &Record) -> bool {
        let row = || record.row(shard.attributes_of(slot));
        self.filter.is_none_or(|filter| filter.passes(&row(), self.tick_ms))
    }
}

/// A large part of a region's cover that lies in it, if it has a simple one: seven tenths of each
/// side, which is the square in a circle.
fn core(region: &Region, cover: &[QuantaRect]) -> Option<QuantaRect> {
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
    /// Everything inside a region at a tick; records only where they are wanted and many.
    pub(super) fn gather(&self, of: &Subscription, tick_ms: i64) -> Gathered {
        let objects: u64 = self.shards.iter().map(Shard::objects).sum();
        let most = MANY.max(objects as usize / SHARE);
        let cover = of.region.cover();
        let cover = cover.as_slice();
        let filter = of.filter.as_deref();
        let (region, with_fixes) = (&of.region, of.with_fixes);
        let place = Place { region, cover, core: core(region, cover), filter, tick_ms };
        match self.slots_up_to(region, most) {
            Some(mut slots) if slots.len() <= MANY => {
                slots.retain(|slot| filter.is_none_or(|it| it.passes(&self.fix(*slot), tick_ms)));
                Gathered::Few(slots)
            }
            Some(slots) => Gathered::Many(self.of_slots(&place, &slots, with_fixes)),
            None => Gathered::Many(self.of_records(&place, with_fixes)),
        }
    }

    /// Those of some slots that the filter lets pass.
    fn of_slots(&self, place: &Place<'_>, slots: &[u32], with_fixes: bool) -> Members {
        let passes = |slot: u32| {
            let (shard, local) = self.shard_of(slot);
            place.passes(shard, local, &shard.records[local])
        };
        let parts = slots.par_chunks(SLOTS_AT_ONCE);
        let passing = |part: &[u32], each: &mut dyn FnMut(u32)| {
            self.ahead(part).filter(|slot| passes(*slot)).for_each(each);
        };
        Members::new(if with_fixes {
            let fixes = |part: &[u32]| {
                let mut list = Vec::with_capacity(part.len());
                passing(part, &mut |slot| list.push(self.fix(slot)));
                list
            };
            Lists::Fixes(parts.map(fixes).collect())
        } else {
            let ids = |part: &[u32]| {
                let mut list = Vec::with_capacity(part.len());
                passing(part, &mut |slot| list.push(self.record(slot).object));
                list
            };
            Lists::Ids(parts.map(ids).collect())
        })
    }

    /// Those of all records that lie in the region.
    fn of_records(&self, place: &Place<'_>, with_fixes: bool) -> Members {
        Members::new(if with_fixes {
            let row =
                |shard: &Shard, slot: usize, record: &Record| record.row(shard.attributes_of(slot));
            Lists::Fixes(self.shards.par_iter().map(|shard| held(shard, place, row)).collect())
        } else {
            let id = |_: &Shard, _: usize, record: &Record| record.object;
            Lists::Ids(self.shards.par_iter().map(|shard| held(shard, place, id)).collect())
        })
    }
}

/// What a shard holds of a place.
fn held<T>(shard: &Shard, place: &Place<'_>, row: impl Fn(&Shard, usize, &Record) -> T) -> Vec<T> {
    // Most of them, or the cells would have told.
    let mut list = Vec::with_capacity(shard.records.len());
    for (slot, record) in shard.records.iter().enumerate() {
        if record.object != NO_OBJECT && place.holds(shard, slot, record) {
            list.push(row(shard, slot, record));
        }
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
    fn slots_and_records_find_the_same_members() {
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
        let requests = vec![Request::Fixes(columns)];
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
                let cover = region.cover();
                let cover = cover.as_slice();
                let core = core(&region, cover);
                let filter = of.filter.as_deref();
                let place = Place { region: &region, cover, core, filter, tick_ms: 0 };
                let view = engine.view();
                let slots = view.slots_up_to(&region, rows.len()).unwrap();
                for with_fixes in [false, true] {
                    for members in [
                        view.of_slots(&place, &slots, with_fixes),
                        view.of_records(&place, with_fixes),
                    ] {
                        let (objects, fixes): (&[u64], &[FixRow]) =
                            (members.as_ref(), members.as_ref());
                        let kinds: &[u8] = members.as_ref();
                        assert!(expected.iter().map(|row| row.object).eq(objects.iter().copied()));
                        assert_eq!(fixes, if with_fixes { &expected[..] } else { &[] });
                        assert_eq!((members.len(), kinds.len()), (expected.len(), expected.len()));
                        assert!(kinds.iter().all(|kind| *kind == EventKind::Present as u8));
                    }
                }
                let Gathered::Few(found) = view.gather(&of, 0) else { panic!("these are few") };
                assert_eq!(found.len(), expected.len());
                assert_eq!(view.slots_up_to(&region, slots.len() - 1), None);
            }
        }
    }
}
