//! Does nvCOMP, where its library is, give back what it was given, and how fast?
//!
//! Prints; says so and ends where the library is not. Needs an NVIDIA GPU: `--include-ignored`.

#![cfg(feature = "cuda")]
#![allow(clippy::unwrap_used, reason = "a test stops where something is wrong")]

use shoal_gpu::{Gpu, NvComp, NvCompChoice};

/// Values of 4 bytes in a column; 64 MiB unless `SHOAL_TEST_ROWS` says otherwise.
const ROWS: usize = 16 << 20;

#[test]
#[ignore = "needs an NVIDIA GPU, and measures"]
fn columns_come_back_from_every_choice() {
    let gpu = Gpu::open().unwrap_or_else(|error| panic!("{error}"));
    let mut library = match NvComp::open(&gpu, 16 << 30) {
        Ok(library) => library,
        Err(why) => {
            println!("skipped: {why}");
            return;
        }
    };
    let rows = std::env::var("SHOAL_TEST_ROWS").map_or(ROWS, |rows| rows.parse().unwrap());
    let mut value = 7_u32;
    let walk = |_: usize| {
        value = value.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        value >> 22
    };
    let mut sum = 1_u32 << 20;
    let mut bytes = Vec::with_capacity(4 * rows);
    for step in (0..rows).map(walk) {
        sum = sum.wrapping_add(step);
        bytes.extend_from_slice(&sum.to_le_bytes());
    }
    // The last chunk is shorter than the others.
    bytes.truncate(bytes.len() - 12);
    for name in ["Cascaded", "Bitcomp", "ANS", "LZ4", "Zstd", "Gdeflate"] {
        for choice in NvCompChoice::all(name, 4) {
            library.encode(&choice, &bytes).unwrap();
            let (encoded, encode_ms) = library.encode(&choice, &bytes).unwrap();
            library.decode(&choice, &encoded).unwrap();
            let (back, decode_ms) = library.decode(&choice, &encoded).unwrap();
            assert!(back == bytes, "{name}, {}: other bytes came back", choice.text);
            let rate = |time_ms: f64| bytes.len() as f64 / time_ms / 1e6;
            println!(
                "{name}, {}, chunks of {}: ratio {:.2}, encode {:.1} GB/s, decode {:.1} GB/s",
                choice.text,
                choice.chunk_bytes(),
                bytes.len() as f64 / encoded.encoded_bytes() as f64,
                rate(encode_ms),
                rate(decode_ms)
            );
        }
    }
}
