//! Launches of stage update that rebuild a grid.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Entry, Grid, REBUILD_BINS, REBUILD_EACH};

use super::argument_layout::CellsArgument;
use super::memory::DeviceBuffer;
use super::module::{Kernel, Kernels, enqueue};

/// The newest positions, and their partition by bins of consecutive cells.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Partition<'a> {
    pub(crate) grid: &'a Grid,
    /// The newest positions by slot, and the number of slots.
    pub(crate) current: &'a DeviceBuffer<Entry>,
    pub(crate) slots: u32,
    /// Objects by bin, and [`REBUILD_BINS`] + 1 sums before them. The partition turns the sums of
    /// the bins into those after them; the last one, of all objects, remains.
    pub(crate) bins: &'a DeviceBuffer<u32>,
    pub(crate) starts: &'a DeviceBuffer<u32>,
    /// The entries of all objects, ordered by bin.
    pub(crate) sorted: &'a DeviceBuffer<Entry>,
}

impl Partition<'_> {
    /// Number of sums of objects: one before each bin, and the sum of all.
    pub(crate) const SUMS: u32 = REBUILD_BINS + 1;

    fn check(&self) {
        assert!(self.current.len().min(self.sorted.len()) >= self.slots as usize, "every slot");
        assert!(self.bins.len().min(self.starts.len()) >= Self::SUMS as usize, "every bin");
    }

    fn cells(&self) -> u32 {
        self.grid.columns * self.grid.rows
    }

    /// Binary logarithm of the number of cells of a bin.
    fn shift(&self) -> u32 {
        shift_of(self.cells())
    }

    /// Threads of a kernel whose blocks take a chunk of entries each.
    fn threads(&self, kernel: &Kernel) -> u32 {
        let block_threads = kernel.block_threads();
        self.slots.div_ceil(block_threads * REBUILD_EACH) * block_threads
    }

    /// The number of objects, on the device.
    fn objects(&self) -> u64 {
        self.starts.address() + u64::from(REBUILD_BINS) * size_of::<u32>() as u64
    }
}

/// Binary logarithm of the least number of cells of a bin so that the bins suffice.
fn shift_of(cells: u32) -> u32 {
    let is_enough = |shift: &u32| cells.saturating_sub(1) >> shift < REBUILD_BINS;
    (0..u32::BITS).find(is_enough).expect("one bin has all cells")
}

/// By cell: objects, capacity, place of the first entry. A rebuild turns the places into those after
/// the last entry.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CellCounts<'a> {
    pub(crate) counts: &'a DeviceBuffer<u32>,
    pub(crate) capacities: &'a DeviceBuffer<u32>,
    pub(crate) starts: &'a DeviceBuffer<u32>,
}

impl CellCounts<'_> {
    fn check(&self, cells: u32) {
        let shortest = self.counts.len().min(self.capacities.len()).min(self.starts.len());
        assert!(shortest >= cells as usize, "numbers of {cells} cells in lists of {shortest}");
    }
}

impl Kernels {
    /// Counts the objects of every bin; the counts are initially zero.
    pub(crate) fn rebuild_bins(
        &self,
        stream: &CudaStream,
        partition: &Partition<'_>,
    ) -> Result<(), EngineError> {
        partition.check();
        let Partition { grid, current, slots, bins, .. } = partition;
        let (shift, threads) = (partition.shift(), partition.threads(&self.rebuild_bins));
        enqueue!(self.rebuild_bins, stream, threads; grid, shift, current, *slots, bins)
    }

    /// Orders the entries by bin and counts the objects of every cell. The counts are initially
    /// zero.
    pub(crate) fn rebuild_counts(
        &self,
        stream: &CudaStream,
        partition: &Partition<'_>,
        counts: &DeviceBuffer<u32>,
    ) -> Result<(), EngineError> {
        partition.check();
        assert!(counts.len() >= partition.cells() as usize, "a count a cell");
        let Partition { grid, current, slots, starts, sorted, .. } = partition;
        let (shift, threads) = (partition.shift(), partition.threads(&self.rebuild_partition));
        enqueue!(self.rebuild_partition, stream, threads; grid, shift, current, *slots, starts,
            sorted)?;
        let threads = partition.threads(&self.rebuild_counts);
        enqueue!(self.rebuild_counts, stream, threads; grid, shift, sorted, partition.objects(),
            counts)
    }

    /// Computes the capacity of every cell from its count.
    pub(crate) fn rebuild_capacities(
        &self,
        stream: &CudaStream,
        cells: &CellCounts<'_>,
        length: u32,
        (mean, is_tight): (f32, bool),
        squares: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        cells.check(length);
        let is_tight = u32::from(is_tight);
        enqueue!(self.rebuild_capacities, stream, length; cells.counts, length, mean, is_tight,
            cells.capacities, squares)
    }

    /// Lays the cells out and fills them. The starts of the cells become their ends.
    pub(crate) fn rebuild_fill(
        &self,
        stream: &CudaStream,
        cells: &CellsArgument,
        partition: &Partition<'_>,
        numbers: &CellCounts<'_>,
        spare_first: &DeviceBuffer<u64>,
    ) -> Result<(), EngineError> {
        partition.check();
        let length = partition.cells();
        numbers.check(length);
        assert!(cells.length() >= length as usize, "every cell is in range");
        let CellCounts { counts, capacities, starts } = numbers;
        enqueue!(self.rebuild_cells, stream, length; cells, counts, starts, capacities, length,
            spare_first)?;
        let (shift, threads) = (partition.shift(), partition.threads(&self.rebuild_fill));
        enqueue!(self.rebuild_fill, stream, threads; cells, shift, partition.sorted,
            partition.objects(), starts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bins_suffice_for_all_cells() {
        for cells in [1, 64, REBUILD_BINS, REBUILD_BINS + 1, 1_250_000, 1 << 26] {
            let shift = shift_of(cells);
            assert!((cells - 1) >> shift < REBUILD_BINS, "{cells} cells, shift {shift}");
            assert!(shift == 0 || (cells - 1) >> (shift - 1) >= REBUILD_BINS, "{cells} cells");
        }
    }
}
