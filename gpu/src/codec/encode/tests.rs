//! Devices with little shared memory per block group rows with other kernels and the same result.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use shoal_codec::{Grouping, Keys, Mode, Tree, Values, encode_column};

use super::Encoder;
use crate::device::Gpu;

/// Pseudo-random and deterministic.
fn mix(row: u64) -> u64 {
    row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 17
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn columns_are_grouped_the_same_with_segments_in_shared_memory_and_without() {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    let mut encoders =
        [Encoder::without_segments, Encoder::new].map(|new| new(&gpu, 4 << 30).unwrap());
    let tree =
        Tree::KeyedDelta(Mode::Zigzag, Tree::Afl.into(), Tree::Scale(Tree::Afl.into()).into());
    for rows in [1_u64, 1000, 65_536, 70_001, 200_000] {
        for (objects, spread) in [(1, 1), (300, 1), (5000, 1), (300, 1 << 33), (60_000, 77)] {
            let ids: Vec<u64> = (0..rows).map(|row| mix(row) % objects * spread).collect();
            let grouping = Grouping::new(&ids);
            let ids = Values::U64(ids);
            let columns = [
                Values::U8((0..rows).map(|row| mix(row + 1) as u8).collect()),
                Values::U16((0..rows).map(|row| mix(row + 2) as u16).collect()),
                Values::U32((0..rows).map(|row| mix(row + 3) as u32).collect()),
                Values::U64((0..rows).map(|row| mix(row + 4)).collect()),
            ];
            for values in columns {
                let with = Keys { grouping: &grouping, column: 1 };
                let expected = encode_column(&values, &tree, Some(with)).unwrap();
                for encoder in &mut encoders {
                    let found = encoder.encode_column(&values, &tree, Some((&ids, 1))).unwrap();
                    let context = format!("{rows} rows, {objects} objects by {spread}");
                    assert!(found == expected, "{context}, {:?}", values.value_type());
                }
            }
        }
    }
}
