//! The history on simulated and real disks: answers against a model, crashes, faults and damage.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod answers;
mod crash_points;
mod damage;
mod golden;
mod host_device;
mod limits;
mod partitions;
#[path = "../../../position_log/tests/log/scale.rs"]
mod scale;
mod selection;
mod states;
mod versions;
mod world;
