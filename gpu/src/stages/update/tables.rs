//! Scratch of stage update: keys, spans and holes of moves; bins and counts of a rebuild. One set
//! serves both grids.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Entry, Grid};

use crate::launch::{
    CellCounts, Clustered, DeviceBuffer, Memory, Outgrown, Partition, Scratch, Span,
};

/// See the file's head; grows, never shrinks.
#[derive(Debug)]
pub(crate) struct Tables {
    pub(crate) keys: DeviceBuffer<u32>,
    pub(crate) slots: DeviceBuffer<u32>,
    sorted_keys: DeviceBuffer<u32>,
    sorted_slots: DeviceBuffer<u32>,
    holes: DeviceBuffer<u32>,
    spans: DeviceBuffer<Span>,
    /// Objects by bin of a rebuild, and the sums before them.
    pub(crate) bins: DeviceBuffer<u32>,
    pub(crate) bin_starts: DeviceBuffer<u32>,
    /// The entries by bin.
    by_bin: DeviceBuffer<Entry>,
    /// By cell: objects, capacity, place of the first entry.
    pub(crate) counts: DeviceBuffer<u32>,
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
            bins: DeviceBuffer::new(memory, Partition::SUMS as usize)?,
            bin_starts: DeviceBuffer::new(memory, Partition::SUMS as usize)?,
            by_bin: DeviceBuffer::new(memory, 1)?,
            counts: DeviceBuffer::new(memory, 1)?,
            capacities: DeviceBuffer::new(memory, 1)?,
            starts: DeviceBuffer::new(memory, 1)?,
            squares: DeviceBuffer::new(memory, 1)?,
            outgrown: DeviceBuffer::new(memory, 1)?,
            scratch: Scratch::new(memory)?,
        })
    }

    /// Fits the lists of `length` keys of moves in `cells` cells.
    pub(crate) fn fit_keys(&mut self, length: usize, cells: usize) -> Result<(), EngineError> {
        for list in [
            &mut self.keys,
            &mut self.slots,
            &mut self.sorted_keys,
            &mut self.sorted_slots,
            &mut self.holes,
        ] {
            list.fit(length)?;
        }
        self.spans.fit(cells)?;
        self.capacities.fit(cells)?;
        Ok(())
    }

    /// Fits the lists of a rebuild of `cells` cells with the entries of `slots` slots.
    pub(crate) fn fit_rebuild(&mut self, slots: usize, cells: usize) -> Result<(), EngineError> {
        self.by_bin.fit(slots)?;
        for list in [&mut self.counts, &mut self.capacities, &mut self.starts] {
            list.fit(cells)?;
        }
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

    /// A rebuild of `grid` from the newest positions.
    pub(crate) fn partition<'a>(
        &'a self,
        grid: &'a Grid,
        current: &'a DeviceBuffer<Entry>,
        slots: u32,
    ) -> Partition<'a> {
        let (bins, starts, sorted) = (&self.bins, &self.bin_starts, &self.by_bin);
        Partition { grid, current, slots, bins, starts, sorted }
    }

    pub(crate) fn cell_counts(&self) -> CellCounts<'_> {
        CellCounts { counts: &self.counts, capacities: &self.capacities, starts: &self.starts }
    }
}
