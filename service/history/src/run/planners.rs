//! Plans of the blocks and tables of runs. Attributes and the directory of objects are encoded to
//! decode fast, everything else to take the fewest bytes.
//!
//! The planners of sealed runs live as long as the writer, because a first plan takes some
//! milliseconds, which each small run would spend again. A merge has planners of its own.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shoal_codec::{
    Aim, BlockCodec, BlockPlan, CpuCodec, FixColumns, Planner, SpaceTag, TablePlanner, TableValues,
    Values, compact, encode_planned_table,
};

use super::run_index::FIRST_COLUMN;
use crate::error::HistoryError;

/// Seed of the planners, which selects samples. The value is arbitrary.
const SEED: u64 = 1;

/// Planners of fixes and of the columns of each kind of table.
#[derive(Debug)]
pub(crate) struct Planners {
    fixes: Planner,
    zones: Vec<TablePlanner>,
    objects: Vec<TablePlanner>,
    removals: Vec<TablePlanner>,
    returns: Vec<TablePlanner>,
}

/// Planners that the runs of a writer use in turn.
#[derive(Clone, Debug)]
pub(crate) struct SharedPlanners(Arc<Mutex<Planners>>);

impl SharedPlanners {
    /// New planners, without learned plans.
    pub(crate) fn new() -> Self {
        let columns = |count: u64, aim| (0..count).map(move |it| TablePlanner::new(SEED ^ it, aim));
        Self(Arc::new(Mutex::new(Planners {
            // A filter decodes the attributes of every fix in its range: with values of fixed width
            // runs take 2 % more bytes, and filters half the time.
            fixes: Planner::new(SEED, Aim::Small).with_attributes(Aim::Fast),
            zones: columns(8, Aim::Small).collect(),
            // A look-up decodes one tile. Codes of variable length are not used, because their
            // tables take as long as ten tiles.
            objects: columns(4, Aim::Fast).collect(),
            removals: columns(4, Aim::Small).collect(),
            returns: columns(3, Aim::Small).collect(),
        })))
    }

    pub(crate) fn get(&self) -> MutexGuard<'_, Planners> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Planners {
    /// Encodes a block of fixes. The columns are planned without a key, so that each tile can be
    /// decoded alone; the rows of an object are consecutive anyway.
    pub(crate) fn fixes(
        &mut self,
        columns: &FixColumns,
        space: &SpaceTag,
        sequence: u64,
    ) -> Result<Vec<u8>, HistoryError> {
        let base_ms = columns.time_ms.iter().copied().min().unwrap_or(0);
        let mut plan = BlockPlan::raw();
        for (column, planner) in self.fixes.columns_mut() {
            if let Some(values) = columns.values(column, base_ms) {
                plan = plan.with(column, planner.plan(&values, None));
            }
        }
        let mut block = Vec::new();
        let outcomes = CpuCodec.encode_planned(columns, &plan, space, sequence, &mut block)?;
        self.fixes.finish(&outcomes, &mut block)?;
        Ok(block)
    }

    /// Encodes the zones of a run.
    pub(crate) fn zones(&mut self, columns: [Values; 8]) -> Result<Vec<u8>, HistoryError> {
        table(&mut self.zones, columns)
    }

    /// Encodes a page of objects.
    pub(crate) fn objects(&mut self, columns: [Values; 4]) -> Result<Vec<u8>, HistoryError> {
        table(&mut self.objects, columns)
    }

    /// Encodes a page of removals.
    pub(crate) fn removals(&mut self, columns: [Values; 4]) -> Result<Vec<u8>, HistoryError> {
        table(&mut self.removals, columns)
    }

    /// Encodes a page of returns.
    pub(crate) fn returns(&mut self, columns: [Values; 3]) -> Result<Vec<u8>, HistoryError> {
        table(&mut self.returns, columns)
    }
}

fn table<const N: usize>(
    planners: &mut [TablePlanner],
    columns: [Values; N],
) -> Result<Vec<u8>, HistoryError> {
    let columns = columns.map(TableValues::Numbers);
    let numbered: Vec<_> = (FIRST_COLUMN..).zip(&columns).collect();
    let mut table = Vec::new();
    encode_planned_table(planners, &numbered, false, 0, &mut table)?;
    compact(&mut table)?;
    Ok(table)
}
