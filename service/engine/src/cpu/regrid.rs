//! Chooses the grid from the data, and again when the data has changed. The number of objects gives
//! the number of cells; the positions of nearly all objects give the extent.
//!
//! Rebuilding never changes an answer. It happens when objects have grown by half or fallen to a
//! quarter, or when overflow buckets have doubled since the grid was chosen, so its cost is a
//! constant share of the work that caused it.

use rayon::prelude::*;

use super::band::Band;
use super::grid::Grid;
use super::record::NO_OBJECT;
use super::shard::{SHARDS, SLOT_BITS, Shard};
use super::update::CellOperation;
use crate::extent;
use crate::space::QuantaRect;
use crate::space::Space;

/// Average objects per cell of a new grid. Measured: 3 to 6 are equally fast; fewer cost memory,
/// more cause overflow.
const CELL_OBJECTS: u64 = 5;
const CELLS_MIN: u64 = 64;
const CELLS_MAX: u64 = 1 << 29;
/// Maximum number of columns or rows of a grid. It keeps the cells of a band below 2^30.
const SIDE_MAX: f64 = 32_768.0;
/// Number of records in the sample that determines the extent.
const SAMPLE: usize = 1 << 14;
/// Number of shards whose insertions a rebuild lists at a time, which bounds its memory.
const REBUILD_SHARDS: usize = 8;

/// The values that decide when the present grid is replaced.
#[derive(Debug)]
pub(super) struct Chosen {
    objects: u64,
    overflow_max: u64,
}

impl Chosen {
    pub(super) fn new() -> Self {
        Self { objects: 0, overflow_max: CELLS_MIN }
    }

    /// Whether the grid no longer suits the data.
    pub(super) fn is_outgrown(&self, objects: u64, bands: &[Band]) -> bool {
        let overflow: u64 = bands.iter().map(|band| band.overflow() as u64).sum();
        objects > self.objects + self.objects / 2 + CELLS_MIN
            || objects < self.objects / 4
            || overflow > self.overflow_max
    }
}

/// Chooses a grid for the objects of `shards` and fills it.
pub(super) fn rebuild(space: &Space, shards: &mut [Shard]) -> (Grid, Vec<Band>, Chosen) {
    let objects: u64 = shards.iter().map(Shard::objects).sum();
    let grid = choose(space, shards, objects);
    let mut bands: Vec<Band> = (0..grid.bands()).map(|band| Band::new(&grid, band)).collect();
    for (group, members) in shards.chunks_mut(REBUILD_SHARDS).enumerate() {
        members.par_iter_mut().enumerate().for_each(|(at, shard)| {
            shard.list_insertions(&grid, group * REBUILD_SHARDS + at);
        });
        bands
            .par_iter_mut()
            .enumerate()
            .for_each(|(number, band)| band.update(&grid, members, number));
        for shard in members {
            shard.operations = Vec::new();
        }
    }
    let overflow: u64 = bands.iter().map(|band| band.overflow() as u64).sum();
    let chosen = Chosen { objects, overflow_max: 2 * overflow + grid.cells() / 8 + CELLS_MIN };
    (grid, bands, chosen)
}

impl Shard {
    /// Lists an insertion for every object, as if all were new.
    fn list_insertions(&mut self, grid: &Grid, number: usize) {
        self.operations.clear();
        self.operations.resize_with(grid.bands(), Vec::new);
        let base = (number as u32) << SLOT_BITS;
        for slot in 0..self.records.len() {
            let record = self.records[slot];
            if record.object != NO_OBJECT {
                let (x, y) = (record.x, record.y);
                self.list(grid.locate(x, y), CellOperation::insert(base | slot as u32, x, y));
            }
        }
    }
}

/// Maximum number of bands: more than cores, to balance crowded bands, but few, as each band adds a
/// list to every shard. Measured on 2 cores: 16 bands take a fifth less time than 64.
fn bands_max() -> u32 {
    (rayon::current_num_threads() as u32 * 8).clamp(16, 64)
}

fn choose(space: &Space, shards: &[Shard], objects: u64) -> Grid {
    let (extent, bands) = (sampled_extent(space, shards), bands_max());
    let cells = (objects / CELL_OBJECTS).clamp(CELLS_MIN, CELLS_MAX) as f64;
    let (height, width) = extent::height_and_width(space, &extent);
    let rows = (cells * height / width).sqrt().clamp(1.0, SIDE_MAX.min(cells));
    let columns = (cells / rows).clamp(1.0, SIDE_MAX);
    Grid::new(extent, columns.ceil() as u32, rows.ceil() as u32, bands)
}

/// The extent of a sample of the records.
fn sampled_extent(space: &Space, shards: &[Shard]) -> QuantaRect {
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for shard in shards {
        let step = (shard.records.len() * SHARDS / SAMPLE).max(1);
        for record in shard.records.iter().step_by(step) {
            if record.object != NO_OBJECT {
                xs.push(record.x);
                ys.push(record.y);
            }
        }
    }
    extent::extent(space, &mut xs, &mut ys)
}
