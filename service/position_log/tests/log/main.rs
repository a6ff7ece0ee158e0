//! The log on simulated and real disks: round trips, crashes, faults and hostile bytes.
//!
//! One binary, one file for each hazard. Everything is seeded; a failing assertion names its seed.

mod crash_points;
mod files;
mod random;
mod random_programs;
mod sample;
mod scale;
mod world;
