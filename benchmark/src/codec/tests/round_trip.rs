//! Every codec restores every column: all types, few and many rows, constant, steep and random.

use std::time::Duration;

use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shoal_codec::{Tree, Values};

use crate::codec::contender::contender;
use crate::codec::data_set::{Content, DataSet};
use crate::codec::measure::{Effort, measure, measure_whole};
use crate::codec::options::CodecName;
use crate::codec::recorded;

use super::SAMPLE;

const EFFORT: Effort = Effort { runs: 1, time_max: Duration::ZERO, together_bytes: 1 << 20 };

/// Columns of one shape in every type, patterns cut to the type's width.
fn columns(shape: &str, patterns: &[u64]) -> Vec<(String, Values)> {
    let all = [
        Values::U8(patterns.iter().map(|value| *value as u8).collect()),
        Values::U16(patterns.iter().map(|value| *value as u16).collect()),
        Values::U32(patterns.iter().map(|value| *value as u32).collect()),
        Values::U64(patterns.to_vec()),
        Values::I8(patterns.iter().map(|value| *value as i8).collect()),
        Values::I16(patterns.iter().map(|value| *value as i16).collect()),
        Values::I32(patterns.iter().map(|value| *value as i32).collect()),
        Values::I64(patterns.iter().map(|value| *value as i64).collect()),
        Values::F32(patterns.iter().map(|value| f32::from_bits(*value as u32)).collect()),
        Values::F64(patterns.iter().map(|value| f64::from_bits(*value)).collect()),
    ];
    let name = |values: Values| (format!("{shape} {:?}", values.value_type()), values);
    all.into_iter().map(name).collect()
}

#[test]
fn every_codec_restores_every_type_and_shape() {
    let is_built = |name: CodecName| cfg!(feature = "peers") || name.is_shoal();
    every_type_and_shape_comes_back(|name| is_built(name) && !name.is_on_device());
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_device_restores_every_type_and_shape() {
    every_type_and_shape_comes_back(|name| name.is_shoal() && name.is_on_device());
}

/// Tests a list of codecs.
fn every_type_and_shape_comes_back(is_asked: impl Fn(CodecName) -> bool) {
    let seed = 5;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
    for rows in [1, 31, 1_023, 1_025, 3_000] {
        let shapes: [(&str, Vec<u64>); 4] = [
            ("flat", vec![42; rows]),
            ("steep", (0..rows as u64).map(|row| row * 1_000).collect()),
            ("extreme", (0..rows).map(|row| if row % 2 == 0 { 0 } else { u64::MAX }).collect()),
            ("wild", (0..rows).map(|_| random.next_u64()).collect()),
        ];
        for (shape, patterns) in shapes {
            let content = Content::Columns(columns(shape, &patterns));
            let blocks = DataSet { name: shape.into(), content }.blocks(2_000);
            for name in CodecName::value_variants().iter().filter(|name| is_asked(**name)) {
                let mut contender = contender(*name, 1).unwrap();
                for (index, column) in blocks[0].columns.iter().enumerate() {
                    let measured = measure(contender.as_mut(), &blocks, index, EFFORT);
                    let measured = measured.unwrap_or_else(|error| {
                        panic!("{name:?}, {rows} rows, {}: {error}, seed {seed}", column.name)
                    });
                    assert_eq!(measured.encoded_bytes.len(), blocks.len());
                    let raw = measured.raw_bytes as usize;
                    assert_eq!(raw, rows * column.values.value_type().width_bytes());
                }
            }
        }
    }
}

#[test]
fn blocks_of_fixes_are_restored_and_smaller_than_raw() {
    let file = recorded::files(SAMPLE.as_ref()).unwrap().remove(0);
    let (set, left_out) = recorded::positions(&file).unwrap();
    assert_eq!((set.name.as_str(), set.rows(), left_out), ("bus_austin", 33_140, 0));
    let blocks = set.blocks(20_000);
    for name in [
        CodecName::Shoal,
        CodecName::ShoalSmall,
        CodecName::ShoalFixed,
        CodecName::ShoalTried,
        CodecName::ShoalUnkeyed,
    ] {
        let mut contender = contender(name, 1).unwrap();
        let (mut columns, mut keyed) = (0, 0);
        for index in 0..blocks[0].columns.len() {
            let measured = measure(contender.as_mut(), &blocks, index, EFFORT).unwrap();
            columns += measured.encoded_bytes.iter().sum::<u64>();
            let mut trees = measured.choice.split(" | ").map(|tree| tree.parse::<Tree>().unwrap());
            keyed += usize::from(trees.any(|tree| tree.is_keyed()));
        }
        assert_eq!(keyed == 0, name == CodecName::ShoalUnkeyed, "{name:?}: {keyed} are keyed");
        let whole = measure_whole(contender.whole(&blocks).unwrap(), &blocks, EFFORT).unwrap();
        let bytes: u64 = whole.encoded_bytes.iter().sum();
        // Plus the header and the padding of the directory; a compact block has less of both.
        let container = 2 * (128 + 63);
        let fewest = if name == CodecName::ShoalSmall { columns / 2 } else { columns };
        assert!((fewest..=columns + container).contains(&bytes), "{columns} and {bytes}");
        assert!(3 * bytes < whole.raw_bytes, "{bytes} of {}", whole.raw_bytes);
    }
    let plain = DataSet::of_column("plain", "value", Values::U8(vec![1, 2, 3])).blocks(3);
    assert!(contender(CodecName::Shoal, 1).unwrap().whole(&plain).is_none());
}

#[cfg(feature = "cuda")]
#[test]
#[ignore = "needs an NVIDIA GPU"]
fn the_device_encodes_to_the_same_size_as_the_cpu() {
    let file = recorded::files(SAMPLE.as_ref()).unwrap().remove(0);
    let (set, _) = recorded::positions(&file).unwrap();
    let blocks = set.blocks(20_000);
    for names in [
        [CodecName::Shoal, CodecName::ShoalCuda],
        [CodecName::ShoalUnkeyed, CodecName::ShoalUnkeyedCuda],
    ] {
        let [mut host, mut device] = names.map(|name| contender(name, 1).unwrap());
        for index in 0..blocks[0].columns.len() {
            let expected = measure(host.as_mut(), &blocks, index, EFFORT).unwrap();
            let found = measure(device.as_mut(), &blocks, index, EFFORT).unwrap();
            assert_eq!(found.encoded_bytes, expected.encoded_bytes, "{names:?}, column {index}");
            assert_eq!(found.choice, expected.choice, "{names:?}, column {index}");
        }
    }
}
