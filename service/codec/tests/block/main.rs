//! The block container with good, damaged and hostile bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

mod bound;
mod corruption;
mod fuzz;
mod golden;
mod golden_file;
mod hostile;
mod planner;
mod random;
mod rewrite;
mod round_trip;
mod sample;
#[allow(dead_code, reason = "the tests of trees use more")]
mod seal;
mod size_bound;
mod truncation;
