//! The grid: cells, buckets, secondary index, and the shared state of workers.
//!
//! `worker.rs` changes and reads it, `stream.rs` runs the workers.

use std::sync::{Mutex, PoisonError};

use shoal_engine::QuantaRect;

use super::arena::Arena;
use super::bucket::{BUCKET_LINES_MAX, Line, bucket_objects};
use super::cells::Cells;
use super::grace::Grace;
use super::index::Index;
use super::stream::Workers;
use super::worker::{Leftover, Worker};

/// Grid sides up to this number keep cell numbers below half of all bucket numbers.
const SIDE_MAX: u32 = 1 << 15;

/// The tuned parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Cells along each axis, 1 to 32,768.
    pub(crate) side: u32,
    /// Cache lines of a bucket, 1 to 16.
    pub(crate) bucket_lines: usize,
}

impl Layout {
    /// Capacity of one bucket, objects.
    pub(crate) fn bucket_objects(&self) -> usize {
        bucket_objects(self.bucket_lines)
    }

    /// Bytes of the first buckets of all cells.
    pub(super) fn heads_bytes(&self) -> u64 {
        u64::from(self.side).pow(2) * (self.bucket_lines * size_of::<Line>()) as u64
    }
}

/// One report, the 16 bytes of the paper.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Update {
    /// The object, below the grid's number of objects.
    pub(crate) object: u32,
    /// Event time, milliseconds since an origin of the caller's choice, below 2^31.
    pub(crate) time_ms: u32,
    /// Position in quanta.
    pub(crate) x: i32,
    /// Position in quanta.
    pub(crate) y: i32,
}

const _: () = assert!(size_of::<Update>() == 16, "the paper's object");

/// The structure of Sidlauskas, Saltenis, Jensen, "Parallel main-memory indexing for moving-object
/// query and update workloads" (SIGMOD 2012).
///
/// Uniform cells with chains of buckets; a secondary index from object to slot with a latch per
/// object. An update within a cell writes in place; any other writes the new entry first, then
/// marks the old one as logically deleted. A query takes no latch and never waits. It reports every
/// object that is inside during the whole query, none that is outside during the whole query, and
/// no object twice. For an entry marked as deleted, it tests the object's newest position, which it
/// finds through the index.
///
/// Deviations from the paper, in favour of the baseline: deleted entries are freed soon, while the
/// cell is cached (`grace.rs`), not at the object's next report; freed slots are reused instead of
/// moving the cell's last object, which saves a random access to the index; slots are claimed by an
/// atomic bit, so a cell's latch protects only the linking of buckets; look-ups of 32 reports
/// overlap. Objects are never removed, because no experiment removes them.
#[derive(Debug)]
pub(crate) struct PGrid {
    pub(super) cells: Cells,
    pub(super) arena: Arena,
    pub(super) index: Index,
    pub(super) grace: Grace,
    pub(super) leftover: Mutex<Leftover>,
    workers: Workers,
}

impl PGrid {
    /// An empty grid for objects `0..objects` and at most these concurrent workers.
    ///
    /// # Panics
    /// For a layout outside its ranges, and unless some workers apply updates and some answer
    /// queries.
    pub(crate) fn new(bounds: QuantaRect, objects: u32, workers: Workers, layout: Layout) -> Self {
        assert!((1..=SIDE_MAX).contains(&layout.side), "{layout:?}");
        assert!((1..=BUCKET_LINES_MAX).contains(&layout.bucket_lines), "{layout:?}");
        assert!(workers.do_everything(), "{workers:?}");
        let cells = Cells::new(bounds, layout.side);
        Self {
            arena: Arena::new(cells.count(), layout.bucket_lines),
            cells,
            index: Index::new(objects as usize),
            grace: Grace::new(workers.count()),
            leftover: Mutex::default(),
            workers,
        }
    }

    /// The workers that may run at a time.
    pub(super) fn workers(&self) -> Workers {
        self.workers
    }

    /// Frees all retired entries; `&mut` proves that no worker is active.
    pub(crate) fn settle(&mut self) {
        let mut worker = Worker::new(self, 0);
        // The first pass frees slots and unlinks emptied buckets, the second frees these buckets.
        worker.pass();
        worker.pass();
    }

    /// Objects that have reported.
    pub(crate) fn objects(&self) -> u64 {
        self.index.known()
    }

    /// Bytes of cells, buckets and index.
    pub(crate) fn memory_bytes(&self) -> u64 {
        (self.arena.memory_bytes() + self.index.memory_bytes()) as u64
    }

    /// Locks what ended workers left. A panic of another thread leaves it valid.
    pub(super) fn leftover(&self) -> std::sync::MutexGuard<'_, Leftover> {
        self.leftover.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
