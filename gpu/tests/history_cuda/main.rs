//! The history on the device: runs against their rows, whole histories against their model.
//!
//! Needs an NVIDIA GPU, as the conformance suite does: run with `--include-ignored`. Everything is
//! seeded; a failing assertion names its seed.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[allow(dead_code, reason = "the CPU's tests use the rest")]
#[path = "../../../service/history/tests/history/model.rs"]
mod model;
mod pasts;
#[allow(dead_code, reason = "tests of other packages use the rest")]
#[path = "../../../service/codec/tests/block/random.rs"]
mod random;
mod runs;
#[allow(dead_code, reason = "the CPU's tests use the rest")]
#[path = "../../../service/history/tests/history/world.rs"]
mod world;
