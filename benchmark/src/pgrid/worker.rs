//! A worker thread of the grid: updates, queries, and reclamation of retired entries.
//!
//! A group of updates is prefetched in three rounds (index, old entry, new cell), so that cache
//! misses overlap; the updates follow one by one. A worker passes a quiescent point between
//! portions of work, never within an update or a query.

use std::collections::VecDeque;
use std::hint::black_box;

use shoal_engine::QuantaRect;

use super::bucket::{Identity, NO_BUCKET};
use super::grid::{PGrid, Update};
use super::index::Place;

/// Number of updates whose data is prefetched together: about twice the number of cache misses that
/// a core can have in flight.
pub(super) const GROUP: usize = 32;
/// Buckets of a crowded cell that an insertion probes before it links a new one.
const WALK_BUCKETS_MAX: usize = 8;
/// Free buckets that a worker takes from the shared list at a time.
const FREE_BUCKETS_TAKEN: usize = 32;

/// A retired item that other workers may be reading.
#[derive(Clone, Copy, Debug)]
enum Retired {
    /// A logically deleted entry, and its cell.
    Entry(Place, u32),
    /// An unlinked bucket.
    Bucket(u32),
}

/// Unfinished reclamation of an ended worker.
#[derive(Debug, Default)]
pub(super) struct Leftover {
    retired: Vec<Retired>,
    free_buckets: Vec<u32>,
}

/// A worker with a unique number.
#[derive(Debug)]
pub(super) struct Worker<'a> {
    grid: &'a PGrid,
    number: usize,
    retired: VecDeque<Retired>,
    /// Stamp and count of the portions in `retired`, oldest first.
    portions: VecDeque<(u64, usize)>,
    /// Entries of `retired` that belong to no portion so far.
    unstamped: usize,
    free_buckets: Vec<u32>,
}

impl<'a> Worker<'a> {
    /// Starts work under a number below [`PGrid::workers`].
    pub(super) fn new(grid: &'a PGrid, number: usize) -> Self {
        grid.grace.join(number);
        let retired = std::mem::take(&mut grid.leftover().retired);
        Self {
            grid,
            number,
            unstamped: retired.len(),
            retired: retired.into(),
            portions: VecDeque::new(),
            free_buckets: Vec::new(),
        }
    }

    /// Passes a quiescent point and frees entries without readers.
    pub(super) fn pass(&mut self) {
        let stamp = self.grid.grace.pass(self.number);
        if self.unstamped > 0 {
            self.portions.push_back((stamp, std::mem::take(&mut self.unstamped)));
        }
        let free_until = self.grid.grace.free_until();
        while let Some((_, count)) = self.portions.pop_front_if(|(stamp, _)| *stamp <= free_until) {
            for _ in 0..count {
                match self.retired.pop_front() {
                    Some(Retired::Entry(place, cell)) => self.vacate(place, cell),
                    Some(Retired::Bucket(number)) => self.free_buckets.push(number),
                    None => debug_assert!(false, "portions count what is retired"),
                }
            }
        }
    }

    fn retire(&mut self, retired: Retired) {
        self.retired.push_back(retired);
        self.unstamped += 1;
    }

    /// Frees a slot; unlinks its bucket if empty.
    fn vacate(&mut self, place: Place, cell: u32) {
        let arena = &self.grid.arena;
        let is_empty = arena.bucket(place.bucket).vacate(place.slot.into());
        if arena.is_head(place.bucket) {
            return;
        }
        let chain = arena.chain(cell);
        let is_hinted = chain.hint() == place.bucket;
        // If the latch is held, the bucket remains linked and is reused or emptied later.
        if (is_empty || !is_hinted) && chain.try_latch() {
            let bucket = arena.bucket(place.bucket);
            if is_empty && bucket.close() {
                self.unlink(cell, place.bucket);
                self.retire(Retired::Bucket(place.bucket));
            } else if !bucket.is_closed() {
                chain.set_hint(place.bucket);
            }
            chain.unlatch();
        }
    }

