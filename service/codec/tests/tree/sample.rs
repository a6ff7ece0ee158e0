//! Sample columns of every type and shape, and sample trees. Some trees apply to few columns only.

use shoal_codec::{Tree, ValueType, Values};
use shoal_testkit::Random;

pub(crate) const TYPES: [ValueType; 10] = ValueType::ALL;

/// Pattern of a column's values.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Shape {
    Equal,
    Alternating,
    Extremes,
    Random,
    Edgy,
    Small,
    Walk,
    Ascending,
    Runs,
    Outliers,
    Decimal,
    StrangeFloats,
}

pub(crate) const SHAPES: [Shape; 12] = [
    Shape::Equal,
    Shape::Alternating,
    Shape::Extremes,
    Shape::Random,
    Shape::Edgy,
    Shape::Small,
    Shape::Walk,
    Shape::Ascending,
    Shape::Runs,
    Shape::Outliers,
    Shape::Decimal,
    Shape::StrangeFloats,
];

/// Around every boundary of groups, tiles and segments.
pub(crate) const ROWS: [usize; 13] = [0, 1, 2, 3, 31, 32, 33, 1023, 1024, 1025, 2048, 5000, 66_000];

/// A column of bit patterns in a type.
pub(crate) fn typed(value_type: ValueType, patterns: &[u64]) -> Values {
    let width = value_type.width_bytes();
    let bytes = patterns.iter().flat_map(|pattern| pattern.to_le_bytes().into_iter().take(width));
    Values::from_le_bytes(value_type, &bytes.collect::<Vec<u8>>())
}

/// A column of one shape.
pub(crate) fn column(
    chance: &mut Random,
    value_type: ValueType,
    shape: Shape,
    rows: usize,
) -> Values {
    let width = 8 * value_type.width_bytes() as u32;
    let start = chance.edgy();
    let mut at = start;
    let mut left = 0;
    let mut pattern = |row: usize| match shape {
        Shape::Equal => start,
        Shape::Alternating => row as u64 & 1,
        Shape::Extremes => [0, u64::MAX, 1 << (width - 1), (1 << (width - 1)) - 1][chance.below(4)],
        Shape::Random => chance.word(),
        Shape::Edgy => chance.edgy(),
        Shape::Small => chance.word() % 100,
        Shape::Walk => {
            at = at.wrapping_add(chance.word() % 21).wrapping_sub(10);
            at
        }
        Shape::Ascending => {
            at = at.wrapping_add(1000 * (chance.word() % 3));
            at
        }
        Shape::Runs => {
            if left == 0 {
                (at, left) = (chance.edgy(), chance.below(300));
            } else {
                left -= 1;
            }
            at
        }
        Shape::Outliers if chance.below(100) == 0 => chance.word(),
        Shape::Outliers => 5000 + chance.word() % 16,
        Shape::Decimal => decimal(value_type, chance.word() % 2_000_000),
        Shape::StrangeFloats => strange(value_type, chance),
    };
    let patterns: Vec<u64> = (0..rows).map(&mut pattern).collect();
    typed(value_type, &patterns)
}

/// Bytes of kind 0 to 4: text of a few hundred words, one byte, two bytes, noise, long runs.
pub(crate) fn bytes_of(chance: &mut Random, kind: usize, rows: usize) -> Vec<u8> {
    let words: Vec<Vec<u8>> = (0..300)
        .map(|_| (0..2 + chance.below(7)).map(|_| b"etaoinshrdlu"[chance.below(12)]).collect())
        .collect();
    let mut bytes = Vec::with_capacity(rows + 300);
    while bytes.len() < rows {
        match kind {
            0 => {
                bytes.extend(&words[chance.below(300).min(chance.below(300))]);
                bytes.push(b' ');
            }
            1 => bytes.push(7),
            2 => bytes.push(chance.below(2) as u8),
            3 => bytes.push(chance.word() as u8),
            _ => {
                let (byte, length) = (chance.word() as u8, chance.below(300));
                bytes.extend(vec![byte; length]);
            }
        }
    }
    bytes.truncate(rows);
    bytes
}

/// A number of two decimals, as bit pattern.
fn decimal(value_type: ValueType, hundredths: u64) -> u64 {
    let number = (hundredths as f64 - 1e6) / 100.0;
    match value_type {
        ValueType::F32 => (number as f32).to_bits().into(),
        ValueType::F64 => number.to_bits(),
        _ => hundredths * 100 + 7,
    }
}

