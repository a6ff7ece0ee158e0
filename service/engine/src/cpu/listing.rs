//! What does one shard have to tell of a cycle? Runs its judgements and lists their events.
//!
//! Events of regions that remember nothing can be found again: while more events are listed than a
//! cycle may have, they are only counted, and listed once it is known which regions are told.

use std::sync::atomic::{AtomicU64, Ordering};

use shoal_codec::FixRow;

use super::judge::{Found, Judgement};
use super::motion::{BUCKETS, Event, Motion, MotionFate, Telling, Told};
use super::record::Attributes;
use super::shard::Shard;
use super::steps::{Pass, Stepping};
use crate::stage::subscription::{Class, Observation};

/// Events between two looks at how many there are.
const LISTED_AT_ONCE: u64 = 4096;

/// Counts the events of a shard and knows when there are too many.
struct Listing<'a> {
    telling: &'a Telling<'a>,
    uncounted: u64,
    is_full: bool,
}

impl Listing<'_> {
    fn new<'a>(telling: &'a Telling<'a>) -> Listing<'a> {
        let mut listing = Listing { telling, uncounted: 0, is_full: false };
        listing.count();
        listing
    }

    fn count(&mut self) {
        let before = self.telling.listed.fetch_add(self.uncounted, Ordering::Relaxed);
        self.is_full = before + self.uncounted > self.telling.events_max;
        self.uncounted = 0;
    }

    /// Whether one more event is listed.
    fn takes(&mut self) -> bool {
        self.uncounted += 1;
        if self.uncounted == LISTED_AT_ONCE {
            self.count();
        }
        !self.is_full
    }
}

impl Shard {
    /// A record by its slot.
    pub(super) fn row_in(&self, slot: u32) -> FixRow {
        self.records[slot as usize].row(self.attributes_of(slot as usize))
    }

    /// The record of an object, the last one when it is gone.
    pub(super) fn row_of(&self, motion: &Motion) -> FixRow {
        FixRow { object: motion.object, ..self.row_in(motion.slot) }
    }

    /// How an object looks after the cycle.
    pub(super) fn look_of(&self, motion: &Motion) -> Observation {
        let row = self.row_of(motion);
        match motion.fate {
            MotionFate::Gone(reason) => Observation::Gone { row, reason },
            fate => Observation::Live { row, is_written: fate == MotionFate::Written },
        }
    }

    /// Judges the cycle for all standing regions.
    pub(super) fn judge(
        &mut self,
        telling: &Telling<'_>,
        attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
    ) {
        let mut told = std::mem::take(&mut self.told);
        told.events.resize_with(2 * BUCKETS, Vec::new);
        let mut listing = Listing::new(telling);
        let (standing, now) = (telling.standing, telling.now);
        let Told { motions, befores, events, former, .. } = &mut told;
        let judgement = Judgement {
            standing,
            now,
            shard: self,
            motions,
            befores,
            has_comparison: telling.keeps_marks,
            has_roles: telling.has_roles,
        };
        judgement.run(|region, place, found| match found {
            Found::Former => former.push((region, place as u32)),
            Found::Event(kind) if listing.takes() => {
                let motion = &judgement.motions[place];
                let event = Event::of_slot(region, motion.object, kind, motion.slot);
                events[region as usize % BUCKETS].push(event);
            }
            Found::Event(_) => {}
        });
        let stepping = Stepping { standing, now, shard: self, attributes };
        let mut list = |told: &mut Told, event: Event, class: Class| {
            let is_kept = class == Class::Stateful;
            if listing.takes() || is_kept {
                told.list(event, is_kept);
            }
        };
        if standing.has_stepped() {
            stepping.run(&mut told, Pass::First, &mut list);
        }
        if standing.stateful > 0 {
            stepping.catch_up(&mut told, &mut list);
        }
        listing.count();
        self.told = told;
    }

    /// Counts, by region number, the events that can be found again.
    pub(super) fn count_again(
        &mut self,
        telling: &Telling<'_>,
        attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
        counts: &[AtomicU64],
    ) {
        self.again(telling, attributes, |_, event| {
            counts[event.region as usize].fetch_add(1, Ordering::Relaxed);
        });
    }

    /// Lists the events that can be found again, of those regions that are told.
    pub(super) fn list_again(
        &mut self,
        telling: &Telling<'_>,
        attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
        is_told: &[bool],
    ) {
        self.told.events[..BUCKETS].iter_mut().for_each(Vec::clear);
        self.again(telling, attributes, |told, event| {
            if is_told[event.region as usize] {
                told.list(event, false);
            }
        });
    }

    fn again(
        &mut self,
        telling: &Telling<'_>,
        attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
        mut each: impl FnMut(&mut Told, Event),
    ) {
        let mut told = std::mem::take(&mut self.told);
        let (standing, now) = (telling.standing, telling.now);
        let motions = std::mem::take(&mut told.motions);
        let befores = std::mem::take(&mut told.befores);
        let judgement = Judgement {
            standing,
            now,
            shard: self,
            motions: &motions,
            befores: &befores,
            has_comparison: false,
            has_roles: telling.has_roles,
        };
        judgement.run(|region, place, found| {
            if let Found::Event(kind) = found {
                let motion = &motions[place];
                each(&mut told, Event::of_slot(region, motion.object, kind, motion.slot));
            }
        });
        (told.motions, told.befores) = (motions, befores);
        let stepping = Stepping { standing, now, shard: self, attributes };
        if standing.every_fix > 0 {
            stepping.run(&mut told, Pass::Again, &mut |told, event, _| each(told, event));
        }
        self.told = told;
    }
}
