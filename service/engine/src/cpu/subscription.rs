//! Stage `subscription`: the events of the continuous queries, in order.
//!
//! The shards have evaluated their own objects. Here their events are ordered query by query, the
//! changes of the cycle are compared with the state after it, and queries whose events exceed the
//! limit of a cycle become lagged. Queries are spread over buckets that are processed in parallel.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rayon::prelude::*;
use shoal_codec::FixRow;

use super::changes::{ChangeEvaluation, ChangeOutcome, small_outcomes};
use super::motion::{BUCKETS, Event, EventContext, ShardEvents};
use super::parallel;
use super::query_table::{Plan, QueryTable};
use super::record::UNTOUCHED;
use super::shard::{SLOT_BITS, Shard};
use super::view::View;
use crate::events::{EventHead, EventSet, EventWriter};
use crate::stage::subscription::{Class, MembershipState};
use crate::subscription::{EventKind, RegionId};

/// Least and greatest number of changes whose outcomes are computed together. A batch with more
/// than [`EVENTS_AT_ONCE`] events resets it to the least; any other doubles it.
const CHANGES_AT_ONCE: (usize, usize) = (4, 256);
/// If a batch of changes has more events than this, the next batch has the least size.
const EVENTS_AT_ONCE: u64 = 1 << 20;
/// Least number of events of a bucket that is ordered by a counting sort.
const COUNTED: usize = 1024;

/// The events of some queries, in order.
#[derive(Debug, Default)]
struct Bucket {
    events: Vec<Event>,
    /// Query number, index of its first event, index past its last event.
    heads: Vec<(u32, usize, usize)>,
}

/// Which events fit the cycle.
#[derive(Debug)]
pub(super) struct Decision {
    /// By number, whether the events of a query fit; empty when all do.
    fits: Vec<bool>,
    /// The outcomes of the changes, in order.
    outcomes: Vec<ChangeOutcome>,
    /// Regions that are lagged.
    lagged: Vec<RegionId>,
}

/// Events of queries by id, with their numbers and counts.
type Counts = Vec<(RegionId, u32, u64)>;

/// Returns the events of a cycle. `blind` is a view without shards. Does not apply the changes to
/// the memberships in the shards.
pub(super) fn collect_events(
    context: &EventContext<'_>,
    plan: &Plan,
    shards: &mut [Shard],
    blind: View<'_>,
) -> (EventSet, Vec<ChangeOutcome>) {
    let queries = context.queries;
    let listed = context.listed.load(Ordering::Relaxed);
    let is_over = listed > context.events_max;
    let mut buckets = Vec::new();
    let counts = if is_over {
        count_again(context, shards)
    } else {
        buckets = order_all(shards, listed, queries.numbers_end());
        // Without changes all listed events fit.
        if plan.changes.is_empty() { Counts::new() } else { counts_of(queries, &buckets) }
    };
    let evaluation = ChangeEvaluation::new(View { shards, ..blind }, queries, context.now);
    let mut decision = decide(context, plan, &evaluation, &counts);
    if is_over {
        parallel::for_each_mut(shards, usize::MAX, |_, shard| {
            shard.list_again(context, &decision.fits);
        });
        buckets = order_all(shards, listed, queries.numbers_end());
    }
    let view = View { shards, ..blind };
    let mut sets = vec![EventSet::default(); buckets.len()];
    parallel::for_each_mut(&mut sets, listed as usize, |number, set| {
        *set = buckets[number].events(queries, &view, &decision.fits);
    });
    sets.push(events_of_changes(queries, plan, &view, &decision));
    sets.extend(decision.outcomes.iter_mut().filter_map(deferred_snapshot));
    (EventSet::joined(sets), decision.outcomes)
}

/// Applies the changes of a cycle and prepares the shards for the next.
pub(super) fn apply_changes(
    queries: &mut QueryTable,
    plan: Plan,
    outcomes: Vec<ChangeOutcome>,
    clock_ms: i64,
    shards: &mut [Shard],
) {
    if plan.has_comparison() {
        shards.iter_mut().for_each(Shard::unmark);
    }
    let mut changes = MembershipChanges::default();
    changes.added.resize_with(shards.len(), Vec::new);
    for number in plan.removed {
        changes.remove(queries, number);
    }
    for ((region, change), outcome) in plan.changes.into_iter().zip(outcomes) {
        let Some((subscription, ())) = change.new else {
            if let Some(number) = change.old {
                queries.activate(number);
                changes.reported.push(number);
            }
            continue;
        };
        if let Some(number) = change.old {
            changes.remove(queries, number);
        }
        let number = queries.insert(region, subscription);
        changes.size += outcome.states.len();
        for (slot, state) in outcome.states {
            let shard = &mut changes.added[(slot >> SLOT_BITS) as usize];
            shard.push((slot & ((1 << SLOT_BITS) - 1), number, state));
        }
    }
    changes.apply(queries, shards, clock_ms);
    if queries.is_empty() {
        // The lists are not needed while there is no query.
        shards.iter_mut().for_each(|shard| shard.events = ShardEvents::default());
    }
}