    /// Unlinks a closed bucket while the chain's latch is held. Its `next` remains valid for
    /// current readers.
    fn unlink(&self, cell: u32, number: u32) {
        let arena = &self.grid.arena;
        let head = arena.head(cell);
        let behind = arena.bucket(number).next();
        let mut before = head;
        while before.next() != number {
            before = arena.bucket(before.next());
        }
        before.set_next(behind);
        let chain = arena.chain(cell);
        if chain.hint() == number {
            chain.set_hint(head.next());
        }
    }

    /// Applies updates in order; each is atomic for readers.
    pub(super) fn apply(&mut self, updates: &[Update]) {
        for group in updates.chunks(GROUP) {
            self.look_ahead(group);
            group.iter().for_each(|update| self.update(update));
        }
    }

    /// Prefetches the data of the updates, one kind of miss at a time.
    fn look_ahead(&self, group: &[Update]) {
        let PGrid { index, arena, cells, .. } = self.grid;
        let mut places = [None; GROUP];
        for (place, update) in places.iter_mut().zip(group) {
            *place = index.place(update.object);
        }
        for place in places.iter().flatten() {
            black_box(arena.bucket(place.bucket).position(place.slot.into()));
        }
        let mut heads = [0; GROUP];
        for (head, update) in heads.iter_mut().zip(group) {
            *head = cells.of(update.x, update.y);
            black_box(arena.head(*head).occupied());
        }
        for head in &heads[..group.len()] {
            arena.head(*head).look_at_free_slot();
        }
    }

    /// Applies one update; a report older than the current one is ignored.
    fn update(&mut self, update: &Update) {
        let PGrid { index, arena, cells, .. } = self.grid;
        let Update { object, time_ms, x, y } = *update;
        let cell = cells.of(x, y);
        let identity = Identity::new(object, time_ms);
        let Some(old) = index.latch(object) else {
            let place = self.insert(cell, identity, x, y);
            index.unlatch(object, place);
            return;
        };
        let (bucket, slot) = (arena.bucket(old.bucket), usize::from(old.slot));
        let Some(present) = bucket.identity(slot) else {
            unreachable!("the index leads to the object's entry");
        };
        if time_ms < present.time_ms() {
            index.unlatch(object, old);
            return;
        }
        let (old_x, old_y) = bucket.position(slot);
        let old_cell = cells.of(old_x, old_y);
        if old_cell == cell {
            bucket.write(slot, identity, x, y);
            index.unlatch(object, old);
            return;
        }
        let place = self.insert(cell, identity, x, y);
        // Readers of the deleted entry find the new one through the index.
        index.relocate(object, place);
        bucket.delete_logically(slot, present);
        index.unlatch(object, place);
        self.retire(Retired::Entry(old, old_cell));
    }

    /// Writes a new entry into a cell.
    fn insert(&mut self, cell: u32, identity: Identity, x: i32, y: i32) -> Place {
        let (number, slot) = self.claim(cell);
        self.grid.arena.bucket(number).write(slot, identity, x, y);
        Place { bucket: number, slot: slot as u8 }
    }

    /// Claims a slot of a cell: in its first bucket, in the hinted bucket, in one of the next few
    /// buckets, or in a new one.
    fn claim(&mut self, cell: u32) -> (u32, usize) {
        let arena = &self.grid.arena;
        let head = arena.head(cell);
        if let Some(slot) = head.claim() {
            return (cell, slot);
        }
        let first = head.next();
        if first == NO_BUCKET {
            return self.extend(cell);
        }
        let chain = arena.chain(cell);
        for start in [chain.hint(), first] {
            let mut number = start;
            for _ in 0..WALK_BUCKETS_MAX {
                if number == NO_BUCKET {
                    break;
                }
                let bucket = arena.bucket(number);
                if let Some(slot) = bucket.claim() {
                    chain.set_hint(number);
                    return (number, slot);
                }
                number = bucket.next();
            }
        }
        self.extend(cell)
    }

