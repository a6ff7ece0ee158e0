//! A band: the cells of some neighbouring rows of the grid, with their overflow buckets.
//!
//! The unit of ownership of the update stage. The first buckets are the heads of its cells, in
//! order. A crowded cell is refined recursively into nine smaller ones. At the last level an index
//! finds objects in overflow buckets, so that an update takes constant time even if the whole fleet
//! is at one point. Tiles and refined cells store their number of objects, so that a count need
//! not visit their buckets.

use super::bucket::{Bucket, NO_BUCKET};
use super::grid::Grid;
use super::index::Index;

/// A refined cell has this many columns and rows.
pub(super) const BLOCK_SIDE: u32 = 3;
/// Buckets of a refined cell.
const BLOCK: usize = (BLOCK_SIDE * BLOCK_SIDE) as usize;
/// Maximum number of overflow buckets of a cell before it is refined. Its 40 objects are then
/// spread over nine cells of about four objects. A lower limit costs memory, a higher one longer
/// searches.
const OVERFLOW_MAX: u16 = 3;
/// Maximum number of levels of refinement. Eight levels divide a cell of 80 km, as on a grid over
/// the whole earth, into cells of 12 m.
const DEPTH_MAX: u32 = 8;

/// Buckets of one band.
#[derive(Debug)]
pub(super) struct Band {
    /// Heads first, one per cell; then overflow buckets and blocks.
    pub(super) buckets: Vec<Bucket>,
    cells: usize,
    free: Vec<u32>,
    /// Objects of every tile; see [`Grid::tile`].
    pub(super) tiles: Vec<u32>,
    /// Maps a slot to its overflow bucket, for cells at the last level.
    spilled: Index,
}

/// The smallest cell at a position.
#[derive(Clone, Copy)]
pub(super) struct Leaf {
    pub(super) head: usize,
    pub(super) depth: u32,
}

/// A position inside a cell, in units of 2^-32 of the cell's sides.
#[derive(Clone, Copy, Debug)]
pub(super) struct Inside {
    pub(super) x: u32,
    pub(super) y: u32,
}

impl Inside {
    /// The smaller cell of a block, and where the position lies in it.
    #[inline(always)]
    pub(super) fn descend(self) -> (u32, Self) {
        let (column, x) = split(self.x);
        let (row, y) = split(self.y);
        (row * BLOCK_SIDE + column, Self { x, y })
    }
}

/// The part of a block's side that a fraction lies in, and the fraction of that part.
#[inline(always)]
pub(super) fn split(fraction: u32) -> (u32, u32) {
    let scaled = u64::from(fraction) * u64::from(BLOCK_SIDE);
    ((scaled >> 32) as u32, scaled as u32)
}

impl Band {
    /// The empty band of this number.
    pub(super) fn new(grid: &Grid, band: usize) -> Self {
        let cells = grid.cells_of_band(band);
        Self {
            buckets: vec![Bucket::EMPTY; cells],
            cells,
            free: Vec::new(),
            tiles: vec![0; grid.tiles_of_band()],
            spilled: Index::new(),
        }
    }

    /// Number of buckets in use, without the heads of the grid's own cells.
    pub(super) fn overflow(&self) -> usize {
        self.buckets.len() - self.cells - self.free.len()
    }

    pub(super) fn memory_bytes(&self) -> usize {
        self.buckets.capacity() * size_of::<Bucket>()
            + (self.free.capacity() + self.tiles.capacity()) * size_of::<u32>()
            + self.spilled.memory_bytes()
    }

    /// The smallest cell at a position of one of the grid's cells.
    #[inline(always)]
    pub(super) fn leaf(&self, grid: &Grid, cell: usize, x: i32, y: i32) -> Leaf {
        match self.buckets[cell].block() {
            None => Leaf { head: cell, depth: 0 },
            Some(_) => self.leaf_below(Leaf { head: cell, depth: 0 }, grid.inside(x, y)),
        }
    }

    fn leaf_below(&self, mut leaf: Leaf, mut inside: Inside) -> Leaf {
        while let Some(block) = self.buckets[leaf.head].block() {
            let (part, deeper) = inside.descend();
            leaf = Leaf { head: (block + part) as usize, depth: leaf.depth + 1 };
            inside = deeper;
        }
        leaf
    }

    /// Puts an object into one of the grid's cells.
    #[inline]
    pub(super) fn insert(&mut self, grid: &Grid, cell: usize, slot: u32, x: i32, y: i32) {
        let mut leaf = self.leaf(grid, cell, x, y);
        if self.buckets[leaf.head].is_full() {
            while self.buckets[leaf.head].overflow == OVERFLOW_MAX && leaf.depth < DEPTH_MAX {
                self.refine(grid, leaf);
                leaf = self.leaf(grid, cell, x, y);
            }
            if self.buckets[leaf.head].is_full() {
                self.spill(leaf);
            }
        }
        self.buckets[leaf.head].push(slot, x, y);
        self.tiles[grid.tile(x, y)] += 1;
        if leaf.depth > 0 {
            self.add_above(cell, grid.inside(x, y), 1);
        }
    }

