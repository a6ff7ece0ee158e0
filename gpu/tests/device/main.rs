//! What runs on the device beside the conformance suite.
//!
//! Needs an NVIDIA GPU: run with `--include-ignored`. Everything is seeded; a failing assertion
//! names its seed.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod decode;
mod encode;
mod history;
mod index;
#[allow(dead_code, reason = "the CPU's tests use the rest")]
#[path = "../../../service/history/tests/history/model.rs"]
mod model;
#[path = "../../../service/codec/tests/block/random.rs"]
mod random;
#[path = "../../../service/codec/tests/tree/sample.rs"]
mod sample;
#[path = "../../../service/codec/tests/block/seal.rs"]
#[allow(dead_code, reason = "only some of its fields are set here")]
mod seal;
mod subscription;
mod tunings;
#[path = "../../../service/codec/tests/tree/walk.rs"]
mod walk;
#[allow(dead_code, reason = "the CPU's tests use the rest")]
#[path = "../../../service/history/tests/history/world.rs"]
mod world;
