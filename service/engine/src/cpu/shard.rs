//! A shard: the objects whose id hashes to it, their records, and what a cycle does to each of
//! them.
//!
//! Rows reach the shard in order of arrival. Each touched object keeps its winner so far; at the
//! end of the cycle the winners are written and the cells that change are told. Records hold the
//! state at the start of the cycle until then, which is what late and duplicate are judged against.

use super::grid::Grid;
use super::index::Index;
use super::motion::{Happening, Motion, MotionFate, Telling, Told, What};
use super::record::{Attributes, EXPIRING, Fate, NO_OBJECT, Note, Record, RoutedRow, UNTOUCHED};
use super::update::CellOperation;
use crate::subscription::EventKind;

/// Shards of one engine: more than cores, few enough that small cycles stay cheap.
pub(super) const SHARDS: usize = 64;
/// Bits of a slot that count inside its shard.
pub(super) const SLOT_BITS: u32 = 26;
/// Slots that share one bound on the age of their records.
pub(super) const EXPIRY_BLOCK: usize = 1024;
/// Rows whose cache misses are overlapped.
pub(super) const GROUP: usize = 32;

const _: () = assert!(SHARDS << SLOT_BITS == 1 << 32, "a slot is 32 bits");

/// The 64-bit hash of an object: a folded multiplication, keyed so that nobody can choose ids that
/// collide.
#[derive(Clone, Copy, Debug)]
pub(super) struct ObjectHash {
    key: u64,
}

impl ObjectHash {
    pub(super) fn new(key: u64) -> Self {
        Self { key }
    }

    #[inline(always)]
    pub(super) fn shard_and_hash(self, object: u64) -> (usize, u32) {
        let product = u128::from(object ^ self.key) * 0x9E37_79B9_7F4A_7C15;
        let folded = (product as u64) ^ ((product >> 64) as u64);
        let mixed = folded.wrapping_mul(0xD6E8_FEB8_6659_FD93);
        ((mixed >> 58) as usize, (mixed >> 20) as u32)
    }
}

/// What the running cycle has done to one object.
#[derive(Debug)]
struct Touched {
    /// Valid when `has_winner`.
    winner: RoutedRow,
    slot: u32,
    hash: u32,
    existed: bool,
    /// The record at the start of the cycle counts no more: a removal or a clear arrived.
    gone: bool,
    /// What ended it last while it existed; counts when it is not alive.
    ending: EventKind,
    has_winner: bool,
}

