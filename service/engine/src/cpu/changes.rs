//! What do the changes of a cycle tell, and who are the members of what they set?
//!
//! Looks at the state after the cycle through the grid, as queries do. Members before the cycle are
//! those that the judgements listed and, of the objects that did not move, those that the old
//! region finds now. Reads only; what it finds is put in place behind it.

use super::gather::{Gathered, Members};
use super::parallel::sort;
use super::query::View;
use super::record::{NO_OBJECT, UNTOUCHED};
use super::shard::SLOT_BITS;
use super::standing::{Change, Standing};
use crate::stage::subscription::{Class, CycleTime, MembershipState, Observation, transfer_member};
use crate::subscription::{EventKind, RegionId, Subscription};

/// What a change comes to.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) region: RegionId,
    pub(super) is_snapshot: bool,
    /// Object, slot with its shard, kind; ascending by object.
    pub(super) events: Vec<(u64, u32, EventKind)>,
    /// Instead of them members of a snapshot.
    pub(super) members: Option<Members>,
    /// Slots with their shards, and what is kept of them.
    pub(super) stands: Vec<(u32, MembershipState)>,
}

impl Outcome {
    /// How many events it tells.
    pub(super) fn len(&self) -> usize {
        self.members.as_ref().map_or(self.events.len(), Members::len)
    }

    /// Tells nothing.
    pub(super) fn silence(&mut self) {
        (self.events, self.members, self.is_snapshot) = (Vec::new(), None, false);
    }
}

/// A member before the cycle.
struct Former {
    object: u64,
    slot: u32,
    inside_at: (i32, i32),
    look: Observation,
}

/// The state after a cycle's rows, for its changes.
pub(super) struct Changing<'a> {
    view: View<'a>,
    standing: &'a Standing,
    now: CycleTime<'a>,
    /// Region, shard and motion of members before the cycle, by region.
    formers: Vec<(u32, u32, u32)>,
}

impl<'a> Changing<'a> {
    pub(super) fn new(view: View<'a>, standing: &'a Standing, now: CycleTime<'a>) -> Self {
        let shards = view.shards.iter().zip(0..);
        let former = |(shard, number)| {
            let shard: &super::shard::Shard = shard;
            shard.told.former.iter().map(move |(region, motion)| (*region, number, *motion))
        };
        let mut formers: Vec<(u32, u32, u32)> = shards.flat_map(former).collect();
        formers.sort_unstable();
        Self { view, standing, now, formers }
    }

    /// What one change comes to.
    pub(super) fn outcome(&self, region: RegionId, change: &Change) -> Outcome {
        let is_snapshot = change.is_snapshot;
        let new = change.new.as_deref();
        if is_snapshot && let Some(of) = self.told_by_records(change) {
            return self.snapshot(region, of);
        }
        let is_kept = new.is_some_and(|new| Class::of(new) == Class::Stateful);
        let (mut events, stands) = match (new, change.old) {
            (Some(new), Some(old)) => self.compare(old, new),
            (Some(new), None) if is_snapshot || is_kept => (Vec::new(), self.members(new)),
            (Some(_), None) => (Vec::new(), Vec::new()),
            (None, old) => (Vec::new(), old.map_or_else(Vec::new, |old| self.members_of(old))),
        };
        if let Some(new) = new.filter(|_| !is_snapshot) {
            events.retain(|(_, _, kind)| new.wanted.tells(*kind));
        }
        if is_snapshot {
            let present = |(slot, stand): &(u32, MembershipState)| {
                let object = self.view.record(*slot).object;
                stand.is_member().then_some((object, *slot, EventKind::Present))
            };
            events = stands.iter().filter_map(present).collect();
            sort(&mut events, |event| event.0);
        }
        let stands = if is_kept { stands } else { Vec::new() };
        Outcome { region, is_snapshot, events, members: None, stands }
    }

    /// The region after a change, if its members follow from the records.
    fn told_by_records<'b>(&'b self, change: &'b Change) -> Option<&'b Subscription> {
        let of = match (&change.new, change.old) {
            (Some(new), _) => new,
            (None, old) => &self.standing.entry(old?).subscription,
        };
        (Class::of(of) != Class::Stateful).then_some(of)
    }

