//! The block container with good, damaged and hostile bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

mod corruption;
mod fuzz;
mod golden;
mod hostile;
mod planner;
mod rewrite;
mod round_trip;
mod sample;
mod size_bound;
mod truncation;

/// Released blocks.
const GOLDEN: shoal_testkit::GoldenFolder =
    shoal_testkit::GoldenFolder { package: env!("CARGO_MANIFEST_DIR") };
