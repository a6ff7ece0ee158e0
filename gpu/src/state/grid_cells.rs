//! One of the two grids: cells with spare capacity, updated every second cycle.
//! `stages/update/rebuild.rs` brings it up to a cycle.

use shoal_engine::EngineError;
use shoal_engine::layout::{Cell, Entry, Grid};

use crate::launch::{CellsArgument, DeviceBuffer, Memory};

/// Cells and entries of one grid.
#[derive(Debug)]
pub(crate) struct GridCells {
    pub(crate) grid: Grid,
    pub(crate) cells: DeviceBuffer<Cell>,
    pub(crate) entries: DeviceBuffer<Entry>,
    /// The first entry after all cells, and the mean number of objects of a cell.
    pub(crate) spare_first: DeviceBuffer<u64>,
    pub(crate) mean: f32,
    /// By slot: the place of its entry; valid only when `is_located`.
    pub(crate) places: DeviceBuffer<u32>,
    pub(crate) is_located: bool,
    /// No cell has spare capacity: reads are fastest, but moves cannot be applied.
    pub(crate) is_tight: bool,
    /// The cycle that it was updated to; `None` when it must be rebuilt.
    pub(crate) epoch: Option<u64>,
}

impl GridCells {
    /// A grid without objects, which no cycle updated.
    pub(crate) fn new(memory: &Memory, grid: &Grid) -> Result<Self, EngineError> {
        Ok(Self {
            grid: *grid,
            cells: DeviceBuffer::new(memory, 1)?,
            entries: DeviceBuffer::new(memory, 1)?,
            spare_first: DeviceBuffer::new(memory, 1)?,
            mean: 0.0,
            places: DeviceBuffer::new(memory, 1)?,
            is_located: false,
            is_tight: false,
            epoch: None,
        })
    }

    pub(crate) fn argument(&self) -> CellsArgument {
        CellsArgument::new(&self.grid, &self.cells, &self.entries, &self.places)
    }

    /// Number of cells.
    pub(crate) fn length(&self) -> u32 {
        self.grid.columns * self.grid.rows
    }

    /// Whether the places suffice for `capacity` slots.
    pub(crate) fn has_places(&self, capacity: usize) -> bool {
        self.is_located && self.places.len() >= capacity
    }
}
