//! The rows of a cycle that the host reads for queries that evaluate every fix.
//!
//! These are the rows of objects whose trajectory may cross a cell of such a query: the device
//! stores the box of each object's rows, marks the objects to evaluate (`modified_objects.rs`), and
//! returns only their rows.

use cudarc::driver::CudaStream;
use shoal_engine::layout::AnswerRecord;
use shoal_engine::{EngineError, Space, space};

use super::pieces::{Piece, Pieces};
use crate::launch::{CycleRows, DeviceBuffer, Kernels, Memory, TrajectoriesArgument};

/// See the file's head.
#[derive(Debug)]
pub(super) struct Trajectories {
    /// Greatest distance of columns whose shorter path does not cross the antimeridian.
    turn: u32,
    /// By slot: the box of its object's rows.
    boxes: DeviceBuffer<u32>,
    /// Slots that the lists have memory for.
    slots: usize,
    /// By slot: a bit, set if the host evaluates the object.
    passing: DeviceBuffer<u32>,
    /// One record of each marked arrival.
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

    /// Reserves memory for a cycle with `arrivals` arrivals on `slots` slots.
    pub(super) fn fit(&mut self, arrivals: usize, slots: usize) -> Result<(), EngineError> {
        self.slots = slots;
        self.boxes.fit(4 * slots)?;
        self.passing.fit(slots.div_ceil(32))?;
        self.rows.fit(arrivals)
    }

    /// Queues computing the boxes of a cycle's rows.
    pub(super) fn widen(
        &mut self,
        kernels: &Kernels,
        stream: &CudaStream,
        cycle: &CycleRows,
    ) -> Result<(), EngineError> {
        self.boxes.fill(stream, 0xFF, 4 * self.slots)?;
        self.passing.fill(stream, 0, self.slots.div_ceil(32))?;
        kernels.trajectories_widen(stream, cycle, &self.boxes)
    }

    /// The boxes, and the bits that mark objects whose trajectory may cross a region.
    pub(super) fn argument(&self) -> (TrajectoriesArgument, &DeviceBuffer<u32>) {
        (TrajectoriesArgument::new(&self.boxes, self.slots, self.turn), &self.passing)
    }

    /// The rows and removals of all marked objects in order of arrival. Waits.
    pub(super) fn take(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        cycle: &CycleRows,
    ) -> Result<Vec<AnswerRecord>, EngineError> {
        kernels.trajectories_mark(stream, cycle, &self.passing, &self.rows.marks)?;
        self.rows.count(stream, cycle.rules.rows)?;
        let write = |piece: Piece<'_>| {
            kernels.trajectories_rows(
                stream,
                cycle,
                piece.places,
                piece.records,
                piece.first,
                piece.length,
            )
        };
        self.rows.take(stream, write, |row| row[0])
    }
}
