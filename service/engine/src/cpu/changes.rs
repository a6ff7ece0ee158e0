//! Events and members of the queries that a cycle sets, changes or snapshots.
//!
//! Reads the state after the cycle through the grid, as queries do. The members before the cycle
//! are the members that the evaluations listed, and the objects inside the old region that the
//! cycle did not modify. The state is only read; the results are applied afterwards.

use super::deferred::{DeferredRows, RegionMembers};
use super::parallel::sort;
use super::query_table::{Plan, QueryTable};
use super::record::{NO_OBJECT, UNTOUCHED};
use super::shard::SLOT_BITS;
use super::view::View;
use crate::stage::region_changes::{FormerMember, RegionChange, transfer_members};
use crate::stage::subscription::{Class, CycleTime, MembershipState, Observation};
use crate::subscription::{EventKind, RegionId, Subscription};

/// Object, slot (with the number of its shard), kind.
pub(super) type ChangeEvent = (u64, u32, EventKind);

/// The effect of a change.
#[derive(Debug)]
pub(super) struct ChangeOutcome {
    pub(super) region: RegionId,
    pub(super) is_snapshot: bool,
    /// Ascending by object.
    pub(super) events: Vec<ChangeEvent>,
    /// In place of `events` the members of a large snapshot.
    pub(super) members: Option<DeferredRows>,
    /// Slots (with the numbers of their shards) and their membership states after the change.
    pub(super) states: Vec<(u32, MembershipState)>,
}

impl ChangeOutcome {
    /// Number of events.
    pub(super) fn len(&self) -> usize {
        self.members.as_ref().map_or(self.events.len(), DeferredRows::len)
    }

    /// Drops the events.
    pub(super) fn silence(&mut self) {
        (self.events, self.members, self.is_snapshot) = (Vec::new(), None, false);
    }
}

/// Evaluates the changes of a cycle on the state after its rows.
pub(super) struct ChangeEvaluation<'a> {
    view: View<'a>,
    queries: &'a QueryTable,
    now: CycleTime<'a>,
    /// Members before the cycle as (query, shard, index of the motion), ascending by query.
    previous_members: Vec<(u32, u32, u32)>,
}

impl<'a> ChangeEvaluation<'a> {
    pub(super) fn new(view: View<'a>, queries: &'a QueryTable, now: CycleTime<'a>) -> Self {
        let mut previous_members = Vec::new();
        for (shard, number) in view.shards.iter().zip(0..) {
            let former = shard.events.former.iter();
            previous_members.extend(former.map(|(query, motion)| (*query, number, *motion)));
        }
        previous_members.sort_unstable();
        Self { view, queries, now, previous_members }
    }

    /// The effect of one change.
    pub(super) fn outcome(&self, region: RegionId, change: &RegionChange<()>) -> ChangeOutcome {
        let is_snapshot = change.is_snapshot;
        let new = change.new.as_ref().map(|(new, ())| &**new);
        if is_snapshot && let Some(of) = self.without_states(change) {
            return self.snapshot(region, of);
        }
        let is_kept = new.is_some_and(|new| Class::of(new) == Class::Stateful);
        let (mut events, states) = match (new, change.old) {
            (Some(new), Some(old)) => self.compare(old, new),
            (Some(new), None) if is_snapshot || is_kept => (Vec::new(), self.members(new)),
            (None, Some(old)) => (Vec::new(), self.states(old).collect()),
            (_, None) => (Vec::new(), Vec::new()),
        };
        if is_snapshot {
            let present = |(slot, state): &(u32, MembershipState)| {
                let object = self.view.record(*slot).object;
                state.is_member().then_some((object, *slot, EventKind::Present))
            };
            events = states.iter().filter_map(present).collect();
            sort(&mut events, |event| event.0);
        } else if let Some(new) = new {
            events.retain(|(_, _, kind)| new.wanted.reports(*kind));
        }
        let states = if is_kept { states } else { Vec::new() };
        ChangeOutcome { region, is_snapshot, events, members: None, states }
    }

    /// The subscription after a change, if it has no membership states.
    fn without_states<'b>(&'b self, change: &'b RegionChange<()>) -> Option<&'b Subscription> {
        let of = match (&change.new, change.old) {
            (Some((new, ())), _) => new,
            (None, old) => &self.queries.get(old?).subscription,
        };
        (Class::of(of) != Class::Stateful).then_some(of)
    }

    /// All members of a query without membership states.
    fn snapshot(&self, region: RegionId, of: &Subscription) -> ChangeOutcome {
        let (mut events, mut members) = (Vec::new(), None);
        match self.view.members(of, self.now.tick_ms) {
            RegionMembers::Few(slots) => {
                let present = |slot| (self.view.record(slot).object, slot, EventKind::Present);
                events.extend(self.view.ahead(&slots).map(present));
                sort(&mut events, |event| event.0);
            }
            RegionMembers::Many(many) => members = Some(many),
        }
        ChangeOutcome { region, is_snapshot: true, events, members, states: Vec::new() }
    }

