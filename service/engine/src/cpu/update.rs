//! Stage `update`: each band applies the cell operations that the shards listed for it.
//!
//! A band applies the lists in the order of the shards, each list from its start. One shard lists
//! all operations on an object, so a band applies them in the order in which they were listed.
//! A band is updated by one thread.

use super::band::Band;
use super::grid::Grid;
use super::prefetch;
use super::shard::Shard;

/// Number of operations ahead for which cells are prefetched: enough to hide a cache miss at some
/// 20 ns per operation.
const LOOK_AHEAD: usize = 12;
const DELETE: u32 = 1 << 30;
const CELL: u32 = (1 << 30) - 1;

/// One change of one cell.
#[derive(Clone, Copy, Debug)]
pub(super) struct CellOperation {
    /// Cell inside its band; one upper bit is the kind.
    cell: u32,
    slot: u32,
    x: i32,
    y: i32,
}

impl CellOperation {
    pub(super) fn insert(slot: u32, x: i32, y: i32) -> Self {
        Self { cell: 0, slot, x, y }
    }

    /// A deletion; `x` and `y` are the object's position, which locates it in a refined cell.
    pub(super) fn delete(slot: u32, x: i32, y: i32) -> Self {
        Self { cell: DELETE, slot, x, y }
    }

    pub(super) fn in_cell(self, cell: u32) -> Self {
        debug_assert!(cell <= CELL, "cells of a band fit 30 bits");
        Self { cell: self.cell | cell, ..self }
    }
}

impl Band {
    /// Applies what the shards listed for this band, number `band`.
    pub(super) fn update(&mut self, grid: &Grid, shards: &[Shard], band: usize) {
        for shard in shards {
            if let Some(operations) = shard.operations.get(band) {
                self.apply(grid, operations);
            }
        }
    }

    fn apply(&mut self, grid: &Grid, operations: &[CellOperation]) {
        for ahead in &operations[..operations.len().min(LOOK_AHEAD)] {
            prefetch::read(&self.buckets, (ahead.cell & CELL) as usize);
        }
        for (at, operation) in operations.iter().enumerate() {
            if let Some(ahead) = operations.get(at + LOOK_AHEAD) {
                prefetch::read(&self.buckets, (ahead.cell & CELL) as usize);
            }
            let cell = (operation.cell & CELL) as usize;
            let (slot, x, y) = (operation.slot, operation.x, operation.y);
            if operation.cell & DELETE != 0 {
                self.delete(grid, cell, slot, x, y);
            } else {
                self.insert(grid, cell, slot, x, y);
            }
        }
    }
}