    /// All members of a region that remembers none.
    fn snapshot(&self, region: RegionId, of: &Subscription) -> Outcome {
        let (mut events, mut members) = (Vec::new(), None);
        match self.view.gather(of, self.now.tick_ms) {
            Gathered::Few(slots) => {
                let present = |slot| (self.view.record(slot).object, slot, EventKind::Present);
                events.extend(self.view.ahead(&slots).map(present));
                sort(&mut events, |event| event.0);
            }
            Gathered::Many(many) => members = Some(many),
        }
        Outcome { region, is_snapshot: true, events, members, stands: Vec::new() }
    }

    /// Who is inside now: objects and slots, by object.
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

    /// Everything inside as members.
    fn members(&self, of: &Subscription) -> Vec<(u32, MembershipState)> {
        let stand = |(_, slot)| {
            let record = self.view.record(slot);
            (slot, MembershipState::member(self.now.clock_ms, (record.x, record.y)))
        };
        self.inside(of).into_iter().map(stand).collect()
    }

    /// The members of a region that stands and is not changed.
    fn members_of(&self, number: u32) -> Vec<(u32, MembershipState)> {
        let entry = self.standing.entry(number);
        if entry.class != Class::Stateful {
            return self.members(&entry.subscription);
        }
        self.kept(number).filter(|(_, stand)| stand.is_member()).collect()
    }

    /// The stands that are kept of a region, by slot with shard; some may be of objects that went.
    fn kept(&self, number: u32) -> impl Iterator<Item = (u32, MembershipState)> {
        self.view.shards.iter().zip(0_u32..).flat_map(move |(shard, at)| {
            let stands = shard.told.members.of_region(number);
            stands.map(move |(slot, _, stand)| (at << SLOT_BITS | slot, stand))
        })
    }

    /// The members of a changed region before the cycle, by object.
    fn formers(&self, number: u32) -> Vec<Former> {
        let first = self.formers.partition_point(|(region, ..)| *region < number);
        let listed = self.formers[first..].iter().take_while(|(region, ..)| *region == number);
        let mut formers: Vec<Former> = listed
            .map(|(_, at, motion)| {
                let shard = &self.view.shards[*at as usize];
                let motion = &shard.told.motions[*motion as usize];
                let (slot, look) = (at << SLOT_BITS | motion.slot, shard.look_of(motion));
                Former { object: motion.object, slot, inside_at: motion.from, look }
            })
            .collect();
        let entry = self.standing.entry(number);
        if entry.class == Class::Stateful {
            for (slot, stand) in self.kept(number) {
                let record = self.view.record(slot);
                let MembershipState::Member { inside_at, .. } = stand else { continue };
                if record.object != NO_OBJECT {
                    formers.push(self.former(slot, inside_at, record.touched != UNTOUCHED));
                }
            }
        } else {
            for (_, slot) in self.inside(&entry.subscription) {
                let record = self.view.record(slot);
                if record.touched == UNTOUCHED {
                    formers.push(self.former(slot, (record.x, record.y), false));
                }
            }
        }
        sort(&mut formers, |former| former.object);
        formers
    }

    fn former(&self, slot: u32, inside_at: (i32, i32), is_written: bool) -> Former {
        let row = self.view.fix(slot);
        Former { object: row.object, slot, inside_at, look: Observation::Live { row, is_written } }
    }

    /// Events and stands of a changed region.
    #[expect(clippy::type_complexity, reason = "the two lists of an outcome")]
    fn compare(
        &self,
        old: u32,
        new: &Subscription,
    ) -> (Vec<(u64, u32, EventKind)>, Vec<(u32, MembershipState)>) {
        let (mut events, mut stands) = (Vec::new(), Vec::new());
        let formers = self.formers(old);
        for former in &formers {
            let (stand, event) = transfer_member(new, &self.now, former.inside_at, &former.look);
            stands.extend(stand.map(|stand| (former.slot, stand)));
            events.extend(event.map(|kind| (former.object, former.slot, kind)));
        }
        let mut known = formers.iter().map(|former| former.object).peekable();
        for (object, slot) in self.inside(new) {
            while known.next_if(|former| *former < object).is_some() {}
            if known.peek() != Some(&object) {
                let record = self.view.record(slot);
                let stand = MembershipState::member(self.now.clock_ms, (record.x, record.y));
                stands.push((slot, stand));
                events.push((object, slot, EventKind::Enter));
            }
        }
        sort(&mut events, |event| event.0);
        (events, stands)
    }
}
