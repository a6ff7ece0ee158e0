//! What a cycle does with the state on the device: a thread (`driver.rs`) runs each cycle through
//! the stages, each on its own stream.

mod answers;
mod capacity;
mod context;
mod dispatch;
mod driver;
mod query;
mod snapshot;
mod status;
mod subscription;
#[cfg(test)]
mod tests;
mod timeline;
mod update;
mod workers;

pub(crate) use answers::CycleResult;
pub(crate) use context::Context;
pub(crate) use dispatch::staging::{Arena, Staged, stage};
pub(crate) use driver::{Command, Driver};
pub(crate) use query::parts::QueryParts;
pub(crate) use status::Status;
pub use timeline::StageSpan;
pub(crate) use timeline::Timeline;
pub use update::cost::UpdateMethod;
