//! A band: the cells of some neighbouring rows of the grid, and the buckets that they overflow
//! into.
//!
//! The unit of ownership of the update stage. The first buckets are the heads of its cells, in
//! order. Objects in overflow buckets are found through a small index of their own, so a cell that
//! holds the whole fleet costs an update no more than any other.

use super::bucket::{Bucket, NO_BUCKET};
use super::index::Index;

/// Buckets of one band.
#[derive(Debug)]
pub(super) struct Band {
    /// Heads first, one per cell; then overflow buckets.
    pub(super) buckets: Vec<Bucket>,
    cells: usize,
    free: Vec<u32>,
    /// Slot to overflow bucket.
    spilled: Index,
}

impl Band {
    pub(super) fn new(cells: usize) -> Self {
        Self {
            buckets: vec![Bucket::EMPTY; cells],
            cells,
            free: Vec::new(),
            spilled: Index::new(),
        }
    }

    /// Overflow buckets in use.
    pub(super) fn overflow(&self) -> usize {
        self.buckets.len() - self.cells - self.free.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
            + self.free.capacity() * size_of::<u32>()
            + self.spilled.memory_bytes()
    }

    /// Puts an object into a cell.
    #[inline]
    pub(super) fn insert(&mut self, cell: usize, slot: u32, x: i32, y: i32) {
        if self.buckets[cell].is_full() {
            self.spill(cell);
        }
        self.buckets[cell].push(slot, x, y);
    }

    /// Takes an object out of a cell; panics when it is not there, for then index and grid
    /// disagree.
    #[inline]
    pub(super) fn delete(&mut self, cell: usize, slot: u32) {
        let (bucket, at) = self.locate(cell, slot);
        let (last_slot, last_x, last_y) = self.buckets[cell].pop();
        if bucket != cell {
            self.spilled.remove(scramble(slot), bucket as u32);
            self.spilled.insert(scramble(last_slot), bucket as u32);
        }
        if last_slot != slot {
            let holed = &mut self.buckets[bucket];
            holed.slots[at] = last_slot;
            holed.x[at] = last_x;
            holed.y[at] = last_y;
        }
        let head = &self.buckets[cell];
        if head.count == 0 && head.next != NO_BUCKET {
            self.refill(cell);
        }
    }

    /// Moves an object inside its cell.
    #[inline]
    pub(super) fn relocate(&mut self, cell: usize, slot: u32, x: i32, y: i32) {
        let (bucket, at) = self.locate(cell, slot);
        self.buckets[bucket].x[at] = x;
        self.buckets[bucket].y[at] = y;
    }

    #[inline]
    fn locate(&self, cell: usize, slot: u32) -> (usize, usize) {
        if let Some(at) = self.buckets[cell].position(slot) {
            return (cell, at);
        }
        let place = self
            .spilled
            .find(scramble(slot), |_| true)
            .and_then(|bucket| {
                let at = self.buckets[bucket as usize].position(slot)?;
                Some((bucket as usize, at))
            });
        place.unwrap_or_else(|| panic!("slot {slot} is not in cell {cell} of its band"))
    }

    /// Moves a full head into an overflow bucket.
    #[cold]
    fn spill(&mut self, cell: usize) {
        let full = self.buckets[cell];
        let spilled = if let Some(bucket) = self.free.pop() {
            self.buckets[bucket as usize] = full;
            bucket
        } else {
            super::shard::reserve_by_quarter(&mut self.buckets);
            self.buckets.push(full);
            (self.buckets.len() - 1) as u32
        };
        for slot in full.slots {
            self.spilled.insert(scramble(slot), spilled);
        }
        self.buckets[cell] = Bucket {
            next: spilled,
            ..Bucket::EMPTY
        };
    }

    /// Moves the first overflow bucket into an empty head.
    #[cold]
    fn refill(&mut self, cell: usize) {
        let bucket = self.buckets[cell].next;
        self.buckets[cell] = self.buckets[bucket as usize];
        for slot in self.buckets[cell].slots {
            self.spilled.remove(scramble(slot), bucket);
        }
        self.free.push(bucket);
    }
}

/// A bijection of slots, so that the bits kept by the index name the slot exactly.
fn scramble(slot: u32) -> u32 {
    slot.wrapping_mul(0x9E37_79B1)
}