/// NaN payloads, zeros, denormals, infinities among plain decimals, as bit patterns.
fn strange(value_type: ValueType, chance: &mut Random) -> u64 {
    let few = [0.0, -0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 8.0, -1.5];
    let number = few[chance.below(few.len())];
    match (value_type, chance.below(30)) {
        (ValueType::F32, 0) => 0x7fa0_0000 | (chance.word() & 0xffff),
        (ValueType::F64, 0) => 0xfff4_0000_0000_0000 | (chance.word() & 0xffff),
        (ValueType::F32, 1..4) => (number as f32).to_bits().into(),
        (ValueType::F64, 1..4) => number.to_bits(),
        (_, _) => decimal(value_type, chance.word() % 5000),
    }
}

/// Trees that try every encoding at every place that it may have.
const TREES: [&str; 55] = [
    "raw",
    "afl",
    "const",
    "gfc",
    "patch(afl)",
    "scale(afl)",
    "scale(patch(afl))",
    "patch(scale(afl))",
    "patch(raw)",
    "scale(raw)",
    "divisor(afl)",
    "divisor.100.7(raw)",
    "patch(divisor.100.7(patch(afl)))",
    "float_to_int(delta.z(patch(afl)))",
    "float_to_int.2(raw)",
    "patch(float_to_int.2(patch(afl)))",
    "rle(afl, afl)",
    "rle(patch(afl), scale(afl))",
    "rle(delta.z(afl), patch(afl))",
    "rle(dict.256(afl), rle(afl, afl))",
    "rle(const, const)",
    "rle(gfc, afl)",
    "dict.65536(afl)",
    "dict.65536(rle(afl, afl))",
    "dict.15(rle(afl, afl), scale(afl))",
    "dict.2(rle(afl, afl), afl)",
    "dict.1(raw, afl)",
    "dict.255(patch(afl), scale(afl))",
    "dict.256(delta.z(afl), gfc)",
    "dict.7(group(afl), rle(afl, afl))",
    "dict.3(afl, dict.3(afl, afl))",
    "huffman",
    "patch(huffman)",
    "scale(huffman)",
    "rle(huffman, huffman)",
    "dict.300(huffman)",
    "float_to_int(keyed_delta.z(huffman, scale(huffman)))",
    "stateless.1.1",
    "stateless.16.2",
    "stateless.256.64",
    "dict.5(stateless.3.64)",
    "dict.5(group(stateless.3.64), afl)",
    "lzw.1(afl)",
    "lzw.2(huffman)",
    "lzw.256(patch(afl))",
    "lzw.64(rle(scale(afl), afl))",
    "huffman_long",
    "patch(huffman_long)",
    "rle(huffman_long, huffman_long)",
    "dict.300(huffman_long, huffman_long)",
    "group(afl)",
    "group(raw)",
    "group(delta(scale(afl)))",
    "divisor(keyed_delta.z(patch(afl), scale(afl)))",
    "float_to_int(keyed_delta2.z(patch(afl), scale(afl)))",
];

/// The same with `.m` for both modes of differences.
const TREES_OF_MODES: [&str; 13] = [
    "delta.m(afl)",
    "delta.m(raw)",
    "delta.m(rle(afl, afl))",
    "delta.m(delta2.m(patch(afl)))",
    "delta2.m(afl)",
    "delta2.m(scale(patch(afl)))",
    "delta2.m(huffman)",
    "keyed_delta.m(huffman_long, scale(afl))",
    "keyed_delta2.m(huffman, scale(huffman))",
    "keyed_delta.m(afl, afl)",
    "keyed_delta.m(rle(afl, afl), delta.m(afl))",
    "keyed_delta2.m(patch(afl), scale(afl))",
    "keyed_delta2.m(dict.9(afl, afl), gfc)",
];

/// Parses the text form of a tree.
pub(crate) fn tree(text: &str) -> Tree {
    text.parse().unwrap()
}

/// All trees; every encoding occurs at every place that it may have.
pub(crate) fn trees() -> Vec<Tree> {
    let of_mode =
        |mode: &'static str| TREES_OF_MODES.map(move |text| tree(&text.replace(".m", mode)));
    TREES.map(tree).into_iter().chain(["", ".z"].into_iter().flat_map(of_mode)).collect()
}
