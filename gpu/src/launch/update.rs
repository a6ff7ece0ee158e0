//! Launches of stage update that apply moves.
//!
//! One safe function per kernel, or per sequence of kernels that always run together.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::Entry;

use super::argument_layout::{
    CellsArgument, MovedArgument, Outgrown, RecordsArgument, Span, SpareArgument,
};
use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, WARP, enqueue};

/// Threads of a kernel that takes its work from a list on the device.
const LIST_THREADS: u64 = 1024 * BLOCK_THREADS as u64;

/// Operations sorted by (cell, kind), with their lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clustered<'a> {
    pub(crate) keys: &'a DeviceBuffer<u32>,
    pub(crate) slots: &'a DeviceBuffer<u32>,
    pub(crate) length: u32,
    /// By cell.
    pub(crate) spans: &'a DeviceBuffer<Span>,
    /// By key.
    pub(crate) holes: &'a DeviceBuffer<u32>,
    /// Cells that outgrow their capacity: their number, and a list.
    pub(crate) outgrown: &'a DeviceBuffer<Outgrown>,
    pub(crate) outgrown_cells: &'a DeviceBuffer<u32>,
}

impl Clustered<'_> {
    fn check(&self) {
        let length = self.length as usize;
        assert!(self.keys.len().min(self.slots.len()) >= length, "a slot a key");
        assert!(self.holes.len() >= length, "capacity for a hole a key");
    }
}

impl Kernels {
    /// Writes the keys of moves, two for each slot that moved. Updates the newest positions to the
    /// cycle.
    pub(crate) fn update_keys(
        &self,
        stream: &CudaStream,
        cells: &CellsArgument,
        (moved, records): (&MovedArgument, &RecordsArgument),
        current: &DeviceBuffer<Entry>,
        (keys, slots): (&DeviceBuffer<u32>, &DeviceBuffer<u32>),
    ) -> Result<(), EngineError> {
        assert!(keys.len().min(slots.len()) >= 2 * moved.length() as usize, "two keys a slot");
        enqueue!(self.update_keys, stream, moved.length(); cells, moved, records, current, keys,
            slots)
    }

    /// Updates the newest positions to the cycle.
    pub(crate) fn update_publish(
        &self,
        stream: &CudaStream,
        moved: &MovedArgument,
        records: &RecordsArgument,
        current: &DeviceBuffer<Entry>,
    ) -> Result<(), EngineError> {
        enqueue!(self.update_publish, stream, moved.now_length(); moved, records, current)
    }

    /// Applies sorted operations, unless a cell that outgrows its capacity cannot move.
    pub(crate) fn update_apply(
        &self,
        stream: &CudaStream,
        cells: &CellsArgument,
        spare: &SpareArgument,
        current: &DeviceBuffer<Entry>,
        sorted: &Clustered<'_>,
    ) -> Result<(), EngineError> {
        sorted.check();
        assert!(sorted.spans.len() >= cells.length(), "a span a cell");
        assert!(sorted.outgrown_cells.len() >= cells.length(), "any cell may outgrow its capacity");
        let (length, threads) = (sorted.length, sorted.length);
        enqueue!(self.update_spans, stream, threads; sorted.keys, length, sorted.spans)?;
        enqueue!(self.update_holes, stream, threads; cells, sorted.keys, sorted.slots, length,
            sorted.spans, sorted.holes, sorted.outgrown, sorted.outgrown_cells)?;
        enqueue!(self.update_grow, stream, LIST_THREADS; cells, sorted.spans, sorted.outgrown,
            sorted.outgrown_cells, spare)?;
        enqueue!(self.update_insert, stream, threads; cells, current, sorted.keys, sorted.slots,
            length, sorted.spans, sorted.holes, sorted.outgrown)?;
        enqueue!(self.update_close, stream, threads; cells, sorted.keys, length, sorted.spans,
            sorted.holes, sorted.outgrown)
    }

    /// Records the place of every object.
    pub(crate) fn update_locate(
        &self,
        stream: &CudaStream,
        cells: &CellsArgument,
        length: u32,
    ) -> Result<(), EngineError> {
        assert!(length as usize <= cells.length(), "every cell is in range");
        enqueue!(self.update_locate, stream, u64::from(length) * WARP; cells, length)
    }

    /// Copies every `step`-th newest position.
    pub(crate) fn update_sample(
        &self,
        stream: &CudaStream,
        current: &DeviceBuffer<Entry>,
        slots: u32,
        step: u32,
        sample: &DeviceBuffer<Entry>,
    ) -> Result<(), EngineError> {
        assert!(current.len() >= slots as usize, "every slot has a position");
        let length = sample.len() as u32;
        enqueue!(self.update_sample, stream, length; current, slots, step, sample, length)
    }
}