impl Touched {
    fn new(slot: u32, hash: u32, existed: bool) -> Self {
        Self {
            winner: RoutedRow::removal(NO_OBJECT, 0),
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
    /// Records older than this go; `i64::MIN` keeps all.
    pub(super) time_min_ms: i64,
    /// Finds the attributes of a row by arrival; `None` when no row of the cycle has any.
    pub(super) attributes: Option<&'a (dyn Fn(u32) -> Attributes + Sync)>,
    /// Present while regions stand or came to stand.
    pub(super) telling: Option<Telling<'a>>,
}

/// Objects of one share of the id space.
#[derive(Debug)]
pub(super) struct Shard {
    index: Index,
    pub(super) records: Vec<Record>,
    /// As long as `records` once any row brought attributes, else empty.
    pub(super) attributes: Vec<Attributes>,
    free: Vec<u32>,
    /// Per [`EXPIRY_BLOCK`] slots a time that none of their records is older than.
    pub(super) oldest_ms: Vec<i64>,
    touched: Vec<Touched>,
    /// Cell operations of the running cycle, per band, in order.
    pub(super) operations: Vec<Vec<CellOperation>>,
    /// Rows of the running cycle that were not applied, and removals.
    pub(super) notes: Vec<Note>,
    pub(super) expired: u64,
    pub(super) told: Told,
}

impl Shard {
    pub(super) fn new() -> Self {
        Self {
            index: Index::new(),
            records: Vec::new(),
            attributes: Vec::new(),
            free: Vec::new(),
            oldest_ms: Vec::new(),
            touched: Vec::new(),
            operations: Vec::new(),
            notes: Vec::new(),
            expired: 0,
            told: Told::default(),
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
            + self.oldest_ms.capacity() * size_of::<i64>()
            + self.touched.capacity() * size_of::<Touched>()
            + operations * size_of::<CellOperation>()
            + self.notes.capacity() * size_of::<Note>()
            + self.told.memory_bytes()
    }

    /// The attributes of a record.
    pub(super) fn attributes_of(&self, slot: usize) -> Attributes {
        self.attributes.get(slot).copied().unwrap_or(Attributes::UNKNOWN)
    }

    /// The slot of an object.
    pub(super) fn find(&self, hash: u32, object: u64) -> Option<u32> {
        self.index.find(hash, |slot| self.records[slot as usize].object == object)
    }

    /// Asks the cache for the first place that a search for `hash` looks at.
    pub(super) fn prefetch(&self, hash: u32) {
        self.index.prefetch(hash);
    }

    /// Asks the cache for what searches for a group of objects read, in two rounds of overlapped
    /// misses: index entries, then records. Gives their hashes.
    #[inline(always)]
    pub(super) fn ask_ahead(
        &self,
        hash: ObjectHash,
        group: &[RoutedRow],
        hashes: &mut [u32; GROUP],
    ) {
        for (row, found) in group.iter().zip(hashes.iter_mut()) {
            *found = hash.shard_and_hash(row.object).1;
            self.index.prefetch(*found);
        }
        for hash in &hashes[..group.len()] {
            if let Some(slot) = self.index.find(*hash, |_| true) {
                super::prefetch::read(&self.records, slot as usize);
            }
        }
    }

    /// Takes rows in order of arrival.
    pub(super) fn take(&mut self, cycle: &ShardCycle<'_>, rows: &[RoutedRow]) {
        let mut hashes = [0; GROUP];
        for group in rows.chunks(GROUP) {
            self.ask_ahead(cycle.hash, group, &mut hashes);
            for (row, hash) in group.iter().zip(hashes) {
                if row.is_removal() {
                    self.take_removal(cycle, hash, row);
                } else {
                    self.take_fix(cycle, hash, row);
                }
            }
        }
    }

    fn take_fix(&mut self, cycle: &ShardCycle<'_>, hash: u32, row: &RoutedRow) {
        let place = match self.find(hash, row.object) {
            Some(slot) => self.touch(slot, hash),
            None => self.create(hash, row.object),
        };
        let touched = &mut self.touched[place];
        let starts = touched.existed && !touched.gone;
        if starts && row.time_ms < self.records[touched.slot as usize].time_ms {
            self.note(row.arrival, Fate::Late);
            return;
        }
        if touched.has_winner && row.time_ms < touched.winner.time_ms {
            self.note(row.arrival, Fate::Superseded);
        } else {
            let beaten = touched.has_winner.then_some(touched.winner.arrival);
            touched.winner = *row;
            touched.has_winner = true;
            if let Some(arrival) = beaten {
                self.note(arrival, Fate::Superseded);
            }
        }
        self.happened(cycle, place, What::Row(*row));
    }

    /// Takes note of what happened to an object, where rows are judged one by one.
    fn happened(&mut self, cycle: &ShardCycle<'_>, place: usize, what: What) {
        if cycle.telling.is_some_and(|telling| telling.standing.every_fix > 0) {
            self.told.happenings.push(Happening { place: place as u32, what });
        }
    }

    fn take_removal(&mut self, cycle: &ShardCycle<'_>, hash: u32, row: &RoutedRow) {
        let Some(slot) = self.find(hash, row.object) else {
            return self.note(row.arrival, Fate::Missing);
        };
        let place = self.touch(slot, hash);
        let was_alive = self.kill(cycle, place, EventKind::Removed);
        let fate = if was_alive { Fate::Removed } else { Fate::Missing };
        self.note(row.arrival, fate);
    }

    /// Ends the object's life so far in this cycle; whether it was alive.
    fn kill(&mut self, cycle: &ShardCycle<'_>, place: usize, reason: EventKind) -> bool {
        let touched = &mut self.touched[place];
        let was_alive = touched.is_alive();
        if was_alive {
            touched.ending = reason;
        }
        let beaten = touched.has_winner.then_some(touched.winner.arrival);
        touched.gone = true;
        touched.has_winner = false;
        if let Some(arrival) = beaten {
            self.note(arrival, Fate::Superseded);
        }
        if was_alive {
            self.happened(cycle, place, What::End(reason));
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
                removed += u64::from(self.kill(cycle, place, EventKind::Cleared));
            }
        }
        removed
    }

    fn note(&mut self, arrival: u32, fate: Fate) {
        self.notes.push(Note { arrival, fate });
    }

    /// The place of an existing slot among the touched ones.
    fn touch(&mut self, slot: u32, hash: u32) -> usize {
        let record = &mut self.records[slot as usize];
        if record.touched == UNTOUCHED {
            record.touched = self.touched.len() as u32;
            self.touched.push(Touched::new(slot, hash, true));
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
            let slot = self.records.len();
            assert!(slot < 1 << SLOT_BITS, "a shard holds at most 2^{SLOT_BITS} objects");
            reserve_by_quarter(&mut self.records);
            self.records.push(record);
            if !self.attributes.is_empty() {
                reserve_by_quarter(&mut self.attributes);
                self.attributes.push(Attributes::UNKNOWN);
            }
            if slot.is_multiple_of(EXPIRY_BLOCK) {
                self.oldest_ms.push(i64::MAX);
            }
            slot as u32
        };
        self.index.insert(hash, slot);
        self.touched.push(Touched::new(slot, hash, false));
        place
    }

    /// Writes the winners, frees what is gone, expires, and lists the cell operations of this shard
    /// (number `shard`).
    pub(super) fn settle(&mut self, cycle: &ShardCycle<'_>, shard: usize) {
        for operations in &mut self.operations {
            operations.clear();
        }
        self.operations.resize_with(cycle.grid.bands(), Vec::new);
        let base = (shard as u32) << SLOT_BITS;
        let touched = std::mem::take(&mut self.touched);
        for (place, object) in touched.iter().enumerate() {
            self.settle_object(cycle, base, place, object);
        }
        self.touched = touched;
        self.touched.clear();
        self.expire(cycle, base);
        if let Some(telling) = &cycle.telling {
            self.judge(telling, cycle.attributes);
        }
    }

    fn settle_object(
        &mut self,
        cycle: &ShardCycle<'_>,
        base: u32,
        place: usize,
        touched: &Touched,
    ) {
        let slot = touched.slot as usize;
        let start = self.records[slot];
        self.records[slot].touched = UNTOUCHED;
        if !touched.has_winner {
            if !touched.is_alive() {
                self.moved(cycle, place, touched, MotionFate::Gone(touched.ending));
                if touched.existed {
                    let from = cycle.grid.locate(start.x, start.y);
                    self.list(from, CellOperation::delete(base | touched.slot, start.x, start.y));
                }
                self.free_slot(touched.slot, touched.hash);
            } else {
                self.moved(cycle, place, touched, MotionFate::Still);
            }
            return;
        }
        let winner = &touched.winner;
        let attributes = cycle.attributes.map_or(Attributes::UNKNOWN, |of| of(winner.arrival));
        if touched.existed && !touched.gone && self.is_same(&start, slot, winner, attributes) {
            self.moved(cycle, place, touched, MotionFate::Still);
            return self.note(winner.arrival, Fate::Duplicate);
        }
        let is_old = winner.time_ms < cycle.time_min_ms;
        let fate = if is_old { MotionFate::Gone(EventKind::Expired) } else { MotionFate::Written };
        self.moved(cycle, place, touched, fate);
        self.write(slot, winner, attributes);
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

    /// Takes note of an object for the standing regions; its record is still the one before.
    fn moved(&mut self, cycle: &ShardCycle<'_>, place: usize, touched: &Touched, fate: MotionFate) {
        let Some(telling) = &cycle.telling else { return };
        let has_steps = telling.standing.every_fix > 0;
        let is_nothing = fate == MotionFate::Still || (!touched.existed && !touched.has_winner);
        if is_nothing && !has_steps {
            return;
        }
        let slot = touched.slot as usize;
        let start = self.records[slot];
        let is_old = fate == MotionFate::Still && start.time_ms < cycle.time_min_ms;
        let fate = if is_old { MotionFate::Gone(EventKind::Expired) } else { fate };
        let to = if touched.has_winner {
            (touched.winner.x, touched.winner.y)
        } else {
            (start.x, start.y)
        };
        let had = touched.existed;
        let from = if had { (start.x, start.y) } else { to };
        let motion = Motion { object: start.object, slot: touched.slot, fate, had, from, to };
        if telling.standing.needs_records() {
            self.told.befores.push(start.row(self.attributes_of(slot)));
        }
        if has_steps {
            self.told.places.push(place as u32);
        }
        match fate {
            MotionFate::Gone(EventKind::Expired) => self.records[slot].touched = EXPIRING,
            MotionFate::Written if telling.keeps_marks => {
                self.records[slot].touched = self.told.motions.len() as u32;
            }
            _ => {}
        }
        self.told.motions.push(motion);
    }

    /// Takes note of a record that goes by age and that no row of the cycle has written.
    pub(super) fn went_by_age(&mut self, cycle: &ShardCycle<'_>, slot: usize) {
        let Some(telling) = &cycle.telling else { return };
        let record = self.records[slot];
        let at = (record.x, record.y);
        let fate = MotionFate::Gone(EventKind::Expired);
        let (object, slot_in) = (record.object, slot as u32);
        let motion = Motion { object, slot: slot_in, fate, had: true, from: at, to: at };
        if telling.standing.needs_records() {
            self.told.befores.push(record.row(self.attributes_of(slot)));
        }
        if telling.standing.every_fix > 0 {
            self.told.places.push(u32::MAX);
        }
        self.told.motions.push(motion);
    }

    fn is_same(&self, start: &Record, slot: usize, row: &RoutedRow, new: Attributes) -> bool {
        (start.time_ms, start.x, start.y, start.state) == (row.time_ms, row.x, row.y, row.state)
            && self.attributes_of(slot) == new
    }

    fn write(&mut self, slot: usize, row: &RoutedRow, attributes: Attributes) {
        let record = &mut self.records[slot];
        record.time_ms = row.time_ms;
        record.x = row.x;
        record.y = row.y;
        record.state = row.state;
        let oldest = &mut self.oldest_ms[slot / EXPIRY_BLOCK];
        *oldest = (*oldest).min(row.time_ms);
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

    /// Gives the slot of a vanished object back.
    pub(super) fn free_slot(&mut self, slot: u32, hash: u32) {
        self.index.remove(hash, slot);
        self.records[slot as usize].object = NO_OBJECT;
        self.free.push(slot);
    }
}

/// Makes room for one more element, growing by a quarter: bytes an object count more than copies.
pub(super) fn reserve_by_quarter<T>(list: &mut Vec<T>) {
    if list.len() == list.capacity() {
        list.reserve_exact((list.len() / 4).max(16));
    }
}
