//! How do the objects of a shard stand to the regions that remember it?
//!
//! Stands are filed by object and by region, and those that time may change by when it may. Only
//! regions of [`crate::stage::subscription::Class::Stateful`] have any here. A time is a lower
//! bound: whoever takes one up looks again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use shoal_codec::FixRow;

use super::prefetch;
use crate::stage::subscription::{MembershipState, due_ms};
use crate::subscription::Subscription;

/// No stand.
const NONE: u32 = u32::MAX;
/// Queued for no time.
const NEVER_MS: i64 = i64::MAX;

/// One object's stand to one region.
#[derive(Clone, Copy, Debug)]
struct Member {
    region: u32,
    slot: u32,
    stand: MembershipState,
    next_of_object: u32,
    before_of_region: u32,
    next_of_region: u32,
    /// The earliest time that it is queued for.
    queued_ms: i64,
}

/// The stands of one shard.
#[derive(Debug, Default)]
pub(super) struct Members {
    /// A free place has the region [`NONE`].
    members: Vec<Member>,
    free: Vec<u32>,
    /// By slot the first stand of its object.
    of_object: Vec<u32>,
    /// By region its first stand.
    of_region: HashMap<u32, u32>,
    queue: BinaryHeap<Reverse<(i64, u32)>>,
}

