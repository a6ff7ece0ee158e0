//! Runs generated in memory on all cores, and expected answers from a scan of their rows.
//!
//! An object begins in its square of the Hilbert curve, so neighbours in a run are neighbours in
//! the area. It moves with a velocity that changes little between two rows.

use bytes::Bytes;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng as _, SeedableRng as _};
use rayon::prelude::*;
use shoal_codec::{
    Aim, Block, BlockCodec as _, BlockPlan, Budget, CpuCodec, FixColumns, FixRow, Planner,
    SpaceKind, SpaceTag,
};
use shoal_engine::layout::RunZone;
use shoal_gpu::RunSource;
use shoal_history::RunObject;
use shoal_history::limits::BLOCK_ROWS;

use crate::error::BenchmarkError;

/// First time of all partitions.
pub(super) const START_MS: i64 = 1_700_000_000_000;
/// Mean time between two rows of an object, milliseconds.
pub(super) const STEP_MS: i64 = 5_000;
/// Half of a side of the area, quanta of a centimetre: 8,192 squares of a kilometre.
pub(super) const HALF_SIDE: i32 = 8_192 * SQUARE;
const SQUARE: i32 = 100_000;
/// Squares along one side of the area, a power of two.
const SQUARES: u64 = 2 * (HALF_SIDE / SQUARE) as u64;
const TILE_ROWS: usize = 1_024;
/// Consecutive blocks encoded by one planner.
const PLANNED_BLOCKS: usize = 64;
const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Planar, origin_x: 0.0, origin_y: 0.0, quantum: 0.01 };

/// A run in memory.
pub(super) struct MadeRun {
    blocks: Vec<Block>,
    zones: Vec<RunZone>,
    pub(super) objects: Vec<RunObject>,
}

/// Random numbers of one object.
struct Chance(Xoshiro256PlusPlus);

impl Chance {
    /// A number from `-most` to `most`.
    fn around(&mut self, most: i64) -> i64 {
        (self.0.next_u64() % (2 * most as u64 + 1)) as i64 - most
    }
}

/// The column and row of a Hilbert index on a grid of [`SQUARES`] by [`SQUARES`].
fn square(number: u64) -> (u64, u64) {
    let (mut x, mut y, mut rest, mut side) = (0, 0, number, 1);
    while side < SQUARES {
        let right = 1 & (rest / 2);
        let up = 1 & (rest ^ right);
        if up == 0 {
            if right == 1 {
                (x, y) = (side - 1 - x, side - 1 - y);
            }
            (x, y) = (y, x);
        }
        x += side * right;
        y += side * up;
        rest /= 4;
        side *= 2;
    }
    (x, y)
}

/// Calls `take` with the rows of an object.
fn rows_of(object: u64, seed: u64, place: f64, rows: u32, mut take: impl FnMut(FixRow)) {
    let mut chance = Chance(Xoshiro256PlusPlus::seed_from_u64(seed << 32 ^ object));
    let (square_x, square_y) = square((place * (SQUARES * SQUARES) as f64) as u64);
    let mut side = |square: u64| {
        i64::from(SQUARE) * square as i64 - i64::from(HALF_SIDE)
            + (chance.0.next_u64() % SQUARE as u64) as i64
    };
    let (mut x, mut y) = (side(square_x), side(square_y));
    let mut time_ms = START_MS + (chance.0.next_u64() % STEP_MS as u64) as i64;
    let (mut step_x, mut step_y) = (chance.around(5_000), chance.around(5_000));
    for _ in 0..rows {
        take(FixRow::new(object, time_ms, x as i32, y as i32));
        let is_late = chance.0.next_u64().is_multiple_of(4);
        time_ms += STEP_MS + if is_late { chance.around(1_000) } else { 0 };
        step_x += chance.around(300);
        step_y += chance.around(300);
        x += step_x + chance.around(50);
        y += step_y + chance.around(50);
    }
}

fn zone(columns: &FixColumns, first: usize) -> RunZone {
    let rows = first..columns.len().min(first + TILE_ROWS);
    let times = columns.time_ms[rows.clone()].iter().map(|time| (time - START_MS) as u32);
    let range = |side: &[i32]| {
        let (least, most) = (side.iter().min(), side.iter().max());
        (least.copied().unwrap_or(0), most.copied().unwrap_or(0))
    };
    let (x_min, x_max) = range(&columns.x[rows.clone()]);
    let (y_min, y_max) = range(&columns.y[rows]);
    RunZone {
        time_min: times.clone().min().unwrap_or(0),
        time_max: times.max().unwrap_or(0),
        x_min,
        x_max,
        y_min,
        y_max,
    }
}

