//! Random walks of objects and random plans for tests of whole
//! blocks, shared with the CUDA tests.

use shoal_codec::{BlockPlan, Column, FixColumns, FixRow, SpaceKind, SpaceTag};
use shoal_testkit::Random;

use crate::sample::trees;

pub(crate) const SPACE: SpaceTag =
    SpaceTag { kind: SpaceKind::Geographic, origin_x: 0.0, origin_y: 0.0, quantum: 1e-7 };

/// Objects on a random walk, in random order.
pub(crate) fn walks(chance: &mut Random, rows: usize, objects: u64) -> FixColumns {
    let mut columns = FixColumns::new();
    let mut places: Vec<(i32, i32)> =
        (0..objects).map(|_| (chance.edgy() as i32 / 4, chance.edgy() as i32 / 4)).collect();
    let mut time_ms = 1_700_000_000_000;
    for row in 0..rows {
        let object = chance.word() % objects;
        let (x, y) = &mut places[object as usize];
        *x = x.wrapping_add(chance.word() as i32 % 3000);
        *y = y.wrapping_add(chance.word() as i32 % 3000);
        time_ms += (chance.word() % 5 * 1000) as i64;
        columns.push_row(FixRow {
            speed_mm_s: (chance.word() % 30_000) as u32,
            heading_cdeg: (chance.word() % 36_000) as u16,
            altitude_mm: 1000 * (row as i32 / 40),
            state: (chance.word() & 1) as u32,
            ..FixRow::new(object * 1_000_003, time_ms, *x, *y)
        });
    }
    columns
}

/// A random tree for each column.
pub(crate) fn any_plan(chance: &mut Random) -> BlockPlan {
    let trees = trees();
    let mut plan = BlockPlan::fixes();
    for column in Column::ALL {
        let tree = &trees[chance.below(trees.len())];
        if column != Column::Object || !tree.is_keyed() {
            plan = plan.with(column, tree.clone());
        }
    }
    plan
}
