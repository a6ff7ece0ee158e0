//! Launches for regions that evaluate every fix; part of stage subscription.
//!
//! One safe function per kernel.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::AnswerRecord;

use super::argument_layout::{Pointer, TrajectoriesArgument};
use super::dispatch::CycleRows;
use super::memory::DeviceBuffer;
use super::module::{Kernels, enqueue};

impl TrajectoriesArgument {
    /// No region evaluates every fix.
    pub(crate) const NONE: Self = Self { boxes: Pointer::NULL, turn: 0, reserved: 0 };

    /// Boxes of a number of slots; columns more than `turn` apart may be nearer across the
    /// antimeridian.
    pub(crate) fn new(boxes: &DeviceBuffer<u32>, slots: usize, turn: u32) -> Self {
        assert!(boxes.len() >= 4 * slots, "a box a slot");
        Self { boxes: boxes.pointer(), turn, reserved: 0 }
    }
}

impl Kernels {
    /// Widens the boxes of a cycle's objects by the positions of its rows.
    pub(crate) fn trajectories_widen(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        boxes: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let CycleRows { input, rules, rows, index, slots, .. } = *cycle;
        assert!(boxes.len() >= 4 * slots as usize, "a box a slot");
        enqueue!(self.trajectories_widen, stream, rules.rows; input, rules, rows, index, boxes)
    }

    /// Marks the arrivals of objects whose bit in `passing` is set; writes 0 after the last mark.
    pub(crate) fn trajectories_mark(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        passing: &DeviceBuffer<u32>,
        marks: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        let CycleRows { rules, rows, index, slots, .. } = *cycle;
        let length = rules.rows;
        assert!(marks.len() > length as usize, "a mark an arrival and one more");
        assert!(32 * passing.len() >= slots as usize, "a bit a slot");
        enqueue!(self.trajectories_mark, stream, u64::from(length) + 1; length, rows, index,
            passing, marks)
    }

    /// Writes `length` marked arrivals from the `first` on.
    pub(crate) fn trajectories_rows(
        &self,
        stream: &CudaStream,
        cycle: &CycleRows,
        places: &DeviceBuffer<u32>,
        rows: &DeviceBuffer<AnswerRecord>,
        first: u32,
        length: u32,
    ) -> Result<(), EngineError> {
        let CycleRows { input, rules, .. } = *cycle;
        assert!(places.len() > rules.rows as usize, "a place an arrival and one more");
        assert!(rows.len() >= length as usize, "capacity for all");
        enqueue!(self.trajectories_rows, stream, rules.rows; input, rules, places, first, length,
            rows)
    }
}