/// What the changes of a cycle do to the memberships.
#[derive(Debug, Default)]
struct MembershipChanges {
    /// Queries whose memberships end.
    removed: Vec<u32>,
    /// Queries whose members a snapshot reported.
    reported: Vec<u32>,
    /// By shard: slot, query and state of new memberships.
    added: Vec<Vec<(u32, u32, MembershipState)>>,
    /// Number of entries in `added`.
    size: usize,
}

impl MembershipChanges {
    fn remove(&mut self, queries: &mut QueryTable, number: u32) {
        if queries.get(number).class == Class::Stateful {
            self.removed.push(number);
        }
        queries.remove(number);
    }

    fn apply(&self, queries: &QueryTable, shards: &mut [Shard], clock_ms: i64) {
        // Every shard looks up every query that ends or was reported.
        let size = self.size + (self.removed.len() + self.reported.len()) * shards.len();
        if size == 0 {
            return;
        }
        parallel::for_each_mut(shards, size, |number, shard| {
            let mut members = std::mem::take(&mut shard.events.members);
            self.removed.iter().for_each(|query| members.remove_query(*query));
            self.reported.iter().for_each(|query| members.mark_reported(*query, clock_ms));
            for (slot, query, state) in &self.added[number] {
                let of = &queries.get(*query).subscription;
                let row = shard.row_in(*slot);
                members.update(*slot, *query, None, Some(*state), of, &row);
            }
            shard.events.members = members;
        });
    }
}

impl Shard {
    /// Resets the `touched` fields of the records that the motions set.
    fn unmark(&mut self) {
        for motion in &self.events.motions {
            self.records[motion.slot as usize].touched = UNTOUCHED;
        }
    }
}

