//! The device encodes the same bytes as the CPU.
//!
//! Needs an NVIDIA GPU, as the conformance suite does: run with `--include-ignored`. Everything is
//! seeded; a failing assertion names its seed.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

mod block;
mod column;
#[path = "../../../service/codec/tests/block/random.rs"]
mod random;
#[path = "../../../service/codec/tests/tree/sample.rs"]
mod sample;
mod speed;
mod strings;
mod table;
#[path = "../../../service/codec/tests/tree/walk.rs"]
mod walk;
