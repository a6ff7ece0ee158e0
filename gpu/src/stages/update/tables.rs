//! Scratch of stage update: keys, spans, holes. One set serves both grids.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;

use crate::launch::{Clustered, DeviceBuffer, Memory, Outgrown, Scratch, Span};

/// See the file's head; grows, never shrinks.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) keys: DeviceBuffer<u32>,
    pub(crate) slots: DeviceBuffer<u32>,
    sorted_keys: DeviceBuffer<u32>,
    sorted_slots: DeviceBuffer<u32>,
    holes: DeviceBuffer<u32>,
    pub(crate) spans: DeviceBuffer<Span>,
    pub(crate) capacities: DeviceBuffer<u32>,
    pub(crate) starts: DeviceBuffer<u32>,
    pub(crate) squares: DeviceBuffer<u64>,
    pub(crate) outgrown: DeviceBuffer<Outgrown>,
    pub(crate) scratch: Scratch,
}

impl Tables {
    pub(crate) fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self {
            keys: DeviceBuffer::new(memory, 1)?,
            slots: DeviceBuffer::new(memory, 1)?,
            sorted_keys: DeviceBuffer::new(memory, 1)?,
            sorted_slots: DeviceBuffer::new(memory, 1)?,
            holes: DeviceBuffer::new(memory, 1)?,
            spans: DeviceBuffer::new(memory, 1)?,
            capacities: DeviceBuffer::new(memory, 1)?,
            starts: DeviceBuffer::new(memory, 1)?,
            squares: DeviceBuffer::new(memory, 1)?,
            outgrown: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    pub(crate) fn fit_keys(&mut self, length: usize) -> Result<(), EngineError> {
        for list in [
            &mut self.keys,
            &mut self.slots,
            &mut self.sorted_keys,
            &mut self.sorted_slots,
            &mut self.holes,
        ] {
            list.fit(length)?;
        }
        Ok(())
    }

    pub(crate) fn fit_cells(&mut self, length: usize) -> Result<(), EngineError> {
        self.spans.fit(length)?;
        self.capacities.fit(length)?;
        self.starts.fit(length)?;
        Ok(())
    }

    /// Sorts the first `length` keys with their slots.
    pub(crate) fn sort(
        &mut self,
        stream: &CudaStream,
        length: u32,
        bits: u32,
    ) -> Result<(), EngineError> {
        let (from, to) = ((&self.keys, &self.slots), (&self.sorted_keys, &self.sorted_slots));
        self.scratch.sort_pairs(stream, from, to, length, bits)
    }

    /// The first `length` sorted keys and what belongs to them.
    pub(crate) fn sorted(&self, length: u32) -> Clustered<'_> {
        Clustered {
            keys: &self.sorted_keys,
            slots: &self.sorted_slots,
            length,
            spans: &self.spans,
            holes: &self.holes,
            outgrown: &self.outgrown,
            // Only rebuilds use capacities.
            outgrown_cells: &self.capacities,
        }
    }
}
