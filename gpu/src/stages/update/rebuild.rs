//! Brings a grid up to a cycle: rebuilds it from the newest positions, or applies the moves.
//!
//! Both grids use the same tables, one after the other, on the update stream.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{Entry, Grid};

use super::tables::Tables;
use crate::launch::{
    Clustered, DeviceBuffer, Kernels, MovedArgument, Partition, RecordsArgument, SpareArgument,
    fault,
};
use crate::state::grid_cells::GridCells;

/// A list of entries that grows gets its length divided by this number as spare entries.
const ENTRIES_SPARE: usize = 16;
/// Spare entries after the cells of a small grid.
const ENTRIES_MIN: usize = 4096;

impl GridCells {
    /// Rebuilds the grid with the cells of `grid` from the newest positions of `slots` slots,
    /// `objects` of which are alive; tight or with spare capacity in every cell.
    pub(crate) fn rebuild(
        &mut self,
        kernels: &Arc<Kernels>,
        stream: &CudaStream,
        tables: &mut Tables,
        (grid, is_tight): (&Grid, bool),
        current: &DeviceBuffer<Entry>,
        (slots, objects): (u32, u64),
    ) -> Result<(), EngineError> {
        self.grid = *grid;
        self.epoch = None;
        let length = self.length();
        let mean = (objects as f64 / f64::from(length)) as f32;
        self.mean = mean;
        tables.fit_rebuild(slots as usize, length as usize)?;
        self.cells.fit(length as usize)?;
        self.is_located = false;
        self.is_tight = is_tight;
        tables.bins.fill(stream, 0, Partition::SUMS as usize)?;
        tables.counts.fill(stream, 0, length as usize)?;
        tables.squares.fill(stream, 0, 1)?;
        let partition = tables.partition(grid, current, slots);
        kernels.rebuild_bins(stream, &partition)?;
        tables.scratch.sum_before(stream, &tables.bins, &tables.bin_starts, Partition::SUMS)?;
        let partition = tables.partition(grid, current, slots);
        kernels.rebuild_counts(stream, &partition, &tables.counts)?;
        let numbers = tables.cell_counts();
        kernels.rebuild_capacities(stream, &numbers, length, (mean, is_tight), &tables.squares)?;
        tables.scratch.sum_before(stream, &tables.capacities, &tables.starts, length)?;
        match is_tight {
            true => self.entries.fit_with(slots as usize, slots as usize / ENTRIES_SPARE)?,
            false => self.fit_entries(stream, tables, objects as usize)?,
        };
        let (partition, numbers) = (tables.partition(grid, current, slots), tables.cell_counts());
        kernels.rebuild_fill(stream, &self.argument(), &partition, &numbers, &self.spare_first)
    }

    /// Fits the entries to the capacities of all cells plus a quarter of the number of objects, for
    /// cells that outgrow their capacity. Waits for the sum of the capacities, unless the entries
    /// suffice for any sum.
    fn fit_entries(
        &mut self,
        stream: &CudaStream,
        tables: &Tables,
        objects: usize,
    ) -> Result<bool, EngineError> {
        let length = self.length();
        let outgrown = objects / 4 + ENTRIES_MIN;
        if capacities_max(length.into(), objects as f64) + outgrown <= self.entries.len() {
            return Ok(false);
        }
        let (mut start, mut capacity) = ([0], [0]);
        tables.starts.download(stream, length as usize - 1, &mut start)?;
        tables.capacities.download(stream, length as usize - 1, &mut capacity)?;
        stream.synchronize().map_err(fault)?;
        let needed = (start[0] + capacity[0]) as usize + outgrown;
        self.entries.fit_with(needed, needed / ENTRIES_SPARE)
    }

    /// Applies the moves. If a cell that outgrew its capacity could not move, the device sets a
    /// flag and nothing is applied.
    pub(crate) fn apply(
        &mut self,
        kernels: &Arc<Kernels>,
        stream: &CudaStream,
        tables: &mut Tables,
        current: &DeviceBuffer<Entry>,
        moved: &MovedArgument,
        records: &RecordsArgument,
    ) -> Result<(), EngineError> {
        let keys = 2 * moved.length();
        tables.fit_keys(keys as usize, self.length() as usize)?;
        tables.outgrown.fill(stream, 0, 1)?;
        let unsorted = (&tables.keys, &tables.slots);
        kernels.update_keys(stream, &self.argument(), (moved, records), current, unsorted)?;
        tables.sort(stream, keys, bits_of(2 * self.length() + 1))?;
        let sorted: Clustered<'_> = tables.sorted(keys);
        let spare = SpareArgument::new(&self.spare_first, &self.entries, self.mean);
        kernels.update_apply(stream, &self.argument(), &spare, current, &sorted)
    }

    /// Records the place of every object, for `capacity` slots.
    pub(crate) fn locate(
        &mut self,
        kernels: &Arc<Kernels>,
        stream: &CudaStream,
        capacity: usize,
    ) -> Result<(), EngineError> {
        self.places.fit(capacity)?;
        self.places.fill(stream, 0xFF, self.places.len())?;
        kernels.update_locate(stream, &self.argument(), self.length())?;
        self.is_located = true;
        Ok(())
    }
}

/// Bits in which every number below `end` differs from all ones.
fn bits_of(end: u32) -> u32 {
    (32 - end.leading_zeros()).max(1)
}

/// A bound of the sum of all capacities. With c objects in a cell and mean m, a capacity is at most
/// max(c, m) + 3 sqrt(max(c, m)) + 2, and the sum of roots is at most the root of cells times the
/// sum.
fn capacities_max(cells: f64, objects: f64) -> usize {
    (2.0 * objects + 3.0 * (cells * 2.0 * objects).sqrt() + 2.0 * cells) as usize + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_ones_sort_behind_every_key() {
        for end in [1_u32, 2, 3, 4, 63, 64, 65, 1 << 20, (1 << 27) + 1] {
            let bits = bits_of(end);
            let ones = if bits == 32 { u32::MAX } else { (1 << bits) - 1 };
            assert!(end - 1 < ones, "{end} in {bits} bits");
        }
    }

    #[test]
    fn capacities_are_bounded() {
        for counts in
            [vec![0_u32; 64], vec![10; 1_000], vec![0, 0, 0, 1_000_000], vec![7, 0, 99, 3]]
        {
            let objects: u32 = counts.iter().sum();
            let mean = f64::from(objects) / counts.len() as f64;
            let capacity = |count: &u32| {
                let expected = f64::from(*count).max(mean);
                (expected + 3.0 * expected.sqrt() + 2.0) as usize
            };
            let capacities: usize = counts.iter().map(capacity).sum();
            assert!(
                capacities <= capacities_max(counts.len() as f64, f64::from(objects)),
                "{counts:?}"
            );
        }
    }
}
