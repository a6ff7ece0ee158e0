//! The queries that the host evaluates, and the memberships of objects in them.
//!
//! Holds the queries whose events do not follow from the records before and after a cycle, in the
//! engine's registry and membership store. Assigns the slots of that store to objects and lists the
//! objects with memberships for the device to watch. Makes no calls to a device.

use std::collections::{BTreeMap, HashMap};
use std::ops::Deref;

use shoal_codec::FixRow;
use shoal_engine::stage::membership::{MembershipEntry, MembershipStore};
use shoal_engine::stage::registry::ContinuousQueries;
use shoal_engine::stage::subscription::{CycleTime, MembershipState, Observation, transition};
use shoal_engine::{EventKind, RegionId, Space, Subscription};

/// See the file's head; dereferences to the registry.
#[derive(Debug)]
pub(super) struct HostQueries {
    queries: ContinuousQueries,
    members: MembershipStore,
    /// The slots of objects that have memberships.
    slots: HashMap<u64, u32>,
    /// By slot: the object's record.
    rows: Vec<FixRow>,
    free: Vec<u32>,
    /// By object: whether the device starts (true) or stops watching it.
    watches: BTreeMap<u64, bool>,
}

impl Deref for HostQueries {
    type Target = ContinuousQueries;

    fn deref(&self) -> &ContinuousQueries {
        &self.queries
    }
}

impl HostQueries {
    pub(super) fn new(space: &Space) -> Self {
        Self {
            queries: ContinuousQueries::new(space),
            members: MembershipStore::default(),
            slots: HashMap::new(),
            rows: Vec::new(),
            free: Vec::new(),
            watches: BTreeMap::new(),
        }
    }

    /// The memberships of an object.
    pub(super) fn of_object(&self, object: u64) -> impl Iterator<Item = MembershipEntry> {
        let slot = self.slots.get(&object);
        slot.into_iter().flat_map(|slot| self.members.of_object(*slot))
    }

    /// Adds a query without memberships.
    pub(super) fn insert(&mut self, id: RegionId, subscription: Box<Subscription>) -> u32 {
        self.queries.insert(id, subscription)
    }

    /// Removes a query; returns its memberships with the records of their objects.
    pub(super) fn remove(&mut self, region: RegionId) -> Option<Vec<(FixRow, MembershipState)>> {
        let number = self.queries.number(region)?;
        let entries: Vec<MembershipEntry> = self.members.of_query(number).collect();
        let memberships = |entry: &MembershipEntry| (self.rows[entry.slot as usize], entry.state);
        let memberships = entries.iter().map(memberships).collect();
        self.members.remove_query(number);
        entries.iter().for_each(|entry| self.release(entry.slot));
        self.queries.remove(number);
        Some(memberships)
    }

    /// Frees the slot of an object without memberships.
    fn release(&mut self, slot: u32) {
        if self.members.of_object(slot).next().is_none() {
            let object = self.rows[slot as usize].object;
            self.slots.remove(&object);
            self.free.push(slot);
            self.watches.insert(object, false);
        }
    }

    /// Stores the new state of an object, whose record is `row`; `place` is that of its former
    /// membership.
    pub(super) fn update(
        &mut self,
        number: u32,
        place: Option<u32>,
        row: &FixRow,
        state: Option<MembershipState>,
    ) {
        if place.is_none() && state.is_none() {
            return;
        }
        let slot = *self.slots.entry(row.object).or_insert_with(|| {
            self.watches.insert(row.object, true);
            self.free.pop().unwrap_or_else(|| {
                self.rows.push(*row);
                self.rows.len() as u32 - 1
            })
        });
        self.rows[slot as usize] = *row;
        let of = &self.queries.get(number).subscription;
        self.members.update(slot, number, place, state, of, row);
        self.release(slot);
    }

    /// Evaluates the memberships that are due; calls `emit` with query, event and record.
    pub(super) fn run_due(
        &mut self,
        now: &CycleTime<'_>,
        mut emit: impl FnMut(u32, EventKind, FixRow),
    ) {
        while let Some(due) = self.members.pop_due(now.clock_ms) {
            let (row, is_written) = (self.rows[due.slot as usize], false);
            let of = &self.queries.get(due.query).subscription;
            let observation = Observation::Live { row, is_written };
            let (state, event) = transition(of, now, Some(due.state), &observation);
            self.update(due.query, Some(due.place), &row, state);
            event.into_iter().for_each(|kind| emit(due.query, kind, row));
        }
    }

    /// Marks all members of a query as reported at this clock; returns their records, ascending by
    /// object.
    pub(super) fn report_members(&mut self, number: u32, clock_ms: i64) -> Vec<FixRow> {
        self.members.mark_reported(number, clock_ms);
        let entries = self.members.of_query(number).filter(|entry| entry.state.is_member());
        let mut rows: Vec<FixRow> = entries.map(|entry| self.rows[entry.slot as usize]).collect();
        rows.sort_unstable_by_key(|row| row.object);
        rows
    }

    /// A time before which no membership is due.
    pub(super) fn due_ms(&self) -> Option<i64> {
        self.members.due_ms()
    }

    /// Objects that the device starts (true) or stops watching since the last call.
    pub(super) fn take_watches(&mut self) -> BTreeMap<u64, bool> {
        std::mem::take(&mut self.watches)
    }

    /// All objects that the device watches.
    pub(super) fn watched(&self) -> impl Iterator<Item = u64> {
        self.slots.keys().copied()
    }
}
