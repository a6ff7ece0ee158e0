//! The state of a fleet on the device after a cycle, and the host's data about it.

use std::sync::Arc;

use cudarc::driver::CudaStream;
use shoal_engine::layout::Grid;
use shoal_engine::{EngineError, HashKey};

use super::grid_cells::GridCells;
use super::records::Records;
use super::regions::continuous_queries::ContinuousQueries;
use crate::launch::{DeviceBuffer, Kernels, Memory, ViewArgument};

/// See the file's head.
#[derive(Debug)]
pub(crate) struct FleetState {
    /// The running cycle, or the last one.
    pub(crate) epoch: u64,
    /// The fleet's clock after the last cycle that dispatch has ended.
    pub(crate) clock_ms: i64,
    /// Number of objects after that cycle.
    pub(crate) objects: u64,
    pub(crate) records: Records,
    /// By cycle modulo 3: dispatch writes one list while an update reads two.
    moved: [MovedSlots; 3],
    /// By cycle modulo 2: queries read one grid while the other is updated.
    pub(crate) grids: [GridCells; 2],
    /// The error of a grid that could not be built for lack of memory.
    pub(crate) grid_error: Option<EngineError>,
    pub(crate) queries: ContinuousQueries,
}

/// The slots whose position a cycle changed.
#[derive(Debug)]
pub(crate) struct MovedSlots {
    pub(crate) slots: DeviceBuffer<u32>,
    /// Number of slots; the list has room for more.
    pub(crate) length: u32,
}

impl MovedSlots {
    fn new(memory: &Memory) -> Result<Self, EngineError> {
        Ok(Self { slots: DeviceBuffer::new(memory, 1)?, length: 0 })
    }
}

impl FleetState {
    /// A fleet without objects; its two grids have the cells of `grid` and are not built yet.
    pub(crate) fn new(
        memory: &Memory,
        kernels: &Arc<Kernels>,
        stream: &CudaStream,
        key: HashKey,
        grid: &Grid,
    ) -> Result<Self, EngineError> {
        Ok(Self {
            epoch: 0,
            clock_ms: 0,
            objects: 0,
            records: Records::new(memory, kernels, stream, key)?,
            moved: [MovedSlots::new(memory)?, MovedSlots::new(memory)?, MovedSlots::new(memory)?],
            grids: [GridCells::new(memory, grid)?, GridCells::new(memory, grid)?],
            grid_error: None,
            queries: ContinuousQueries::new(memory, kernels, key)?,
        })
    }

    /// The slots that moved in one of the last three cycles.
    pub(crate) fn moved(&self, epoch: u64) -> &MovedSlots {
        &self.moved[epoch as usize % 3]
    }

    /// As [`Self::moved`]; the list of the next cycle replaces that of two cycles ago.
    pub(crate) fn moved_mut(&mut self, epoch: u64) -> &mut MovedSlots {
        &mut self.moved[epoch as usize % 3]
    }

    /// The state after cycle `epoch`, the running one or the previous one, which queries read; ages
    /// are relative to `clock_ms`. An error if its grid lacked memory.
    pub(crate) fn view(&self, epoch: u64, clock_ms: i64) -> Result<ViewArgument, EngineError> {
        let grid = &self.grids[epoch as usize % 2];
        if grid.epoch != Some(epoch) {
            let unknown = || EngineError::Device("a grid was not updated".to_owned());
            return Err(self.grid_error.clone().unwrap_or_else(unknown));
        }
        Ok(ViewArgument::new(
            &grid.argument(),
            grid.is_tight,
            self.records.argument(),
            epoch,
            clock_ms,
        ))
    }
}
