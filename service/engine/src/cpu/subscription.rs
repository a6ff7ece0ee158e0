//! Stage `subscription`: what happened in the standing regions, told in order.
//!
//! Shards have judged their own objects; here their events are brought in order region by region,
//! the changes of the cycle are compared with the state after it, and what does not fit into the
//! events of a cycle is told as lagged. Regions are spread over buckets that are worked on side by
//! side.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use shoal_codec::FixRow;

use super::changes::{Changing, Outcome};
use super::motion::{BUCKETS, Event, Telling};
use super::parallel;
use super::query::View;
use super::record::{Attributes, UNTOUCHED};
use super::shard::{SLOT_BITS, Shard};
use super::standing::{Plan, Standing};
use crate::events::{EventHead, EventSet};
use crate::stage::subscription::{Class, MembershipState};
use crate::subscription::{EventKind, RegionId};

/// Changes whose outcomes are found side by side and held at a time: the fewest after some with
/// many events, twice as many after each without.
const CHANGES_AT_ONCE: (usize, usize) = (4, 256);
/// These are many.
const EVENTS_AT_ONCE: u64 = 1 << 20;
/// Events of a bucket from which they are brought in order by counting.
const COUNTED: usize = 1024;

/// The events of some regions in order.
#[derive(Debug, Default)]
struct Bucket {
    events: Vec<Event>,
    /// Number, first and past-last event.
    heads: Vec<(u32, usize, usize)>,
}

/// What is told and what is not.
#[derive(Debug)]
pub(super) struct Decided {
    /// By number, whether a region's events are told; empty when all are.
    is_told: Vec<bool>,
    /// Of the changes, in order.
    outcomes: Vec<Outcome>,
    /// Regions that are lagged.
    lagged: Vec<RegionId>,
}

/// Events of standing regions by id, and how many.
type Counts = Vec<(RegionId, u32, u64)>;

/// Tells a cycle, `blind` being a view without shards; the shards keep the stands of the regions as
/// they were before its changes.
pub(super) fn tell(
    telling: &Telling<'_>,
    attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
    plan: &Plan,
    shards: &mut [Shard],
    blind: View<'_>,
) -> (EventSet, Vec<Outcome>) {
    let standing = telling.standing;
    let listed = telling.listed.load(Ordering::Relaxed);
    let is_over = listed > telling.events_max;
    let mut buckets = Vec::new();
    let counts = if is_over {
        count_again(telling, attributes, shards)
    } else {
        buckets = gather_all(shards, listed, standing.numbers_end());
        // Without changes all that is listed fits.
        if plan.changes.is_empty() { Counts::new() } else { counts_of(standing, &buckets) }
    };
    let changing = Changing::new(View { shards, ..blind }, standing, telling.now);
    let mut decided = decide(telling, plan, &changing, &counts);
    if is_over {
        parallel::for_each_mut(shards, usize::MAX, |_, shard| {
            shard.list_again(telling, attributes, &decided.is_told);
        });
        buckets = gather_all(shards, listed, standing.numbers_end());
    }
    let view = View { shards, ..blind };
    let mut sets = vec![EventSet::default(); buckets.len()];
    parallel::for_each_mut(&mut sets, listed as usize, |number, set| {
        *set = buckets[number].told(standing, &view, &decided.is_told);
    });
    sets.push(of_outcomes(standing, plan, &view, &decided));
    sets.extend(decided.outcomes.iter_mut().filter_map(of_members));
    (EventSet::joined(sets), decided.outcomes)
}

/// Puts the changes of a cycle in place, and makes the shards ready for the next.
pub(super) fn conclude(
    standing: &mut Standing,
    plan: Plan,
    outcomes: Vec<Outcome>,
    clock_ms: i64,
    shards: &mut [Shard],
) {
    if plan.has_comparison() {
        shards.iter_mut().for_each(Shard::unmark);
    }
    let mut keeping = Keeping::default();
    keeping.kept.resize_with(shards.len(), Vec::new);
    for number in plan.ended {
        keeping.end(standing, number);
    }
    for ((region, change), outcome) in plan.changes.into_iter().zip(outcomes) {
        let Some(subscription) = change.new else {
            if let Some(number) = change.old {
                standing.tell_again(number);
                keeping.told.push(number);
            }
            continue;
        };
        if let Some(number) = change.old {
            keeping.end(standing, number);
        }
        let number = standing.add(region, subscription);
        keeping.size += outcome.stands.len();
        for (slot, stand) in outcome.stands {
            let shard = &mut keeping.kept[(slot >> SLOT_BITS) as usize];
            shard.push((slot & ((1 << SLOT_BITS) - 1), number, stand));
        }
    }
    keeping.apply(standing, shards, clock_ms);
    if standing.is_empty() {
        shards.iter_mut().for_each(|shard| shard.told.shrink());
    }
}

/// What the changes of a cycle make of the stands that are kept.
#[derive(Debug, Default)]
struct Keeping {
    /// Regions whose stands end, and regions whose members were told.
    ended: Vec<u32>,
    told: Vec<u32>,
    /// By shard: slot, region and stand of those that begin.
    kept: Vec<Vec<(u32, u32, MembershipState)>>,
    size: usize,
}