impl Members {
    /// Region, place and stand of everything that an object has.
    pub(super) fn of_object(&self, slot: u32) -> impl Iterator<Item = (u32, u32, MembershipState)> {
        let mut place = self.of_object.get(slot as usize).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let member = self.members.get(place as usize)?;
            let found = (member.region, place, member.stand);
            place = member.next_of_object;
            Some(found)
        })
    }

    /// Asks the cache for the first stand of an object to come, and for where a later one's is.
    pub(super) fn ask_ahead(&self, slot: Option<u32>, later: Option<u32>) {
        if let Some(later) = later {
            prefetch::read(&self.of_object, later as usize);
        }
        if let Some(place) = slot.and_then(|slot| self.of_object.get(slot as usize)) {
            prefetch::read(&self.members, *place as usize);
        }
    }

    /// Asks the cache for the second stand of an object to come.
    pub(super) fn ask_further(&self, slot: u32) {
        let place = self.of_object.get(slot as usize).copied().unwrap_or(NONE);
        if let Some(member) = self.members.get(place as usize) {
            prefetch::read(&self.members, member.next_of_object as usize);
        }
    }

    /// Slot, place and stand of everything in a region, in no order that means anything.
    pub(super) fn of_region(
        &self,
        region: u32,
    ) -> impl Iterator<Item = (u32, u32, MembershipState)> {
        let mut place = self.of_region.get(&region).copied().unwrap_or(NONE);
        std::iter::from_fn(move || {
            let member = self.members.get(place as usize)?;
            let found = (member.slot, place, member.stand);
            place = member.next_of_region;
            Some(found)
        })
    }

    /// Region, slot and stand at a place.
    pub(super) fn get(&self, place: u32) -> (u32, u32, MembershipState) {
        let member = &self.members[place as usize];
        (member.region, member.slot, member.stand)
    }

    pub(super) fn set(&mut self, place: u32, stand: MembershipState) {
        self.members[place as usize].stand = stand;
    }

    /// Files a stand of an object to a region that it had none to; its place.
    pub(super) fn insert(&mut self, slot: u32, region: u32, stand: MembershipState) -> u32 {
        if self.of_object.len() <= slot as usize {
            self.of_object.resize(slot as usize + 1, NONE);
        }
        let next_of_object = self.of_object[slot as usize];
        let next_of_region = self.of_region.get(&region).copied().unwrap_or(NONE);
        let member = Member {
            region,
            slot,
            stand,
            next_of_object,
            before_of_region: NONE,
            next_of_region,
            queued_ms: NEVER_MS,
        };
        let place = if let Some(place) = self.free.pop() {
            self.members[place as usize] = member;
            place
        } else {
            self.members.push(member);
            (self.members.len() - 1) as u32
        };
        if let Some(next) = self.members.get_mut(next_of_region as usize) {
            next.before_of_region = place;
        }
        self.of_object[slot as usize] = place;
        self.of_region.insert(region, place);
        place
    }

    /// Files a stand of an object to a region that it had none to, to be looked at in time.
    pub(super) fn keep(
        &mut self,
        slot: u32,
        region: u32,
        stand: MembershipState,
        of: &Subscription,
        row: &FixRow,
    ) {
        let place = self.insert(slot, region, stand);
        self.queue(place, due_ms(of, &stand, row));
    }

    /// Takes note that all members of a region were told at a clock.
    pub(super) fn tell(&mut self, region: u32, clock_ms: i64) {
        let mut place = self.of_region.get(&region).copied().unwrap_or(NONE);
        while let Some(member) = self.members.get_mut(place as usize) {
            if let MembershipState::Member { reported_ms, .. } = &mut member.stand {
                *reported_ms = clock_ms;
            }
            place = member.next_of_region;
        }
    }

    /// Takes a stand away.
    pub(super) fn remove(&mut self, place: u32) {
        let member = self.members[place as usize];
        let (before, next) = (member.before_of_region, member.next_of_region);
        if let Some(next) = self.members.get_mut(next as usize) {
            next.before_of_region = before;
        }
        if let Some(before) = self.members.get_mut(before as usize) {
            before.next_of_region = next;
        } else if next == NONE {
            self.of_region.remove(&member.region);
        } else {
            self.of_region.insert(member.region, next);
        }
        let mut at = self.of_object[member.slot as usize];
        if at == place {
            self.of_object[member.slot as usize] = member.next_of_object;
        } else {
            while self.members[at as usize].next_of_object != place {
                at = self.members[at as usize].next_of_object;
            }
            self.members[at as usize].next_of_object = member.next_of_object;
        }
        self.members[place as usize].region = NONE;
        self.free.push(place);
    }

    /// Takes away everything in a region.
    pub(super) fn remove_region(&mut self, region: u32) {
        while let Some(place) = self.of_region.get(&region).copied() {
            self.remove(place);
        }
    }

    /// Has a stand looked at again at a time, and no later.
    pub(super) fn queue(&mut self, place: u32, due_ms: Option<i64>) {
        let Some(due_ms) = due_ms else { return };
        let member = &mut self.members[place as usize];
        if due_ms < member.queued_ms {
            member.queued_ms = due_ms;
            if self.queue.len() > 2 * self.members.len() + 64 {
                self.queue_anew();
            } else {
                self.queue.push(Reverse((due_ms, place)));
            }
        }
    }

    /// Drops what is queued for nothing any more.
    fn queue_anew(&mut self) {
        let held = self.members.iter().zip(0..);
        let queued = held.filter(|(member, _)| member.region != NONE);
        let queued = queued.filter(|(member, _)| member.queued_ms != NEVER_MS);
        self.queue = queued.map(|(member, place)| Reverse((member.queued_ms, place))).collect();
    }

    /// Takes one stand that is queued for this time or an earlier one.
    pub(super) fn pop_due(&mut self, clock_ms: i64) -> Option<u32> {
        while let Some(Reverse((due_ms, place))) = self.queue.peek().copied() {
            if due_ms > clock_ms {
                return None;
            }
            self.queue.pop();
            let member = &mut self.members[place as usize];
            if member.region != NONE && member.queued_ms == due_ms {
                member.queued_ms = NEVER_MS;
                return Some(place);
            }
        }
        None
    }

    /// A time before which none is due.
    pub(super) fn due_ms(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse((due_ms, _))| *due_ms)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.members.capacity() * size_of::<Member>()
            + (self.free.capacity() + self.of_object.capacity()) * size_of::<u32>()
            + self.of_region.capacity() * size_of::<(u32, u32)>()
            + self.queue.capacity() * size_of::<(i64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stand(x: i32) -> MembershipState {
        MembershipState::member(0, (x, 0))
    }

    fn regions_of(members: &Members, slot: u32) -> Vec<u32> {
        let mut regions: Vec<u32> = members.of_object(slot).map(|(region, ..)| region).collect();
        regions.sort_unstable();
        regions
    }

    fn slots_of(members: &Members, region: u32) -> Vec<u32> {
        let mut slots: Vec<u32> = members.of_region(region).map(|(slot, ..)| slot).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn stands_are_filed_both_ways() {
        let mut members = Members::default();
        let places: Vec<Vec<u32>> = (0..4)
            .map(|slot| (0..3).map(|region| members.insert(slot, region, stand(7))).collect())
            .collect();
        assert_eq!(
            (regions_of(&members, 2), slots_of(&members, 1)),
            (vec![0, 1, 2], (0..4).collect())
        );
        members.remove(places[2][1]);
        members.remove(places[0][2]);
        members.remove(places[3][0]);
        assert_eq!(regions_of(&members, 2), [0, 2]);
        assert_eq!(regions_of(&members, 0), [0, 1]);
        assert_eq!(slots_of(&members, 0), [0, 1, 2]);
        assert_eq!(slots_of(&members, 1), [0, 1, 3]);
        members.remove_region(1);
        assert_eq!((slots_of(&members, 1), regions_of(&members, 1)), (vec![], vec![0, 2]));
        members.insert(1, 1, stand(9));
        assert_eq!(regions_of(&members, 1), [0, 1, 2]);
    }

    #[test]
    fn who_is_due_is_taken_once_and_at_its_earliest_time() {
        let mut members = Members::default();
        let (a, b, c) = (
            members.insert(0, 0, stand(0)),
            members.insert(1, 0, stand(1)),
            members.insert(2, 0, stand(2)),
        );
        members.queue(a, Some(50));
        members.queue(a, Some(20));
        members.queue(b, Some(30));
        members.queue(c, None);
        members.queue(b, Some(60));
        assert_eq!(members.due_ms(), Some(20));
        assert_eq!(
            (members.pop_due(19), members.pop_due(20), members.pop_due(20)),
            (None, Some(a), None)
        );
        members.remove(b);
        assert_eq!((members.pop_due(100), members.due_ms()), (None, None));
        for turn in 0..1_000 {
            members.queue(a, Some(10_000 - turn));
        }
        assert!(members.queue.len() < 100);
        assert_eq!((members.pop_due(9_001), members.pop_due(99_999)), (Some(a), None));
    }
}
