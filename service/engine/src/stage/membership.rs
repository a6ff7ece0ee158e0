//! The membership states of objects in continuous queries.
//!
//! States are linked by object and by query, and queued by the earliest clock at which time alone
//! may change them. Objects are identified by slots, small numbers of the backend. A queued time is
//! a lower bound, so a membership that is due must be evaluated again.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use shoal_codec::FixRow;

use super::subscription::{MembershipState, due_ms};
use crate::subscription::Subscription;

/// No entry.
const NONE: u32 = u32::MAX;
/// Not queued.
const NEVER_MS: i64 = i64::MAX;

/// The state of one object in one query.
#[derive(Clone, Copy, Debug)]
pub struct Membership {
    query: u32,
    slot: u32,
    state: MembershipState,
    next_of_object: u32,
    previous_of_query: u32,
    next_of_query: u32,
    /// The earliest time for which it is queued, or [`NEVER_MS`].
    queued_ms: i64,
}

/// A membership as it is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MembershipEntry {
    /// The place where it is stored; valid until the membership is removed.
    pub place: u32,
    /// Number of the query.
    pub query: u32,
    /// The object.
    pub slot: u32,
    /// Its state.
    pub state: MembershipState,
}

/// Memberships of some objects.
#[derive(Clone, Debug, Default)]
pub struct MembershipStore {
    /// A free place has the query [`NONE`].
    entries: Vec<Membership>,
    free: Vec<u32>,
    /// By slot the first membership of its object.
    of_object: Vec<u32>,
    /// By query its first membership.
    of_query: HashMap<u32, u32>,
    queue: BinaryHeap<Reverse<(i64, u32)>>,
}

impl MembershipStore {
    fn first_of_object(&self, slot: u32) -> u32 {
        self.of_object.get(slot as usize).copied().unwrap_or(NONE)
    }

    fn first_of_query(&self, query: u32) -> u32 {
        self.of_query.get(&query).copied().unwrap_or(NONE)
    }

    /// The memberships of a linked list, from a place to its end.
    fn list(
        &self,
        mut place: u32,
        next: impl Fn(&Membership) -> u32,
    ) -> impl Iterator<Item = MembershipEntry> {
        std::iter::from_fn(move || {
            let Membership { query, slot, state, .. } = *self.entries.get(place as usize)?;
            let entry = MembershipEntry { place, query, slot, state };
            place = next(&self.entries[place as usize]);
            Some(entry)
        })
    }

    /// All memberships of an object.
    #[inline]
    pub fn of_object(&self, slot: u32) -> impl Iterator<Item = MembershipEntry> {
        self.list(self.first_of_object(slot), |entry| entry.next_of_object)
    }

    /// All memberships of a query, in no meaningful order.
    pub fn of_query(&self, query: u32) -> impl Iterator<Item = MembershipEntry> {
        self.list(self.first_of_query(query), |entry| entry.next_of_query)
    }

    /// The membership of an object in a query.
    #[inline]
    #[must_use]
    pub fn find(&self, slot: u32, query: u32) -> Option<MembershipEntry> {
        self.of_object(slot).find(|entry| entry.query == query)
    }

    /// By slot, the places that [`MembershipStore::of_object`] reads first, for a prefetch.
    #[inline]
    #[must_use]
    pub fn first_places(&self) -> &[u32] {
        &self.of_object
    }

    /// The first membership of an object, or the second one if `is_second`, for a prefetch.
    #[inline]
    #[must_use]
    pub fn first_entry(&self, slot: u32, is_second: bool) -> Option<&Membership> {
        let first = self.entries.get(self.first_of_object(slot) as usize)?;
        if is_second { self.entries.get(first.next_of_object as usize) } else { Some(first) }
    }

    /// The membership at a place.
    #[must_use]
    pub fn get(&self, place: u32) -> MembershipEntry {
        let Membership { query, slot, state, .. } = self.entries[place as usize];
        MembershipEntry { place, query, slot, state }
    }

