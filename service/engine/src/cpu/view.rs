//! The state of one epoch, for reading: slots of regions, and the records of slots.
//!
//! Walks over slots are metered, so that a cycle can bound the work of its queries.

use std::ops::ControlFlow;

use super::index::ObjectHash;
use super::prefetch;
use super::query_work::Meter;
use super::record::Record;
use super::scan::{Cells, inside};
use super::shard::{SLOT_BITS, Shard};
use crate::query::Filter;
use crate::region::{PreparedRegion, Region};
use crate::space::Space;

/// Number of slots ahead for which records are prefetched.
pub(super) const RECORDS_AHEAD: usize = 16;

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

    pub(super) fn prefetch(&self, slot: u32) {
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
    pub(super) fn slots_in(&self, region: &Region, each: impl FnMut(u32, i32, i32)) {
        let region = &self.prepare(region);
        self.slots_within(region, &mut Meter::UNBOUNDED.clone(), each);
    }

    /// As [`View::slots_in`]; returns false if the meter's limit is reached first.
    pub(super) fn slots_within(
        &self,
        region: &PreparedRegion<'_>,
        meter: &mut Meter,
        mut each: impl FnMut(u32, i32, i32),
    ) -> bool {
        let visited = self.visit_slots(region, meter, |slot, x, y| {
            each(slot, x, y);
            ControlFlow::Continue(())
        });
        visited.is_continue()
    }

    /// The slots of a region, in no particular order; `None` when there are more than `most`.
    pub(super) fn slots_up_to(&self, region: &PreparedRegion<'_>, most: usize) -> Option<Vec<u32>> {
        let mut slots = Vec::new();
        let meter = &mut Meter::UNBOUNDED.clone();
        self.add_slots(region, most, meter, &mut slots).then_some(slots)
    }

    /// Appends the slots of a region. Appends none and returns false if there are more than `most`
    /// or the meter's limit is reached first.
    pub(super) fn add_slots(
        &self,
        region: &PreparedRegion<'_>,
        most: usize,
        meter: &mut Meter,
        slots: &mut Vec<u32>,
    ) -> bool {
        let (first, most) = (slots.len(), slots.len().saturating_add(most));
        let visited = self.visit_slots(region, meter, |slot, _, _| {
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
        region: &PreparedRegion<'_>,
        meter: &mut Meter,
        mut each: impl FnMut(u32, i32, i32) -> ControlFlow<()>,
    ) -> ControlFlow<()> {
        meter.test_against(region);
        let exact = region.is_cover();
        for rect in region.cover().as_slice() {
            self.cells.visit(rect, |bucket, is_inside| {
                if !meter.visit(bucket.count as usize) {
                    return ControlFlow::Break(());
                }
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

    /// Iterates over the slots and prefetches the records of later ones.
    pub(super) fn ahead(&self, slots: &[u32]) -> impl Iterator<Item = u32> {
        slots.iter().enumerate().map(|(at, slot)| {
            if let Some(ahead) = slots.get(at + RECORDS_AHEAD) {
                self.prefetch(*ahead);
            }
            *slot
        })
    }
}

fn local(slot: u32) -> usize {
    (slot & ((1 << SLOT_BITS) - 1)) as usize
}
