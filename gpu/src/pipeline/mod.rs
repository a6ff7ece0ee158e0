//! The framework: what a fleet has on the device, and the thread that takes cycles through the
//! stages on concurrent streams.

mod admission;
mod answers;
mod asking;
mod brief;
mod cells;
mod cost;
mod dispatching;
mod driver;
mod grid;
mod moving;
mod nearest;
mod packing;
mod questioning;
mod questions;
mod records;
mod results;
mod room;
mod staging;
mod subscription;
mod tables;
#[cfg(test)]
mod tests;
mod timeline;
mod updating;

pub use cost::Way;
pub(crate) use driver::{Command, Driver, Status};
pub(crate) use questions::Questions;
pub(crate) use results::Finished;
pub(crate) use staging::{Arena, Staged, stage};
pub(crate) use subscription::file;
pub use timeline::StageSpan;
pub(crate) use timeline::Timeline;