    /// The objects that are inside after the cycle, with their slots, ascending by object.
    fn inside(&self, of: &Subscription) -> Vec<(u64, u32)> {
        let mut found = Vec::new();
        self.view.slots_in(&of.region, |slot, _, _| found.push((0, slot)));
        if of.filter.is_some() {
            found.retain(|(_, slot)| of.passes(&self.view.fix(*slot), self.now.tick_ms));
        }
        for entry in &mut found {
            entry.0 = self.view.record(entry.1).object;
        }
        sort(&mut found, |entry| entry.0);
        found
    }

    fn position(&self, slot: u32) -> (i32, i32) {
        let record = self.view.record(slot);
        (record.x, record.y)
    }

    /// The slots of all objects inside, each with the state of a new member.
    fn members(&self, of: &Subscription) -> Vec<(u32, MembershipState)> {
        let member = |slot| MembershipState::member(self.now.clock_ms, self.position(slot));
        self.inside(of).into_iter().map(|(_, slot)| (slot, member(slot))).collect()
    }

    /// The membership states of a query, including states of objects that no longer exist.
    fn states(&self, number: u32) -> impl Iterator<Item = (u32, MembershipState)> {
        self.view.shards.iter().zip(0_u32..).flat_map(move |(shard, at)| {
            let members = shard.events.members.of_query(number);
            members.map(move |entry| (at << SLOT_BITS | entry.slot, entry.state))
        })
    }

    /// The members of a changed query before the cycle, by object.
    fn previous_members(&self, number: u32) -> Vec<FormerMember<u32>> {
        let first = self.previous_members.partition_point(|(query, ..)| *query < number);
        let listed =
            self.previous_members[first..].iter().take_while(|(query, ..)| *query == number);
        let mut previous_members: Vec<_> = listed
            .map(|(_, at, motion)| {
                let shard = &self.view.shards[*at as usize];
                let motion = &shard.events.motions[*motion as usize];
                let (object, source) = (motion.object, at << SLOT_BITS | motion.slot);
                let observation = shard.observe(motion);
                FormerMember { object, source, inside_at: motion.from, observation }
            })
            .collect();
        let query = self.queries.get(number);
        if query.class == Class::Stateful {
            for (slot, state) in self.states(number) {
                let record = self.view.record(slot);
                let MembershipState::Member { inside_at, .. } = state else { continue };
                if record.object != NO_OBJECT {
                    previous_members.push(self.former(
                        slot,
                        inside_at,
                        record.touched != UNTOUCHED,
                    ));
                }
            }
        } else {
            for (_, slot) in self.inside(&query.subscription) {
                if self.view.record(slot).touched == UNTOUCHED {
                    previous_members.push(self.former(slot, self.position(slot), false));
                }
            }
        }
        sort(&mut previous_members, |former| former.object);
        previous_members
    }

    fn former(&self, slot: u32, inside_at: (i32, i32), is_written: bool) -> FormerMember<u32> {
        let row = self.view.fix(slot);
        let observation = Observation::Live { row, is_written };
        FormerMember { object: row.object, source: slot, inside_at, observation }
    }

    /// Events and states of a changed query.
    fn compare(
        &self,
        old: u32,
        new: &Subscription,
    ) -> (Vec<ChangeEvent>, Vec<(u32, MembershipState)>) {
        let (previous_members, inside) = (self.previous_members(old), self.inside(new));
        let position_of = |slot| self.position(slot);
        let transferred = transfer_members(new, &self.now, &previous_members, inside, position_of);
        let (mut events, mut states) = (Vec::new(), Vec::new());
        for (object, slot, state, event) in transferred {
            states.extend(state.map(|state| (slot, state)));
            events.extend(event.map(|kind| (object, slot, kind)));
        }
        (events, states)
    }
}

/// The outcomes that have their events in lists, each with its subscription.
pub(super) fn small_outcomes<'a>(
    queries: &'a QueryTable,
    plan: &'a Plan,
    outcomes: &'a [ChangeOutcome],
) -> impl Iterator<Item = (&'a ChangeOutcome, &'a Subscription)> {
    outcomes.iter().zip(plan.changes.values()).filter_map(|(outcome, change)| {
        if outcome.members.is_some() || (outcome.events.is_empty() && !outcome.is_snapshot) {
            return None;
        }
        let new = change.new.as_ref().map(|(new, ())| &**new);
        Some((outcome, new.or(change.old.map(|old| &*queries.get(old).subscription))?))
    })
}