impl Keeping {
    fn end(&mut self, standing: &mut Standing, number: u32) {
        if standing.entry(number).class == Class::Stateful {
            self.ended.push(number);
        }
        standing.remove(number);
    }

    fn apply(&self, standing: &Standing, shards: &mut [Shard], clock_ms: i64) {
        // Every shard is asked for every region that ends or was told.
        let size = self.size + (self.ended.len() + self.told.len()) * shards.len();
        if size == 0 {
            return;
        }
        parallel::for_each_mut(shards, size, |number, shard| {
            let mut members = std::mem::take(&mut shard.told.members);
            self.ended.iter().for_each(|region| members.remove_region(*region));
            self.told.iter().for_each(|region| members.tell(*region, clock_ms));
            for (slot, region, stand) in &self.kept[number] {
                let of = &standing.entry(*region).subscription;
                members.keep(*slot, *region, *stand, of, &shard.row_in(*slot));
            }
            shard.told.members = members;
        });
    }
}

impl Shard {
    /// Takes the places of motions from the records.
    fn unmark(&mut self) {
        for motion in &self.told.motions {
            self.records[motion.slot as usize].touched = UNTOUCHED;
        }
    }
}

/// Decides in the order of the ids what is told. Outcomes are found a few at a time, so that those
/// that do not fit are never held together.
fn decide(telling: &Telling<'_>, plan: &Plan, changing: &Changing<'_>, counts: &Counts) -> Decided {
    let mut left = telling.events_max;
    let mut decided = Decided { is_told: Vec::new(), outcomes: Vec::new(), lagged: Vec::new() };
    let total: u64 = counts.iter().map(|(.., count)| count).sum();
    if total > left || telling.listed.load(Ordering::Relaxed) > left || !plan.changes.is_empty() {
        decided.is_told = vec![true; telling.standing.numbers_end()];
    }
    let mut counts = counts.iter().peekable();
    let mut take = |decided: &mut Decided, left: &mut u64, below: Option<RegionId>| {
        while let Some((region, number, count)) =
            counts.next_if(|(region, ..)| below.is_none_or(|below| *region < below))
        {
            if *count > *left {
                decided.is_told[*number as usize] = false;
                decided.lagged.push(*region);
            } else {
                *left -= count;
            }
        }
    };
    let changes: Vec<_> = plan.changes.iter().collect();
    let (mut rest, mut at_once) = (&changes[..], CHANGES_AT_ONCE.0);
    while !rest.is_empty() {
        let (some, later) = rest.split_at(at_once.min(rest.len()));
        rest = later;
        let found: Vec<Outcome> = if some.len() == 1 {
            vec![changing.outcome(*some[0].0, some[0].1)]
        } else {
            some.par_iter().map(|(region, change)| changing.outcome(**region, change)).collect()
        };
        let found_events: u64 = found.iter().map(|outcome| outcome.len() as u64).sum();
        let is_much = found_events > EVENTS_AT_ONCE;
        let (fewest, most) = CHANGES_AT_ONCE;
        at_once = if is_much { fewest } else { (2 * at_once).min(most) };
        for mut outcome in found {
            take(&mut decided, &mut left, Some(outcome.region));
            let events = outcome.len() as u64;
            if events > left {
                decided.lagged.push(outcome.region);
                outcome.silence();
            } else {
                left -= events;
            }
            decided.outcomes.push(outcome);
        }
    }
    take(&mut decided, &mut left, None);
    decided
}

/// How many events each region has; those that can be found again were not all listed.
fn count_again(
    telling: &Telling<'_>,
    attributes: Option<&(dyn Fn(u32) -> Attributes + Sync)>,
    shards: &mut [Shard],
) -> Counts {
    let standing = telling.standing;
    let mut counts = Vec::new();
    counts.resize_with(standing.numbers_end(), AtomicU64::default);
    parallel::for_each_mut(shards, usize::MAX, |_, shard| {
        shard.count_again(telling, attributes, &counts);
        for event in shard.told.events[BUCKETS..].iter().flatten() {
            counts[event.region as usize].fetch_add(1, Ordering::Relaxed);
        }
    });
    let counts = (0_u32..).zip(counts).map(|(number, count)| (number, count.into_inner()));
    let counts = counts.filter(|(_, count)| *count > 0);
    let mut counts: Counts =
        counts.map(|(number, count)| (standing.entry(number).id, number, count)).collect();
    counts.sort_unstable();
    counts
}

fn counts_of(standing: &Standing, buckets: &[Bucket]) -> Counts {
    let heads = buckets.iter().flat_map(|bucket| &bucket.heads);
    let mut counts: Counts = heads
        .map(|(number, first, end)| (standing.entry(*number).id, *number, (end - first) as u64))
        .collect();
    counts.sort_unstable();
    counts
}

fn gather_all(shards: &[Shard], events: u64, numbers_end: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    buckets.resize_with(BUCKETS, Bucket::default);
    if events > 0 {
        parallel::for_each_mut(&mut buckets, events as usize, |number, bucket| {
            *bucket = gather(shards, number, numbers_end);
        });
    }
    buckets.retain(|bucket| !bucket.events.is_empty());
    buckets
}