    /// Links a new bucket after the first one and claims a slot of the new bucket.
    fn extend(&mut self, cell: u32) -> (u32, usize) {
        let number = self.free_bucket().unwrap_or_else(|| self.grid.arena.unused());
        let arena = &self.grid.arena;
        let (head, chain, bucket) = (arena.head(cell), arena.chain(cell), arena.bucket(number));
        chain.latch();
        let slot = bucket.open(head.next());
        head.set_next(number);
        chain.set_hint(number);
        chain.unlatch();
        (number, slot)
    }

    /// A free bucket from this worker's list, or from the shared list if it is not contended.
    fn free_bucket(&mut self) -> Option<u32> {
        if self.free_buckets.is_empty()
            && let Ok(mut leftover) = self.grid.leftover.try_lock()
        {
            let shared = &mut leftover.free_buckets;
            let kept = shared.len().saturating_sub(FREE_BUCKETS_TAKEN);
            self.free_buckets.extend(shared.drain(kept..));
        }
        self.free_buckets.pop()
    }

    /// Prefetches the first buckets of the cells of windows.
    pub(super) fn look_ahead_windows(&self, windows: &[QuantaRect]) {
        let PGrid { arena, cells, .. } = self.grid;
        for window in windows {
            let cover = cells.touched(window);
            for row in cover.rows() {
                black_box(arena.head(cells.number(cover.columns.0, row)).occupied());
                black_box(arena.head(cells.number(cover.columns.1, row)).occupied());
            }
        }
    }

    /// Appends the objects inside a window, ascending, each once.
    pub(super) fn query(&self, window: &QuantaRect, found: &mut Vec<u64>) {
        let PGrid { arena, cells, .. } = self.grid;
        let start = found.len();
        let cover = cells.touched(window);
        for row in cover.rows() {
            for column in cover.columns() {
                let is_inner = cover.is_inner(column, row);
                let cell = cells.number(column, row);
                let mut bucket = arena.head(cell);
                loop {
                    let mut occupied = bucket.occupied();
                    while occupied != 0 {
                        let slot = occupied.trailing_zeros() as usize;
                        occupied &= occupied - 1;
                        let Some(identity) = bucket.identity(slot) else { continue };
                        let is_inside = if identity.is_deleted() {
                            self.is_inside_by_now(identity.object(), window)
                        } else {
                            let (x, y) = bucket.position(slot);
                            is_inner || window.contains(x, y)
                        };
                        if is_inside {
                            found.push(identity.object().into());
                        }
                    }
                    let next = bucket.next();
                    if next == NO_BUCKET {
                        break;
                    }
                    bucket = arena.bucket(next);
                }
            }
        }
        if found.len() - start > 1 {
            found[start..].sort_unstable();
            dedup_from(found, start);
        }
    }

    /// Whether the newest position of an object that moved between cells is inside.
    #[cold]
    fn is_inside_by_now(&self, object: u32, window: &QuantaRect) -> bool {
        loop {
            let place = self.grid.index.place(object);
            let Some(Place { bucket, slot }) = place else {
                return false;
            };
            let (bucket, slot) = (self.grid.arena.bucket(bucket), usize::from(slot));
            let is_live =
                |identity: Identity| identity.object() == object && !identity.is_deleted();
            if bucket.identity(slot).is_some_and(is_live) {
                let (x, y) = bucket.position(slot);
                return window.contains(x, y);
            }
            // It moved between the two reads; the index has its new slot.
        }
    }
}

impl Drop for Worker<'_> {
    /// Passes entries that are not yet free to the next worker.
    fn drop(&mut self) {
        let mut leftover = self.grid.leftover();
        leftover.retired.extend(self.retired.drain(..));
        leftover.free_buckets.append(&mut self.free_buckets);
        drop(leftover);
        self.grid.grace.leave(self.number);
    }
}

/// Removes repeated objects from `found[start..]`, which is in ascending order.
fn dedup_from(found: &mut Vec<u64>, start: usize) {
    let mut kept = start + 1;
    for at in start + 1..found.len() {
        if found[at] != found[kept - 1] {
            found[kept] = found[at];
            kept += 1;
        }
    }
    found.truncate(kept);
}
