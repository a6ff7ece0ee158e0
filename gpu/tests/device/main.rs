//! Tests of the CUDA backend in addition to the conformance suite.
//!
//! Needs an NVIDIA GPU: run with `--include-ignored`. Everything is seeded; a failing assertion
//! names its seed.
#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod decode;
mod encode;
mod history;
mod index;
#[path = "../../../service/codec/tests/tree/sample.rs"]
mod sample;
mod subscription;
mod tunings;
#[path = "../../../service/codec/tests/tree/walk.rs"]
mod walk;
#[allow(dead_code, reason = "the CPU's tests use the rest")]
#[path = "../../../service/history/tests/history/world.rs"]
mod world;