impl MadeRun {
    /// Makes a run of whole objects.
    pub(super) fn new(
        rows: u32,
        object_rows: u32,
        seed: u64,
        aim: Aim,
    ) -> Result<Self, BenchmarkError> {
        let count = (rows / object_rows).max(1);
        let first_row = |number: u32| number * object_rows;
        let objects: Vec<RunObject> = (0..count)
            .map(|number| RunObject {
                object: 1 + 7 * u64::from(number),
                first_row: first_row(number),
                rows: object_rows,
            })
            .collect();
        let rows = first_row(count) as usize;
        let batches = rows.div_ceil(BLOCK_ROWS * PLANNED_BLOCKS);
        let batch = |batch: usize| -> Result<Vec<(Block, Vec<RunZone>)>, BenchmarkError> {
            let mut planner = Planner::new(seed ^ batch as u64, aim);
            let begin = batch * BLOCK_ROWS * PLANNED_BLOCKS;
            let end = rows.min(begin + BLOCK_ROWS * PLANNED_BLOCKS);
            let mut columns = FixColumns::with_capacity(BLOCK_ROWS + object_rows as usize);
            let mut made = Vec::new();
            let mut number = begin / object_rows as usize;
            let mut skipped = begin % object_rows as usize;
            for first in (begin..end).step_by(BLOCK_ROWS) {
                let wanted = BLOCK_ROWS.min(end - first);
                while columns.len() < wanted {
                    let (object, mut left) = (objects[number].object, skipped);
                    let place = number as f64 / f64::from(count);
                    rows_of(object, seed, place, object_rows, |row| match left {
                        0 => columns.push_row(row),
                        _ => left -= 1,
                    });
                    (number, skipped) = (number + 1, 0);
                }
                let rest = columns.slice(wanted..columns.len());
                columns.truncate(wanted);
                let tiles = (0..wanted).step_by(TILE_ROWS);
                let zones = tiles.map(|first| zone(&columns, first)).collect();
                made.push((encode(&columns, &mut planner)?, zones));
                columns = rest;
            }
            Ok(made)
        };
        let made: Result<Vec<_>, _> = (0..batches).into_par_iter().map(batch).collect();
        let (blocks, zones): (Vec<_>, Vec<Vec<_>>) = made?.into_iter().flatten().unzip();
        Ok(Self { blocks, zones: zones.concat(), objects })
    }

    pub(super) fn source(&self) -> RunSource<'_> {
        RunSource {
            start_ms: START_MS,
            blocks: &self.blocks,
            zones: &self.zones,
            objects: &self.objects,
        }
    }

    pub(super) fn rows(&self) -> u64 {
        self.blocks.iter().map(|block| block.rows() as u64).sum()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|block| block.bytes().len() as u64).sum()
    }

    /// The number of rows in a zone, counted by decoding all blocks.
    pub(super) fn count(&self, zone: &RunZone) -> Result<u64, BenchmarkError> {
        let of_block = |block: &Block| -> Result<u64, BenchmarkError> {
            let rows = block.decode()?;
            let is_inside = |row: &usize| {
                let time = (rows.time_ms[*row] - START_MS) as u32;
                (zone.time_min..=zone.time_max).contains(&time)
                    && (zone.x_min..=zone.x_max).contains(&rows.x[*row])
                    && (zone.y_min..=zone.y_max).contains(&rows.y[*row])
            };
            Ok((0..rows.len()).filter(is_inside).count() as u64)
        };
        self.blocks.par_iter().map(of_block).sum()
    }

    /// The newest row of an object at or before a time.
    pub(super) fn newest(&self, of: &RunObject, time_ms: i64) -> Result<FixRow, BenchmarkError> {
        let (first, mut found) = (of.first_row as usize, None);
        for row in first..first + of.rows as usize {
            let in_block = row % BLOCK_ROWS;
            let mut columns = FixColumns::new();
            self.blocks[row / BLOCK_ROWS].decode_rows(in_block..in_block + 1, &mut columns)?;
            let row = columns.row(0);
            found = if row.time_ms <= time_ms { Some(row) } else { found };
        }
        let missing = || BenchmarkError::Membership(format!("{} has no row", of.object));
        found.ok_or_else(missing)
    }
}

fn encode(columns: &FixColumns, planner: &mut Planner) -> Result<Block, BenchmarkError> {
    let base_ms = columns.time_ms.iter().copied().min().unwrap_or(START_MS);
    let mut plan = BlockPlan::raw();
    for (column, planner) in planner.columns_mut() {
        if let Some(values) = columns.values(column, base_ms) {
            plan = plan.with(column, planner.plan(&values, None));
        }
    }
    let mut bytes = Vec::new();
    let outcomes = CpuCodec.encode_planned(columns, &plan, &SPACE, 1, &mut bytes)?;
    planner.finish(&outcomes, &mut bytes)?;
    Ok(Block::parse(Bytes::from(bytes), &Budget::default())?)
}
