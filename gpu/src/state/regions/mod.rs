//! The continuous queries by number and by cell.

pub(crate) mod cell_index;
pub(crate) mod cells;
pub(crate) mod changes;
pub(crate) mod continuous_queries;
pub(crate) mod device_queries;
pub(crate) mod query_table;
