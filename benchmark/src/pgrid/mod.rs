//! PGrid, the CPU baseline of the paper.

mod arena;
mod bucket;
mod cells;
mod chain;
mod grace;
mod grid;
mod index;
mod stream;
#[cfg(test)]
mod tests;
mod tune;
mod worker;

pub(crate) use bucket::TIME_MAX_MS;
pub(crate) use grid::{Layout, PGrid, Update};
pub(crate) use stream::{Answers, PORTION_UPDATES, Roles, Stream, Workers};
pub(crate) use tune::{Sample, Trial, tune};
