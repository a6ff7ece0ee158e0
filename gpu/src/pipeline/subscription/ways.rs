//! Which rows of a cycle does the host read, where regions judge every fix?
//!
//! Those of the objects whose way may have led through a cell of such a region: the device keeps
//! the box of each object's rows, tells whom it looks at (`touched.rs`), and gives their rows
//! alone.

use cudarc::driver::CudaStream;
use shoal_engine::layout::Answered;
use shoal_engine::{EngineError, Space, space};

use super::pieces::{Piece, Pieces};
use crate::launch::{CycleRows, DeviceBuffer, Kernels, Memory, TrajectoriesArgument};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Trajectories {
    /// How far apart columns may be whose shorter way is the one between them.
    turn: u32,
    /// By slot the box of its rows.
    boxes: DeviceBuffer<u32>,
    /// Slots that there is room for.
    slots: usize,
    /// By slot a bit: the host looks at its object.
    passing: DeviceBuffer<u32>,
    /// One of each marked arrival.
    rows: Pieces,
}

impl Trajectories {
    pub(super) fn new(memory: &Memory, space: &Space) -> Result<Self, EngineError> {
        let turn = if space.is_geographic() { space::HALF_TURN.unsigned_abs() } else { u32::MAX };
        let numbers = || DeviceBuffer::new(memory, 1);
        Ok(Self {
            turn,
            boxes: numbers()?,
            slots: 0,
            passing: numbers()?,
            rows: Pieces::new(memory, 1)?,
        })
    }

    /// Makes room for a cycle with so many arrivals, on so many slots.
    pub(super) fn fit(&mut self, arrivals: usize, slots: usize) -> Result<(), EngineError> {
        self.slots = slots;
        self.boxes.fit(4 * slots)?;
        self.passing.fit(slots.div_ceil(32))?;
        self.rows.fit(arrivals)
    }

    /// Queues finding the boxes of a cycle's rows.
    pub(super) fn widen(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        self.boxes.fill(stream, 0xFF, 4 * self.slots)?;
        self.passing.fill(stream, 0, self.slots.div_ceil(32))?;
        kernels.trajectories_widen(stream, cycle, &self.boxes)
    }

    /// Where objects are marked whose way leads through a region, and what they are marked in.
    pub(super) fn argument(&self) -> (TrajectoriesArgument, &DeviceBuffer<u32>) {
        (TrajectoriesArgument::new(&self.boxes, self.slots, self.turn), &self.passing)
    }

    /// The rows and removals of all marked objects in the order in which they arrived. Waits.
    pub(super) fn take(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        cycle: &CycleRows,
    ) -> Result<Vec<Answered>, EngineError> {
        kernels.trajectories_mark(stream, cycle, &self.passing, &self.rows.marks)?;
        self.rows.count(stream, cycle.rules.rows)?;
        let write = |piece: Piece<'_>| {
            let rows = (piece.records, piece.first, piece.length);
            kernels.trajectories_rows(stream, cycle, piece.places, rows)
        };
        self.rows.take(stream, write, |row| row[0])
    }
}
