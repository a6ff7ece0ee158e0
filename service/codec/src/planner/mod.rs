//! Which tree suits each column, learned from the data as it streams?
//!
//! After Dzitkowski (2016): trees are tried on a sample, whole batches take the best one, what
//! batches show of edges corrects it, and now and then the trial is repeated.

mod candidates;
mod column_planner;
mod edges;
mod fixes;
mod statistics;
mod trials;

pub use column_planner::ColumnPlanner;
pub use fixes::Planner;
pub use statistics::{DISTINCT_MAX, ONE_Q16, Statistics};
pub use trials::Trials;
