//! The rules of each stage of a cycle, shared by every backend.
//!
//! `cpu/` and the device kernels do the work; a stage has the same name there.

pub mod admission;
mod cell_table;
pub mod dispatch;
pub mod membership;
pub mod region_changes;
pub mod region_index;
pub mod registry;
pub mod settle;
pub mod subscription;
