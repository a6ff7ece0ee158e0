//! A shard: the objects whose id hashes to it, their records, and what a cycle does to each of
//! them.
//!
//! Rows reach the shard in order of arrival. Each modified object keeps its winner so far; at the
//! end of the cycle the winners are written and their cell operations listed. Until then records
//! hold the state at the start of the cycle, which decides late and duplicate rows.

use shoal_codec::{Attributes, deadline_ms};

use super::export::ShardExport;
use super::grid::Grid;
use super::index::{Index, ObjectHash};
use super::motion::{
    Arrival, ArrivedChange, AttributesOf, EventContext, Motion, MotionOutcome, ShardEvents,
};
use super::record::{EXPIRING, NO_OBJECT, Record, RoutedRow, RowNote, RowOutcome, UNTOUCHED};
use super::update::CellOperation;
use crate::stage::settle;
use crate::subscription::EventKind;

/// Number of shards of an engine: more than cores, but few enough that small cycles are cheap.
pub(super) const SHARDS: usize = 64;
/// Bits of a slot that are its index inside its shard.
pub(super) const SLOT_BITS: u32 = 26;
/// Slots that share one bound on the age of their records.
pub(super) const EXPIRY_BLOCK: usize = 1024;
/// Number of rows whose cache misses are overlapped.
pub(super) const GROUP: usize = 32;

const _: () = assert!(SHARDS << SLOT_BITS == 1 << 32, "a slot is 32 bits");

/// What the running cycle has done to one object.
#[derive(Debug)]
struct ModifiedObject {
    /// Valid when `has_winner`.
    winner: RoutedRow,
    slot: u32,
    hash: u32,
    existed: bool,
    /// True if a removal or clear arrived: rows are no longer compared with the record at the start
    /// of the cycle.
    gone: bool,
    /// The event kind that last ended its life; valid if it does not exist.
    ending: EventKind,
    has_winner: bool,
}

impl ModifiedObject {
    fn new(slot: u32, hash: u32, existed: bool) -> Self {
        Self {
            winner: RoutedRow::removal(NO_OBJECT, hash, 0),
            slot,
            hash,
            existed,
            gone: false,
            ending: EventKind::Removed,
            has_winner: false,
        }
    }

    fn is_alive(&self) -> bool {
        self.has_winner || (self.existed && !self.gone)
    }
}

/// Rules of the running cycle that a shard needs.
#[derive(Clone, Copy)]
pub(super) struct ShardCycle<'a> {
    pub(super) hash: ObjectHash,
    pub(super) grid: &'a Grid,
    /// The clock after the cycle.
    pub(super) clock_ms: i64,
    pub(super) ttl_ms: Option<i64>,
    /// Finds the attributes of a row by arrival; `None` when no row of the cycle has any.
    pub(super) attributes: AttributesOf<'a>,
    /// `Some` if the engine has continuous queries.
    pub(super) events: Option<EventContext<'a>>,
}

