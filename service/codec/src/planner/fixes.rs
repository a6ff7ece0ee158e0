//! Plans for a stream of blocks of fixes: an independent planner for each column.
//!
//! The object column is planned without keys, the others with the objects as keys.

use crate::block_plan::BlockPlan;
use crate::codec::BlockCodec;
use crate::columns::{Column, FixColumns};
use crate::compact::compact;
use crate::encode::ColumnOutcome;
use crate::error::BlockError;
use crate::planner::aim::Aim;
use crate::planner::column_planner::ColumnPlanner;
use crate::space::SpaceTag;
use crate::values::with_patterns;

/// The planner of a stream of blocks.
#[derive(Clone, Debug)]
pub struct Planner {
    /// In order of [`Column::ALL`].
    columns: Vec<ColumnPlanner>,
    aim: Aim,
}

impl Planner {
    /// A planner without history; `seed` selects samples.
    pub fn new(seed: u64, aim: Aim) -> Self {
        let planner = |column: Column| ColumnPlanner::new(seed ^ u64::from(column.id()) << 32, aim);
        Self { columns: Column::ALL.map(planner).into(), aim }
    }

    /// Sets another aim for the optional columns; their trees are compared by the bytes of a block
    /// of that aim.
    #[must_use]
    pub fn with_attributes(mut self, aim: Aim) -> Self {
        for column in Column::ATTRIBUTES {
            self.columns[column.index()].aim = aim;
        }
        self
    }

    /// Returns the plan for the next block. Call [`Planner::observe`] when the block is encoded.
    ///
    /// # Errors
    /// Columns of unequal length.
    pub fn plan(&mut self, columns: &FixColumns) -> Result<BlockPlan, BlockError> {
        columns.check()?;
        let base_time_ms = columns.time_ms.iter().copied().min().unwrap_or(0);
        let mut plan = BlockPlan::raw();
        for column in columns.column_set().iter() {
            let keys = (column != Column::Object).then_some(&columns.object[..]);
            let planner = &mut self.columns[column.index()];
            let value_type = column.value_type();
            let tree = with_patterns!(columns.patterns(column, base_time_ms), |patterns| {
                planner.plan_patterns(value_type, patterns, keys)
            });
            plan = plan.with(column, tree);
        }
        Ok(plan)
    }

    /// The planners of the columns. If a batch is not in [`FixColumns`], plan each of its columns
    /// with [`ColumnPlanner::plan_by`].
    pub fn columns_mut(&mut self) -> impl Iterator<Item = (Column, &mut ColumnPlanner)> {
        Column::ALL.into_iter().zip(&mut self.columns)
    }

    /// Reports the outcome of the block that was planned last.
    pub fn observe(&mut self, outcomes: &[ColumnOutcome]) {
        for outcome in outcomes {
            let planner = &mut self.columns[outcome.column.index()];
            planner.observe(outcome.raw_bytes, outcome.encoded_bytes);
        }
    }

    /// Plans, encodes and observes one block of a stream.
    ///
    /// # Errors
    /// As [`BlockCodec::encode_planned`]; `out` is empty then.
    pub fn encode(
        &mut self,
        codec: &impl BlockCodec,
        columns: &FixColumns,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        out.clear();
        let plan = self.plan(columns)?;
        let outcomes = codec.encode_planned(columns, &plan, space, sequence, out)?;
        self.finish(&outcomes, out)
    }

    /// Reports the outcome of the block that was planned last, and makes it compact if the aim
    /// requires that.
    ///
    /// # Errors
    /// A block that readers refuse.
    pub fn finish(
        &mut self,
        outcomes: &[ColumnOutcome],
        block: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        self.observe(outcomes);
        if self.aim.is_compact() { compact(block) } else { Ok(()) }
    }
}