/// The events of a bucket's regions, in order.
fn gather(shards: &[Shard], bucket: usize, numbers_end: usize) -> Bucket {
    let lists = || {
        let lists = shards.iter().flat_map(|shard| {
            let of = |at: usize| shard.told.events.get(at);
            of(bucket).into_iter().chain(of(BUCKETS + bucket))
        });
        lists.flatten().copied()
    };
    let mut heads = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    let length: usize = lists().count();
    if length < COUNTED {
        events.extend(lists());
        events.sort_unstable_by_key(|event| (event.region, event.order()));
        let mut first = 0;
        for region in events.chunk_by(|a, b| a.region == b.region) {
            heads.push((region[0].region, first, first + region.len()));
            first += region.len();
        }
        return Bucket { events, heads };
    }
    let mut ends = vec![0_usize; numbers_end / BUCKETS + 1];
    lists().for_each(|event| ends[event.region as usize / BUCKETS] += 1);
    let mut end = 0;
    for (place, count) in ends.iter_mut().enumerate() {
        if *count > 0 {
            heads.push(((place * BUCKETS + bucket) as u32, end, end + *count));
        }
        (end, *count) = (end + *count, end);
    }
    events.resize(length, Event::of_slot(0, 0, EventKind::Move, 0));
    for event in lists() {
        let at = &mut ends[event.region as usize / BUCKETS];
        events[*at] = event;
        *at += 1;
    }
    for (_, first, end) in &heads {
        events[*first..*end].sort_unstable_by_key(Event::order);
    }
    Bucket { events, heads }
}

impl Bucket {
    /// The events of the regions that are told.
    fn told(&self, standing: &Standing, view: &View<'_>, is_told: &[bool]) -> EventSet {
        let mut fixes = Vec::new();
        let mut heads = Vec::with_capacity(self.heads.len());
        let mut objects = Vec::with_capacity(self.events.len());
        let mut kinds = Vec::with_capacity(self.events.len());
        for (number, first, end) in &self.heads {
            if is_told.get(*number as usize) == Some(&false) {
                continue;
            }
            let entry = standing.entry(*number);
            let (events, begun) = (&self.events[*first..*end], (objects.len(), fixes.len()));
            objects.extend(events.iter().map(|event| event.object));
            kinds.extend(events.iter().map(Event::kind));
            if entry.subscription.with_fixes {
                fixes.extend(events.iter().map(|event| record_of(view, event)));
            }
            heads.push(EventHead {
                region: entry.id,
                is_lagged: false,
                is_snapshot: false,
                events: (begun.0, objects.len()),
                fixes: (begun.1, fixes.len()),
            });
        }
        EventSet::new(heads, objects, kinds, fixes)
    }
}

/// The record that an event tells.
fn record_of(view: &View<'_>, event: &Event) -> FixRow {
    let shard = &view.shards[view.hash.shard_and_hash(event.object).0];
    match event.record() {
        Ok(row) => shard.told.rows[row],
        Err(slot) => FixRow { object: event.object, ..shard.row_in(slot as u32) },
    }
}

/// The events of the changes, and the regions that are lagged.
fn of_outcomes(standing: &Standing, plan: &Plan, view: &View<'_>, decided: &Decided) -> EventSet {
    let (mut heads, mut objects) = (Vec::new(), Vec::new());
    let (mut kinds, mut fixes) = (Vec::new(), Vec::new());
    for region in &decided.lagged {
        heads.push(EventHead { region: *region, is_lagged: true, ..EventHead::default() });
    }
    for (outcome, change) in decided.outcomes.iter().zip(plan.changes.values()) {
        if outcome.members.is_some() || (outcome.events.is_empty() && !outcome.is_snapshot) {
            continue;
        }
        let begun = (objects.len(), fixes.len());
        objects.extend(outcome.events.iter().map(|(object, ..)| *object));
        kinds.extend(outcome.events.iter().map(|(.., kind)| *kind as u8));
        let old = change.old.map(|number| &standing.entry(number).subscription);
        if change.new.as_ref().or(old).is_some_and(|of| of.with_fixes) {
            let fix = |(object, slot, _): &(u64, u32, EventKind)| FixRow {
                object: *object,
                ..view.fix(*slot)
            };
            fixes.extend(outcome.events.iter().map(fix));
        }
        heads.push(EventHead {
            region: outcome.region,
            is_lagged: false,
            is_snapshot: outcome.is_snapshot,
            events: (begun.0, objects.len()),
            fixes: (begun.1, fixes.len()),
        });
    }
    EventSet::new(heads, objects, kinds, fixes)
}

/// A snapshot whose members are brought in order when they are read.
fn of_members(outcome: &mut Outcome) -> Option<EventSet> {
    let members = Arc::new(outcome.members.take()?);
    let head = EventHead {
        region: outcome.region,
        is_lagged: false,
        is_snapshot: true,
        events: (0, members.len()),
        fixes: (0, members.fixes()),
    };
    Some(EventSet::of_shared(vec![head], members.clone(), members.clone(), members))
}
