//! Sources of fixes: their streams, mixes and files.
#![allow(clippy::unwrap_used, reason = "a test fails on a missing value")]

mod calibration;
mod mix;
mod network_files;
mod regions;
mod replay;
mod streams;
