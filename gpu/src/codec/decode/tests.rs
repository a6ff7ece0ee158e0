//! Devices of older generations sort rows with other kernels and the same result.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use shoal_codec::{EncodedTree, Grouping, Keys, Mode, Tree, Values, encode_column};

use super::{Decoder, EncodedColumn};
use crate::device::Gpu;

/// Key columns of codes and of many widths, whose last row is within a warp, a part or a segment.
fn samples() -> Vec<(EncodedTree, EncodedTree, Values)> {
    let mut samples = Vec::new();
    for rows in [1_u64, 31, 1024, 5000, 8192, 8193, 40_000, 65_536, 70_001] {
        // Number of objects, distance of their ids, and n if every n-th row has the same object.
        let cases = [
            (1, 1, 0),
            (7, 1_000_003, 0),
            (9, 1 << 59, 0),
            (97, 80, 2),
            (300, 1 << 41, 0),
            (2000, 3, 2),
            (3000, 1, 0),
            (4000, 1, 20),
            (5000, 1, 0),
            (8000, 1, 40),
            (8000, 5, 3),
            (60_000, 77, 0),
        ];
        for (objects, spread, often) in cases {
            let mix = |row: u64| row.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40;
            let object = |row: u64| match often {
                0 => mix(row) % objects,
                _ if row.is_multiple_of(often) => 5,
                _ => mix(row / 3) % objects,
            };
            let ids: Vec<u64> = (0..rows).map(|row| object(row) * spread).collect();
            let grouping = Grouping::new(&ids);
            let values = Values::I32((0..rows).map(|row| (mix(row + 1) % 1000) as i32).collect());
            let afl = || Box::new(Tree::Afl);
            let tree = Tree::KeyedDelta2(Mode::Zigzag, afl(), afl());
            let with = Keys { grouping: &grouping, column: 1 };
            let encoded = encode_column(&values, &tree, Some(with)).unwrap();
            let mut keys = vec![
                (Values::U64(ids.clone()), Tree::Raw),
                (Values::U64(ids.clone()), Tree::Dict(65_536, afl(), None)),
            ];
            // In as few bytes as possible.
            let most = ids.iter().max().copied().unwrap_or(0);
            if u32::try_from(most).is_ok() {
                let narrow = ids.iter().map(|id| *id as u32).collect();
                keys.push((Values::U32(narrow), Tree::Afl));
            }
            if u16::try_from(most).is_ok() {
                let narrow = ids.iter().map(|id| *id as u16).collect();
                keys.push((Values::U16(narrow), Tree::Afl));
            }
            if u8::try_from(most).is_ok() {
                let narrow = ids.iter().map(|id| *id as u8).collect();
                keys.push((Values::U8(narrow), Tree::Afl));
            }
            for (key, tree) in keys {
                let key = encode_column(&key, &tree, None).unwrap();
                samples.push((key, encoded.clone(), values.clone()));
            }
        }
    }
    samples
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn rows_come_in_the_same_order_with_clusters_and_without() {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    let samples = samples();
    let columns: Vec<EncodedColumn<'_>> =
        samples.iter().map(|(key, encoded, _)| EncodedColumn { encoded, key: Some(key) }).collect();
    for gpu in [gpu.without_clusters(), gpu] {
        let mut decoder = Decoder::new(&gpu, 8 << 30).unwrap();
        // Decodes all together and each alone, because the longest column determines the size of
        // clusters.
        let together = decoder.columns(&columns).unwrap();
        for ((column, (_, _, expected)), found) in columns.iter().zip(&samples).zip(together) {
            assert!(found.unwrap() == *expected);
            let alone = decoder.columns(&[*column]).unwrap().remove(0);
            assert!(alone.unwrap() == *expected);
        }
    }
}