    /// Inserts, replaces or removes the state of an object in a query. `place` is the existing
    /// entry, if any, and `row` the object's record. Queues a state for the time when it is due.
    pub fn update(
        &mut self,
        slot: u32,
        query: u32,
        place: Option<u32>,
        state: Option<MembershipState>,
        of: &Subscription,
        row: &FixRow,
    ) {
        let place = match (place, state) {
            (Some(place), Some(state)) => {
                self.entries[place as usize].state = state;
                place
            }
            (None, Some(state)) => self.insert(slot, query, state),
            (Some(place), None) => return self.remove(place),
            (None, None) => return,
        };
        if let Some(state) = state {
            self.queue(place, due_ms(of, &state, row));
        }
    }

    /// Stores a state of an object in a query where it had none; returns its place.
    fn insert(&mut self, slot: u32, query: u32, state: MembershipState) -> u32 {
        if self.of_object.len() <= slot as usize {
            self.of_object.resize(slot as usize + 1, NONE);
        }
        let (next_of_object, next_of_query) =
            (self.first_of_object(slot), self.first_of_query(query));
        let entry = Membership {
            query,
            slot,
            state,
            next_of_object,
            previous_of_query: NONE,
            next_of_query,
            queued_ms: NEVER_MS,
        };
        let place = if let Some(place) = self.free.pop() {
            self.entries[place as usize] = entry;
            place
        } else {
            self.entries.push(entry);
            (self.entries.len() - 1) as u32
        };
        if let Some(next) = self.entries.get_mut(next_of_query as usize) {
            next.previous_of_query = place;
        }
        self.of_object[slot as usize] = place;
        self.of_query.insert(query, place);
        place
    }

    /// Sets `reported_ms` of all members of a query.
    pub fn mark_reported(&mut self, query: u32, clock_ms: i64) {
        let mut place = self.first_of_query(query);
        while let Some(entry) = self.entries.get_mut(place as usize) {
            if let MembershipState::Member { reported_ms, .. } = &mut entry.state {
                *reported_ms = clock_ms;
            }
            place = entry.next_of_query;
        }
    }

    /// Removes a membership.
    pub fn remove(&mut self, place: u32) {
        let entry = self.entries[place as usize];
        let (previous, next) = (entry.previous_of_query, entry.next_of_query);
        if let Some(next) = self.entries.get_mut(next as usize) {
            next.previous_of_query = previous;
        }
        if let Some(previous) = self.entries.get_mut(previous as usize) {
            previous.next_of_query = next;
        } else if next == NONE {
            self.of_query.remove(&entry.query);
        } else {
            self.of_query.insert(entry.query, next);
        }
        let mut at = self.of_object[entry.slot as usize];
        if at == place {
            self.of_object[entry.slot as usize] = entry.next_of_object;
        } else {
            while self.entries[at as usize].next_of_object != place {
                at = self.entries[at as usize].next_of_object;
            }
            self.entries[at as usize].next_of_object = entry.next_of_object;
        }
        self.entries[place as usize].query = NONE;
        self.free.push(place);
    }

    /// Removes all memberships of a query.
    pub fn remove_query(&mut self, query: u32) {
        while let Some(place) = self.of_query.get(&query).copied() {
            self.remove(place);
        }
    }

    /// Ensures that a membership is queued for `due_ms` or earlier; does nothing for `None`.
    fn queue(&mut self, place: u32, due_ms: Option<i64>) {
        let Some(due_ms) = due_ms else { return };
        let entry = &mut self.entries[place as usize];
        if due_ms < entry.queued_ms {
            entry.queued_ms = due_ms;
            if self.queue.len() > 2 * self.entries.len() + 64 {
                self.rebuild_queue();
            } else {
                self.queue.push(Reverse((due_ms, place)));
            }
        }
    }

    /// Drops outdated entries of the queue.
    fn rebuild_queue(&mut self) {
        let entries = self.entries.iter().zip(0..);
        let queued = entries.filter(|(entry, _)| entry.query != NONE);
        let queued = queued.filter(|(entry, _)| entry.queued_ms != NEVER_MS);
        self.queue = queued.map(|(entry, place)| Reverse((entry.queued_ms, place))).collect();
    }

