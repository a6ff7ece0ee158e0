//! The pipeline: the state of a fleet on the device, and the thread that runs cycles through the
//! stages on concurrent streams.

mod answers;
mod dispatch_admission;
mod dispatch_capacity;
mod dispatch_packing;
mod dispatch_records;
mod dispatch_stage;
mod dispatch_staging;
mod driver;
mod query_answers;
mod query_batch;
mod query_nearest;
mod query_parts;
mod query_stage;
mod query_warp;
mod query_work;
mod records_export;
mod snapshot;
mod subscription;
#[cfg(test)]
mod tests;
mod timeline;
mod update_cells;
mod update_cost;
mod update_grid;
mod update_stage;
mod update_tables;

pub(crate) use answers::CycleResult;
pub(crate) use dispatch_staging::{Arena, Staged, stage};
pub(crate) use driver::{Command, Driver, Status};
pub(crate) use query_parts::QueryParts;
pub(crate) use records_export::RecordsExport;
pub(crate) use subscription::file;
pub use timeline::StageSpan;
pub(crate) use timeline::Timeline;
pub use update_cost::UpdateMethod;