    /// Adds `objects` to the counters of all refined cells that contain a position.
    #[inline(never)]
    fn add_above(&mut self, cell: usize, mut inside: Inside, objects: i32) {
        let mut head = cell;
        while let Some(block) = self.buckets[head].block() {
            self.buckets[head].add_below(objects);
            let (part, deeper) = inside.descend();
            head = (block + part) as usize;
            inside = deeper;
        }
    }

    /// Removes an object from the cell at its position; panics if it is not there, because then
    /// records and grid are inconsistent.
    #[inline]
    pub(super) fn delete(&mut self, grid: &Grid, cell: usize, slot: u32, x: i32, y: i32) {
        let leaf = self.leaf(grid, cell, x, y);
        let (bucket, at) = self.locate(leaf, slot);
        let (last_slot, last_x, last_y) = self.buckets[leaf.head].pop();
        self.tiles[grid.tile(x, y)] -= 1;
        if leaf.depth > 0 {
            self.add_above(cell, grid.inside(x, y), -1);
        }
        if last_slot != slot {
            let holed = &mut self.buckets[bucket];
            holed.slots[at] = last_slot;
            holed.x[at] = last_x;
            holed.y[at] = last_y;
            if bucket != leaf.head && leaf.depth == DEPTH_MAX {
                self.spilled.remove(scramble(slot), bucket as u32);
                self.spilled.insert(scramble(last_slot), bucket as u32);
            }
        }
        let head = &self.buckets[leaf.head];
        if head.count == 0 && head.next != NO_BUCKET {
            self.refill(leaf);
        }
    }

    #[inline]
    fn locate(&self, leaf: Leaf, slot: u32) -> (usize, usize) {
        let mut bucket = leaf.head;
        loop {
            if let Some(at) = self.buckets[bucket].position(slot) {
                return (bucket, at);
            }
            let next = match leaf.depth {
                DEPTH_MAX => self.spilled.find(scramble(slot), |_| true),
                _ => Some(self.buckets[bucket].next).filter(|next| *next != NO_BUCKET),
            };
            bucket = next.unwrap_or_else(|| panic!("slot {slot} is not in its cell")) as usize;
        }
    }

    /// Moves a full head into an overflow bucket.
    #[cold]
    fn spill(&mut self, leaf: Leaf) {
        let full = self.buckets[leaf.head];
        let spilled = if let Some(bucket) = self.free.pop() {
            self.buckets[bucket as usize] = full;
            bucket
        } else {
            super::shard::reserve_by_quarter(&mut self.buckets);
            self.buckets.push(full);
            (self.buckets.len() - 1) as u32
        };
        if leaf.depth == DEPTH_MAX {
            for slot in full.slots {
                self.spilled.insert(scramble(slot), spilled);
            }
        }
        let overflow = (full.overflow + 1).min(OVERFLOW_MAX);
        self.buckets[leaf.head] = Bucket { next: spilled, overflow, ..Bucket::EMPTY };
    }

    /// Moves the first overflow bucket into an empty head.
    #[cold]
    fn refill(&mut self, leaf: Leaf) {
        let bucket = self.buckets[leaf.head].next;
        // The copied bucket has an outdated `overflow`, from when it was a head.
        self.buckets[leaf.head] = self.buckets[bucket as usize];
        if leaf.depth == DEPTH_MAX {
            for slot in self.buckets[leaf.head].slots {
                self.spilled.remove(scramble(slot), bucket);
            }
        }
        self.free.push(bucket);
    }

    /// Spreads the objects of a crowded cell over a block of smaller ones.
    #[cold]
    fn refine(&mut self, grid: &Grid, leaf: Leaf) {
        let block = self.buckets.len();
        if self.buckets.capacity() - block < BLOCK {
            self.buckets.reserve_exact(BLOCK.max(block / 8));
        }
        self.buckets.resize(block + BLOCK, Bucket::EMPTY);
        let (mut bucket, mut objects) = (leaf.head, 0);
        loop {
            let crowd = self.buckets[bucket];
            objects += u32::from(crowd.count);
            for at in 0..crowd.count as usize {
                let (slot, x, y) = (crowd.slots[at], crowd.x[at], crowd.y[at]);
                let mut inside = grid.inside(x, y);
                for _ in 0..leaf.depth {
                    inside = inside.descend().1;
                }
                let head = block + inside.descend().0 as usize;
                if self.buckets[head].is_full() {
                    self.spill(Leaf { head, depth: leaf.depth + 1 });
                }
                self.buckets[head].push(slot, x, y);
            }
            if bucket != leaf.head {
                self.free.push(bucket as u32);
            }
            if crowd.next == NO_BUCKET {
                break;
            }
            bucket = crowd.next as usize;
        }
        self.buckets[leaf.head] = Bucket::refined(block as u32, objects);
    }
}

/// A bijection of slots, so that the 32 hash bits in the index identify the slot exactly.
fn scramble(slot: u32) -> u32 {
    slot.wrapping_mul(0x9E37_79B1)
}