    /// Takes one membership that is queued for this time or an earlier one.
    pub fn pop_due(&mut self, clock_ms: i64) -> Option<MembershipEntry> {
        while let Some(Reverse((due_ms, place))) = self.queue.peek().copied() {
            if due_ms > clock_ms {
                return None;
            }
            self.queue.pop();
            let entry = &mut self.entries[place as usize];
            if entry.query != NONE && entry.queued_ms == due_ms {
                entry.queued_ms = NEVER_MS;
                return Some(self.get(place));
            }
        }
        None
    }

    /// A lower bound on the time at which a membership is due; `None` if none is queued.
    #[must_use]
    pub fn due_ms(&self) -> Option<i64> {
        self.queue.peek().map(|Reverse((due_ms, _))| *due_ms)
    }

    /// Bytes held.
    #[must_use]
    pub fn memory_bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Membership>()
            + (self.free.capacity() + self.of_object.capacity()) * size_of::<u32>()
            + self.of_query.capacity() * size_of::<(u32, u32)>()
            + self.queue.capacity() * size_of::<(i64, u32)>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(x: i32) -> MembershipState {
        MembershipState::member(0, (x, 0))
    }

    fn queries_of(store: &MembershipStore, slot: u32) -> Vec<u32> {
        let mut queries: Vec<u32> = store.of_object(slot).map(|entry| entry.query).collect();
        queries.sort_unstable();
        queries
    }

    fn slots_of(store: &MembershipStore, query: u32) -> Vec<u32> {
        let mut slots: Vec<u32> = store.of_query(query).map(|entry| entry.slot).collect();
        slots.sort_unstable();
        slots
    }

    #[test]
    fn memberships_are_linked_by_object_and_by_query() {
        let mut store = MembershipStore::default();
        let places: Vec<Vec<u32>> = (0..4)
            .map(|slot| (0..3).map(|query| store.insert(slot, query, state(7))).collect())
            .collect();
        assert_eq!((queries_of(&store, 2), slots_of(&store, 1)), (vec![0, 1, 2], (0..4).collect()));
        store.remove(places[2][1]);
        store.remove(places[0][2]);
        store.remove(places[3][0]);
        assert_eq!(queries_of(&store, 2), [0, 2]);
        assert_eq!(queries_of(&store, 0), [0, 1]);
        assert_eq!(slots_of(&store, 0), [0, 1, 2]);
        assert_eq!(slots_of(&store, 1), [0, 1, 3]);
        store.remove_query(1);
        assert_eq!((slots_of(&store, 1), queries_of(&store, 1)), (vec![], vec![0, 2]));
        store.insert(1, 1, state(9));
        assert_eq!(queries_of(&store, 1), [0, 1, 2]);
    }

    #[test]
    fn a_due_storehip_is_taken_once_at_its_earliest_time() {
        let due = |store: &mut MembershipStore, clock_ms| {
            store.pop_due(clock_ms).map(|entry| entry.place)
        };
        let mut store = MembershipStore::default();
        let (a, b, c) = (
            store.insert(0, 0, state(0)),
            store.insert(1, 0, state(1)),
            store.insert(2, 0, state(2)),
        );
        store.queue(a, Some(50));
        store.queue(a, Some(20));
        store.queue(b, Some(30));
        store.queue(c, None);
        store.queue(b, Some(60));
        assert_eq!(store.due_ms(), Some(20));
        assert_eq!(
            (due(&mut store, 19), due(&mut store, 20), due(&mut store, 20)),
            (None, Some(a), None)
        );
        store.remove(b);
        assert_eq!((due(&mut store, 100), store.due_ms()), (None, None));
        for turn in 0..1_000 {
            store.queue(a, Some(10_000 - turn));
        }
        assert!(store.queue.len() < 100);
        assert_eq!((due(&mut store, 9_001), due(&mut store, 99_999)), (Some(a), None));
    }
}
