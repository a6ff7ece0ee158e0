//! Planning: chooses a tree for each column and adapts it to the data as it streams.
//!
//! After Dzitkowski (2016): the planner tries trees on a sample and encodes whole batches with the
//! best one. Statistics of edges guide corrections, and the exploration repeats at intervals.

mod aim;
mod candidates;
mod column_batch;
mod column_planner;
mod edges;
mod fixes;
mod statistics;
mod tables;

pub use aim::{Aim, UnknownAim};
pub(crate) use candidates::entropy_coded;
pub use column_batch::ColumnBatch;
pub use column_planner::ColumnPlanner;
pub use fixes::Planner;
pub use statistics::{DISTINCT_MAX, ONE_Q16, Statistics};
pub use tables::{
    PlannedChunk, TablePlanner, encode_planned_table, observe_table, planned_chunks, with_trees,
};
