//! Which rows of a cycle does the host read, where regions judge every fix?
//!
//! Those of the objects whose way may have led through a cell of such a region: the device keeps
//! the box of each object's rows, tells whom it looks at (`touched.rs`), and gives their rows
//! alone.

use cudarc::driver::CudaStream;
use shoal_engine::layout::Answered;
use shoal_engine::{EngineError, Space, space};

use crate::launch::{
    CycleRows, DeviceBuffer, Kernels, Memory, PinnedBuffer, Scratch, WaysArgument, fault,
};

/// Rows of one piece.
const PIECE: usize = 1 << 16;

/// See the file's head.
#[derive(Debug)]
pub(super) struct Ways {
    /// How far apart columns may be whose shorter way is the one between them.
    turn: u32,
    /// By slot the box of its rows.
    boxes: DeviceBuffer<u32>,
    /// Slots that there is room for.
    slots: usize,
    /// By slot a bit: the host looks at its object.
    passing: DeviceBuffer<u32>,
    marks: DeviceBuffer<u32>,
    places: DeviceBuffer<u32>,
    rows: DeviceBuffer<Answered>,
    length_here: PinnedBuffer<u32>,
    scratch: Scratch,
}

impl Ways {
    pub(super) fn new(memory: &Memory, space: &Space) -> Result<Self, EngineError> {
        let turn = if space.is_geographic() { space::HALF_TURN.unsigned_abs() } else { u32::MAX };
        let numbers = || DeviceBuffer::new(memory, 1);
        Ok(Self {
            turn,
            boxes: numbers()?,
            slots: 0,
            passing: numbers()?,
            marks: numbers()?,
            places: numbers()?,
            rows: DeviceBuffer::new(memory, 1)?,
            length_here: PinnedBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// Makes room for a cycle with so many arrivals, on so many slots.
    pub(super) fn fit(&mut self, arrivals: usize, slots: usize) -> Result<(), EngineError> {
        self.slots = slots;
        self.boxes.fit(4 * slots)?;
        self.passing.fit(slots.div_ceil(32))?;
        self.marks.fit(arrivals + 1)?;
        self.places.fit(arrivals + 1)?;
        self.rows.fit(PIECE).map(drop)
    }

    /// Queues finding the boxes of a cycle's rows, whose slots are `arrived`.
    pub(super) fn widen(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        cycle: &CycleRows,
        arrived: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        self.boxes.fill(stream, 0xFF, 4 * self.slots)?;
        self.passing.fill(stream, 0, self.slots.div_ceil(32))?;
        kernels.ways_widen(stream, cycle, arrived, &self.boxes)
    }

    /// Where objects are marked whose way leads through a region, and what they are marked in.
    pub(super) fn argument(&self) -> (WaysArgument, &DeviceBuffer<u32>) {
        (WaysArgument::new(&self.boxes, self.slots, self.turn), &self.passing)
    }

    /// The rows and removals of all marked objects in the order in which they arrived. Waits.
    pub(super) fn take(
        &mut self,
        (kernels, stream): (&Kernels, &CudaStream),
        cycle: &CycleRows,
    ) -> Result<Vec<Answered>, EngineError> {
        let arrivals = cycle.rules.rows;
        kernels.ways_mark(stream, cycle, &self.passing, &self.marks)?;
        self.scratch.sum_before(stream, &self.marks, &self.places, arrivals + 1)?;
        let here = &mut self.length_here.as_mut_slice()[..1];
        self.places.download(stream, arrivals as usize, here)?;
        stream.synchronize().map_err(fault)?;
        let length = self.length_here.as_slice()[0];
        let mut rows = vec![Answered::default(); length as usize];
        for (piece, first) in rows.chunks_mut(PIECE).zip((0..length).step_by(PIECE)) {
            let of = (&self.rows, first, piece.len() as u32);
            kernels.ways_rows(stream, cycle, &self.places, of)?;
            self.rows.download(stream, 0, piece)?;
            stream.synchronize().map_err(fault)?;
        }
        Ok(rows)
    }
}