/// Decides in the order of ids which events fit. Outcomes are computed in small batches, to bound
/// the memory of the outcomes that do not fit.
fn decide(
    context: &EventContext<'_>,
    plan: &Plan,
    evaluation: &ChangeEvaluation<'_>,
    counts: &Counts,
) -> Decision {
    let mut left = context.events_max;
    let mut decision = Decision { fits: Vec::new(), outcomes: Vec::new(), lagged: Vec::new() };
    let total: u64 = counts.iter().map(|(.., count)| count).sum();
    if total > left || context.listed.load(Ordering::Relaxed) > left || !plan.changes.is_empty() {
        decision.fits = vec![true; context.queries.numbers_end()];
    }
    let mut counts = counts.iter().peekable();
    let mut take = |decision: &mut Decision, left: &mut u64, below: Option<RegionId>| {
        while let Some((region, number, count)) =
            counts.next_if(|(region, ..)| below.is_none_or(|below| *region < below))
        {
            if *count > *left {
                decision.fits[*number as usize] = false;
                decision.lagged.push(*region);
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
        let outcomes: Vec<ChangeOutcome> = if some.len() == 1 {
            vec![evaluation.outcome(*some[0].0, some[0].1)]
        } else {
            some.par_iter().map(|(region, change)| evaluation.outcome(**region, change)).collect()
        };
        let events: u64 = outcomes.iter().map(|outcome| outcome.len() as u64).sum();
        let (fewest, most) = CHANGES_AT_ONCE;
        at_once = if events > EVENTS_AT_ONCE { fewest } else { (2 * at_once).min(most) };
        for mut outcome in outcomes {
            take(&mut decision, &mut left, Some(outcome.region));
            let events = outcome.len() as u64;
            if events > left {
                decision.lagged.push(outcome.region);
                outcome.silence();
            } else {
                left -= events;
            }
            decision.outcomes.push(outcome);
        }
    }
    take(&mut decision, &mut left, None);
    decision
}

/// The number of events of each query, recounted when the shards did not list all of them.
fn count_again(context: &EventContext<'_>, shards: &mut [Shard]) -> Counts {
    let mut counts = Vec::new();
    counts.resize_with(context.queries.numbers_end(), AtomicU64::default);
    parallel::for_each_mut(shards, usize::MAX, |_, shard| {
        shard.count_again(context, &counts);
        for event in shard.events.events[BUCKETS..].iter().flatten() {
            counts[event.query as usize].fetch_add(1, Ordering::Relaxed);
        }
    });
    let counts = (0_u32..).zip(counts).map(|(number, count)| (number, count.into_inner()));
    by_region(context.queries, counts.filter(|(_, count)| *count > 0))
}

fn counts_of(queries: &QueryTable, buckets: &[Bucket]) -> Counts {
    let heads = buckets.iter().flat_map(|bucket| &bucket.heads);
    by_region(queries, heads.map(|(number, first, end)| (*number, (end - first) as u64)))
}

fn by_region(queries: &QueryTable, counts: impl Iterator<Item = (u32, u64)>) -> Counts {
    let mut counts: Counts =
        counts.map(|(number, count)| (queries.get(number).id, number, count)).collect();
    counts.sort_unstable();
    counts
}

/// Orders the events of all shards, bucket by bucket.
fn order_all(shards: &[Shard], events: u64, numbers_end: usize) -> Vec<Bucket> {
    let mut buckets: Vec<Bucket> = Vec::new();
    buckets.resize_with(BUCKETS, Bucket::default);
    if events > 0 {
        parallel::for_each_mut(&mut buckets, events as usize, |number, bucket| {
            *bucket = order(shards, number, numbers_end);
        });
    }
    buckets.retain(|bucket| !bucket.events.is_empty());
    buckets
}

/// The events of a bucket's queries, in order.
fn order(shards: &[Shard], bucket: usize, numbers_end: usize) -> Bucket {
    let lists = || {
        let lists = shards.iter().flat_map(|shard| {
            let of = |at: usize| shard.events.events.get(at);
            of(bucket).into_iter().chain(of(BUCKETS + bucket))
        });
        lists.flatten().copied()
    };
    let mut heads = Vec::new();
    let mut events: Vec<Event> = Vec::new();
    let length: usize = lists().count();
    if length < COUNTED {
        events.extend(lists());
        events.sort_unstable_by_key(|event| (event.query, event.order()));
        let mut first = 0;
        for own in events.chunk_by(|a, b| a.query == b.query) {
            heads.push((own[0].query, first, first + own.len()));
            first += own.len();
        }
        return Bucket { events, heads };
    }
    let mut ends = vec![0_usize; numbers_end / BUCKETS + 1];
    lists().for_each(|event| ends[event.query as usize / BUCKETS] += 1);
    let mut end = 0;
    for (place, count) in ends.iter_mut().enumerate() {
        if *count > 0 {
            heads.push(((place * BUCKETS + bucket) as u32, end, end + *count));
        }
        (end, *count) = (end + *count, end);
    }
    events.resize(length, Event::of_slot(0, 0, EventKind::Move, 0));
    for event in lists() {
        let at = &mut ends[event.query as usize / BUCKETS];
        events[*at] = event;
        *at += 1;
    }
    for (_, first, end) in &heads {
        events[*first..*end].sort_unstable_by_key(Event::order);
    }
    Bucket { events, heads }
}

impl Bucket {
    /// The events of the queries that fit.
    fn events(&self, queries: &QueryTable, view: &View<'_>, fits: &[bool]) -> EventSet {
        let mut writer = EventWriter::with_capacity(self.heads.len(), self.events.len());
        for (number, first, end) in &self.heads {
            if fits.get(*number as usize) == Some(&false) {
                continue;
            }
            let (query, events) = (queries.get(*number), &self.events[*first..*end]);
            writer.columns(
                query.id,
                false,
                query.subscription.with_fixes,
                events.iter().map(|event| event.object),
                events.iter().map(Event::kind),
                events.iter().map(|event| record_of(view, event)),
            );
        }
        writer.finish()
    }
}

/// The record of an event.
fn record_of(view: &View<'_>, event: &Event) -> FixRow {
    let shard = &view.shards[view.hash.shard_and_hash(event.object).0];
    match event.record() {
        Ok(row) => shard.events.rows[row],
        Err(slot) => FixRow { object: event.object, ..shard.row_in(slot as u32) },
    }
}

/// The events of the changes, and the regions that are lagged.
fn events_of_changes(
    queries: &QueryTable,
    plan: &Plan,
    view: &View<'_>,
    decision: &Decision,
) -> EventSet {
    let mut writer = EventWriter::new(u64::MAX);
    decision.lagged.iter().for_each(|region| writer.lagged(*region));
    for (outcome, of) in small_outcomes(queries, plan, &decision.outcomes) {
        writer.columns(
            outcome.region,
            outcome.is_snapshot,
            of.with_fixes,
            outcome.events.iter().map(|(object, ..)| *object),
            outcome.events.iter().map(|(.., kind)| *kind as u8),
            outcome
                .events
                .iter()
                .map(|(object, slot, _)| FixRow { object: *object, ..view.fix(*slot) }),
        );
    }
    writer.finish()
}

/// A snapshot whose members are ordered when they are read.
fn deferred_snapshot(outcome: &mut ChangeOutcome) -> Option<EventSet> {
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
