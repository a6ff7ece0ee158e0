//! The log on simulated and real disks: round trips, crashes, faults and hostile bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.

#![allow(clippy::unwrap_used, reason = "helpers of tests may fail as tests do")]

mod bit_flips;
mod built;
mod copy;
mod crash_points;
mod damage;
mod faults;
mod files;
mod follow;
mod fuzz;
mod golden;
mod hostile;
mod random_programs;
mod sample;
mod scale;
mod seal;
mod world;
