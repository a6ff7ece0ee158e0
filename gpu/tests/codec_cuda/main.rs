//! The device decodes and refuses the same as the CPU's codec.
//!
//! Columns, trees and recomputed checksums come from the tests of the CPU's codec. Run them on a
//! machine with an NVIDIA GPU with `--include-ignored`.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod blocks;
mod columns;
mod cycles;
#[path = "../../../service/codec/tests/block/random.rs"]
mod random;
#[path = "../../../service/codec/tests/tree/sample.rs"]
mod sample;
#[path = "../../../service/codec/tests/block/seal.rs"]
#[allow(dead_code, reason = "only some of its fields are set here")]
mod seal;
mod speed;
mod strings;
#[path = "../../../service/codec/tests/tree/walk.rs"]
mod walk;

use shoal_gpu::{Decoder, Gpu};

/// Device memory of the tests.
const BUDGET_BYTES: u64 = 8 << 30;

fn decoder() -> Decoder {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Decoder::new(&gpu, BUDGET_BYTES).unwrap()
}

/// A count, which an environment variable may override.
fn count(variable: &str, usual: usize) -> usize {
    let set = std::env::var(variable).ok();
    set.map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{variable} is a number")))
}