/// The objects of one shard.
#[derive(Debug)]
pub(super) struct Shard {
    index: Index,
    pub(super) records: Vec<Record>,
    /// One per record, or empty if no row has had attributes yet.
    pub(super) attributes: Vec<Attributes>,
    free: Vec<u32>,
    /// For each block of [`EXPIRY_BLOCK`] slots, a lower bound of the deadlines of its records.
    pub(super) deadlines_ms: Vec<i64>,
    touched: Vec<ModifiedObject>,
    /// Cell operations of the running cycle, per band, in order.
    pub(super) operations: Vec<Vec<CellOperation>>,
    /// Rows of the running cycle that were not applied, and removals.
    pub(super) notes: Vec<RowNote>,
    pub(super) expired: u64,
    pub(super) events: ShardEvents,
    /// `Some` while the shard is exported.
    pub(super) export: Option<ShardExport>,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            index: Index::new(),
            records: Vec::new(),
            attributes: Vec::new(),
            free: Vec::new(),
            deadlines_ms: Vec::new(),
            touched: Vec::new(),
            operations: Vec::new(),
            notes: Vec::new(),
            expired: 0,
            events: ShardEvents::default(),
            export: None,
        }
    }

    pub(super) fn objects(&self) -> u64 {
        (self.records.len() - self.free.len()) as u64
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let operations: usize = self.operations.iter().map(Vec::capacity).sum();
        self.index.memory_bytes()
            + self.records.capacity() * size_of::<Record>()
            + self.attributes.capacity() * size_of::<Attributes>()
            + self.free.capacity() * size_of::<u32>()
            + self.deadlines_ms.capacity() * size_of::<i64>()
            + self.touched.capacity() * size_of::<ModifiedObject>()
            + operations * size_of::<CellOperation>()
            + self.notes.capacity() * size_of::<RowNote>()
            + self.events.memory_bytes()
            + self.export.as_ref().map_or(0, ShardExport::memory_bytes)
    }

    /// The attributes of a record.
    pub(super) fn attributes_of(&self, slot: usize) -> Attributes {
        self.attributes.get(slot).copied().unwrap_or(Attributes::UNKNOWN)
    }

    /// The slot of an object.
    pub(super) fn find(&self, hash: u32, object: u64) -> Option<u32> {
        self.index.find(hash, |slot| self.records[slot as usize].object == object)
    }

    /// Prefetches the first place that a search for `hash` reads.
    pub(super) fn prefetch(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Prefetches what searches for a group of objects read, in two rounds of overlapped misses:
    /// index entries, then records.
    #[inline(always)]
    pub(super) fn prefetch_group(&self, group: &[RoutedRow]) {
        for row in group {
            self.index.prefetch(row.hash);
        }
        for row in group {
            if let Some(slot) = self.index.find(row.hash, |_| true) {
                super::prefetch::read(&self.records, slot as usize);
            }
        }
    }

    /// Takes rows in order of arrival.
    pub(super) fn take(&mut self, cycle: &ShardCycle<'_>, rows: &[RoutedRow]) {
        for group in rows.chunks(GROUP) {
            self.prefetch_group(group);
            for row in group {
                if row.is_removal() {
                    self.take_removal(cycle, row);
                } else {
                    self.take_fix(cycle, row);
                }
            }
        }
    }

    fn take_fix(&mut self, cycle: &ShardCycle<'_>, row: &RoutedRow) {
        let place = match self.find(row.hash, row.object) {
            Some(slot) => self.touch(slot, row.hash),
            None => self.create(row.hash, row.object),
        };
        let touched = &mut self.touched[place];
        let has_start = touched.existed && !touched.gone;
        let start_ms = has_start.then(|| self.records[touched.slot as usize].time_ms);
        if settle::is_late(start_ms, row.time_ms()) {
            return self.note(row.arrival(), RowOutcome::Late);
        }
        let winner_ms = touched.has_winner.then_some(touched.winner.time_ms());
        if settle::supersedes(winner_ms, row.time_ms()) {
            let superseded = touched.has_winner.then_some(touched.winner.arrival());
            touched.winner = *row;
            touched.has_winner = true;
            if let Some(arrival) = superseded {
                self.note(arrival, RowOutcome::Superseded);
            }
        } else {
            self.note(row.arrival(), RowOutcome::Superseded);
        }
        self.record_arrival(cycle, place, ArrivedChange::Row(*row));
    }

    /// Lists a change of an object if some query evaluates every fix.
    fn record_arrival(&mut self, cycle: &ShardCycle<'_>, place: usize, change: ArrivedChange) {
        if cycle.events.is_some_and(|context| context.queries.has_every_fix()) {
            self.events.arrivals.push(Arrival { place: place as u32, change });
        }
    }

    fn take_removal(&mut self, cycle: &ShardCycle<'_>, row: &RoutedRow) {
        let Some(slot) = self.find(row.hash, row.object) else {
            return self.note(row.arrival(), RowOutcome::Missing);
        };
        let place = self.touch(slot, row.hash);
        let was_alive = self.end_life(cycle, place, EventKind::Removed);
        self.note(row.arrival(), if was_alive { RowOutcome::Removed } else { RowOutcome::Missing });
    }

    /// Ends the object's life at this point of the cycle; returns true if it was alive.
    fn end_life(&mut self, cycle: &ShardCycle<'_>, place: usize, reason: EventKind) -> bool {
        let touched = &mut self.touched[place];
        let was_alive = touched.is_alive();
        if was_alive {
            touched.ending = reason;
        }
        let superseded = touched.has_winner.then_some(touched.winner.arrival());
        touched.gone = true;
        touched.has_winner = false;
        if let Some(arrival) = superseded {
            self.note(arrival, RowOutcome::Superseded);
        }
        if was_alive {
            self.record_arrival(cycle, place, ArrivedChange::End(reason));
        }
        was_alive
    }

    /// Removes every object at this point of the arrival order; returns how many were alive.
    pub(super) fn clear(&mut self, cycle: &ShardCycle<'_>) -> u64 {
        let mut removed = 0;
        for slot in 0..self.records.len() {
            let object = self.records[slot].object;
            if object != NO_OBJECT {
                let place = self.touch(slot as u32, cycle.hash.shard_and_hash(object).1);
                removed += u64::from(self.end_life(cycle, place, EventKind::Cleared));
            }
        }
        removed
    }

    fn note(&mut self, arrival: u32, outcome: RowOutcome) {
        self.notes.push(RowNote { arrival, outcome });
    }

    /// The place of an existing object's slot in the list of modified objects; adds it if absent.
    fn touch(&mut self, slot: u32, hash: u32) -> usize {
        let record = &mut self.records[slot as usize];
        if record.touched == UNTOUCHED {
            record.touched = self.touched.len() as u32;
            self.touched.push(ModifiedObject::new(slot, hash, true));
        }
        self.records[slot as usize].touched as usize
    }

    /// A slot for a new object; its record is written when the cycle ends.
    fn create(&mut self, hash: u32, object: u64) -> usize {
        let place = self.touched.len();
        let record =
            Record { object, time_ms: i64::MIN, x: 0, y: 0, state: 0, touched: place as u32 };
        let slot = if let Some(slot) = self.free.pop() {
            self.records[slot as usize] = record;
            slot
        } else {
            self.push(record)
        };
        self.index.insert(hash, slot);
        self.touched.push(ModifiedObject::new(slot, hash, false));
        place
    }

    /// Appends a slot.
    fn push(&mut self, record: Record) -> u32 {
        let slot = self.records.len();
        assert!(slot < 1 << SLOT_BITS, "a shard holds at most 2^{SLOT_BITS} objects");
        reserve_by_quarter(&mut self.records);
        self.records.push(record);
        if !self.attributes.is_empty() {
            reserve_by_quarter(&mut self.attributes);
            self.attributes.push(Attributes::UNKNOWN);
        }
        if slot.is_multiple_of(EXPIRY_BLOCK) {
            self.deadlines_ms.push(i64::MAX);
        }
        slot as u32
    }

    /// Reserves memory for this number of objects in an empty shard.
    pub(super) fn reserve(&mut self, objects: usize) {
        self.records.reserve_exact(objects);
        self.index.reserve(objects);
    }

    /// For each object, the number of index entries that a search for it reads.
    #[cfg(test)]
    pub(super) fn probes(&self) -> impl Iterator<Item = usize> {
        self.index.probes()
    }

    /// Adds the record of an object that the shard does not contain yet. Only between cycles.
    pub(super) fn import(
        &mut self,
        record: Record,
        hash: u32,
        attributes: Attributes,
        ttl_ms: Option<i64>,
    ) {
        let slot = self.push(record);
        self.index.insert(hash, slot);
        let deadline_ms = deadline_ms(record.time_ms, attributes.valid_ms, ttl_ms);
        self.set(slot as usize, attributes, deadline_ms);
    }

    /// Writes the winners, frees removed slots, expires, and lists the cell operations of this
    /// shard (number `shard`).
    pub(super) fn settle(&mut self, cycle: &ShardCycle<'_>, shard: usize) {
        for operations in &mut self.operations {
            operations.clear();
        }
        self.operations.resize_with(cycle.grid.bands(), Vec::new);
        let base = (shard as u32) << SLOT_BITS;
        let touched = std::mem::take(&mut self.touched);
        self.save(touched.iter().map(|object| (object.slot, object.existed)));
        for (place, object) in touched.iter().enumerate() {
            self.settle_object(cycle, base, place, object);
        }
        self.touched = touched;
        self.touched.clear();
        self.expire(cycle, base);
        if let Some(context) = &cycle.events {
            self.evaluate(context);
        }
    }

    fn settle_object(
        &mut self,
        cycle: &ShardCycle<'_>,
        base: u32,
        place: usize,
        touched: &ModifiedObject,
    ) {
        let slot = touched.slot as usize;
        let start = self.records[slot];
        self.records[slot].touched = UNTOUCHED;
        if !touched.has_winner {
            if !touched.is_alive() {
                self.record_motion(cycle, place, touched, MotionOutcome::Gone(touched.ending));
                if touched.existed {
                    let from = cycle.grid.locate(start.x, start.y);
                    self.list(from, CellOperation::delete(base | touched.slot, start.x, start.y));
                }
                self.free_slot(touched.slot, touched.hash);
            } else {
                self.record_motion(cycle, place, touched, MotionOutcome::Unchanged);
            }
            return;
        }
        let winner = &touched.winner;
        let attributes = cycle.attributes.map_or(Attributes::UNKNOWN, |of| of(winner.arrival()));
        if touched.existed && !touched.gone && self.is_same(&start, slot, winner, attributes) {
            self.record_motion(cycle, place, touched, MotionOutcome::Unchanged);
            return self.note(winner.arrival(), RowOutcome::Duplicate);
        }
        let deadline_ms = deadline_ms(winner.time_ms(), attributes.valid_ms, cycle.ttl_ms);
        let outcome = if deadline_ms < cycle.clock_ms {
            self.note(winner.arrival(), RowOutcome::Expired);
            MotionOutcome::Gone(EventKind::Expired)
        } else {
            MotionOutcome::Written
        };
        self.record_motion(cycle, place, touched, outcome);
        self.write(slot, winner, attributes, deadline_ms);
        let slot = base | touched.slot;
        let (x, y) = (winner.x, winner.y);
        let to = cycle.grid.locate(x, y);
        if !touched.existed {
            self.list(to, CellOperation::insert(slot, x, y));
        } else if (start.x, start.y) != (x, y) {
            let from = cycle.grid.locate(start.x, start.y);
            self.list(from, CellOperation::delete(slot, start.x, start.y));
            self.list(to, CellOperation::insert(slot, x, y));
        }
    }

    /// Lists the motion of a modified object; called before the winner replaces its record.
    fn record_motion(
        &mut self,
        cycle: &ShardCycle<'_>,
        place: usize,
        touched: &ModifiedObject,
        outcome: MotionOutcome,
    ) {
        let Some(context) = &cycle.events else { return };
        let has_steps = context.queries.has_every_fix();
        let is_unchanged = outcome == MotionOutcome::Unchanged;
        if (is_unchanged || (!touched.existed && !touched.has_winner)) && !has_steps {
            return;
        }
        let slot = touched.slot as usize;
        let start = self.records[slot];
        let is_expired = is_unchanged && self.deadline_ms(cycle.ttl_ms, slot) < cycle.clock_ms;
        let outcome = if is_expired { MotionOutcome::Gone(EventKind::Expired) } else { outcome };
        match outcome {
            MotionOutcome::Gone(EventKind::Expired) => self.records[slot].touched = EXPIRING,
            MotionOutcome::Written if context.has_comparison => {
                self.records[slot].touched = self.events.motions.len() as u32;
            }
            _ => {}
        }
        let (existed, winner) = (touched.existed, &touched.winner);
        let start_at = (start.x, start.y);
        let to = if touched.has_winner { (winner.x, winner.y) } else { start_at };
        let from = if existed { start_at } else { to };
        let object = start.object;
        let motion = Motion { object, slot: touched.slot, outcome, existed, from, to };
        self.push_motion(context, motion, &start, place as u32);
    }

    /// Lists the motion of an object whose record expired and was not written in the cycle.
    pub(super) fn record_expiry(&mut self, cycle: &ShardCycle<'_>, slot: usize) {
        let Some(context) = &cycle.events else { return };
        let record = self.records[slot];
        let at = (record.x, record.y);
        let outcome = MotionOutcome::Gone(EventKind::Expired);
        let (object, slot) = (record.object, slot as u32);
        let motion = Motion { object, slot, outcome, existed: true, from: at, to: at };
        self.push_motion(context, motion, &record, u32::MAX);
    }

    fn push_motion(
        &mut self,
        context: &EventContext<'_>,
        motion: Motion,
        before: &Record,
        place: u32,
    ) {
        if context.queries.needs_records() {
            let attributes = self.attributes_of(motion.slot as usize);
            self.events.befores.push(before.row(attributes));
        }
        if context.queries.has_every_fix() {
            self.events.places.push(place);
        }
        self.events.motions.push(motion);
    }

    fn is_same(&self, start: &Record, slot: usize, row: &RoutedRow, new: Attributes) -> bool {
        (start.time_ms, start.x, start.y, start.state) == (row.time_ms(), row.x, row.y, row.state)
            && self.attributes_of(slot) == new
    }

    fn write(&mut self, slot: usize, row: &RoutedRow, attributes: Attributes, deadline_ms: i64) {
        let record = &mut self.records[slot];
        record.time_ms = row.time_ms();
        record.x = row.x;
        record.y = row.y;
        record.state = row.state;
        self.set(slot, attributes, deadline_ms);
    }

    /// Stores the attributes of a record and lowers the expiry bound of its block to its deadline.
    #[inline(always)]
    fn set(&mut self, slot: usize, attributes: Attributes, deadline_ms: i64) {
        let earliest = &mut self.deadlines_ms[slot / EXPIRY_BLOCK];
        *earliest = (*earliest).min(deadline_ms);
        if self.attributes.is_empty() && attributes != Attributes::UNKNOWN {
            self.attributes.reserve_exact(self.records.capacity());
            self.attributes.resize(self.records.len(), Attributes::UNKNOWN);
        }
        if let Some(stored) = self.attributes.get_mut(slot) {
            *stored = attributes;
        }
    }

    /// Lists an operation on a cell, given as band and cell inside it.
    #[inline(always)]
    pub(super) fn list(&mut self, (band, cell): (u32, u32), operation: CellOperation) {
        self.operations[band as usize].push(operation.in_cell(cell));
    }

    /// Frees the slot of a removed object.
    pub(super) fn free_slot(&mut self, slot: u32, hash: u32) {
        self.index.remove(hash, slot);
        self.records[slot as usize].object = NO_OBJECT;
        self.free.push(slot);
    }
}

/// Reserves space for one more element. A full list grows by a quarter: memory per object matters
/// more than copying.
pub(super) fn reserve_by_quarter<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(16));
    }
}
