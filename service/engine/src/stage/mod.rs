//! The stages of a cycle as contracts: what each decides, shared by every backend.
//!
//! The same names stand in `cpu/` (the work on the CPU) and later in the device kernels and
//! launches.

pub mod admission;
pub mod dispatch;
pub mod region_index;
pub mod subscription;
