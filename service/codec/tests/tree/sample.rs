//! Which columns and trees do the tests take?
//!
//! Columns of every type and shape; trees that apply to anything, and those that do not.

use shoal_codec::{DivisorChoice, Mode, Tree, ValueType, Values};

use crate::random::Random;

pub(crate) const TYPES: [ValueType; 10] = [
    ValueType::U8,
    ValueType::U16,
    ValueType::U32,
    ValueType::U64,
    ValueType::I8,
    ValueType::I16,
    ValueType::I32,
    ValueType::I64,
    ValueType::F32,
    ValueType::F64,
];

/// How the bit patterns of a column come about.
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
    let of = patterns.iter();
    match value_type {
        ValueType::U8 => Values::U8(of.map(|&v| v as u8).collect()),
        ValueType::U16 => Values::U16(of.map(|&v| v as u16).collect()),
        ValueType::U32 => Values::U32(of.map(|&v| v as u32).collect()),
        ValueType::U64 => Values::U64(patterns.to_vec()),
        ValueType::I8 => Values::I8(of.map(|&v| v as i8).collect()),
        ValueType::I16 => Values::I16(of.map(|&v| v as i16).collect()),
        ValueType::I32 => Values::I32(of.map(|&v| v as i32).collect()),
        ValueType::I64 => Values::I64(of.map(|&v| v as i64).collect()),
        ValueType::F32 => Values::F32(of.map(|&v| f32::from_bits(v as u32)).collect()),
        ValueType::F64 => Values::F64(of.map(|&v| f64::from_bits(v)).collect()),
    }
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
        Shape::Random => chance.next(),
        Shape::Edgy => chance.edgy(),
        Shape::Small => chance.next() % 100,
        Shape::Walk => {
            at = at.wrapping_add(chance.next() % 21).wrapping_sub(10);
            at
        }
        Shape::Ascending => {
            at = at.wrapping_add(1000 * (chance.next() % 3));
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
        Shape::Outliers if chance.below(100) == 0 => chance.next(),
        Shape::Outliers => 5000 + chance.next() % 16,
        Shape::Decimal => decimal(value_type, chance.next() % 2_000_000),
        Shape::StrangeFloats => strange(value_type, chance),
    };
    let patterns: Vec<u64> = (0..rows).map(&mut pattern).collect();
    typed(value_type, &patterns)
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
        (ValueType::F32, 0) => 0x7fa0_0000 | (chance.next() & 0xffff),
        (ValueType::F64, 0) => 0xfff4_0000_0000_0000 | (chance.next() & 0xffff),
        (ValueType::F32, 1..4) => (number as f32).to_bits().into(),
        (ValueType::F64, 1..4) => number.to_bits(),
        (_, _) => decimal(value_type, chance.next() % 5000),
    }
}

/// Trees that try every encoding at every place it may have.
pub(crate) fn trees() -> Vec<Tree> {
    use Tree::{
        Afl, Const, Delta, Delta2, Dict, Divisor, FloatToInt, Gfc, Group, KeyedDelta, KeyedDelta2,
        Patch, Raw, Rle, Scale,
    };
    let [afl, raw] = [|| Box::new(Afl), || Box::new(Raw)];
    let patched = || Box::new(Patch(afl()));
    let scaled = || Box::new(Scale(afl()));
    let hundred = Some(DivisorChoice { divisor: 100, remainder: 7 });
    let mut trees = vec![
        Raw,
        Afl,
        Const,
        Gfc,
        *patched(),
        *scaled(),
        Scale(patched()),
        Patch(scaled()),
        Patch(raw()),
        Scale(raw()),
        Divisor(None, afl()),
        Divisor(hundred, raw()),
        Patch(Divisor(hundred, patched()).into()),
        FloatToInt(None, Delta(Mode::Zigzag, patched()).into()),
        FloatToInt(Some(2), raw()),
        Patch(FloatToInt(Some(2), patched()).into()),
        Rle(afl(), afl()),
        Rle(patched(), scaled()),
        Rle(Delta(Mode::Zigzag, afl()).into(), patched()),
        Rle(Dict(256, afl(), None).into(), Rle(afl(), afl()).into()),
        Rle(Const.into(), Const.into()),
        Rle(Gfc.into(), afl()),
        Dict(65_536, afl(), None),
        Dict(65_536, Rle(afl(), afl()).into(), None),
        Dict(15, Rle(afl(), afl()).into(), Some(scaled())),
        Dict(2, Rle(afl(), afl()).into(), Some(afl())),
        Dict(1, raw(), Some(afl())),
        Dict(255, patched(), Some(scaled())),
        Dict(256, Delta(Mode::Zigzag, afl()).into(), Some(Gfc.into())),
        Dict(7, Group(afl()).into(), Some(Rle(afl(), afl()).into())),
        Dict(3, afl(), Some(Dict(3, afl(), Some(afl())).into())),
        Group(afl()),
        Group(raw()),
        Group(Delta(Mode::Plain, Scale(afl()).into()).into()),
        Divisor(None, KeyedDelta(Mode::Zigzag, patched(), scaled()).into()),
        FloatToInt(None, KeyedDelta2(Mode::Zigzag, patched(), scaled()).into()),
    ];
    for mode in [Mode::Plain, Mode::Zigzag] {
        trees.push(Delta(mode, afl()));
        trees.push(Delta(mode, raw()));
        trees.push(Delta(mode, Rle(afl(), afl()).into()));
        trees.push(Delta(mode, Delta2(mode, patched()).into()));
        trees.push(Delta2(mode, afl()));
        trees.push(Delta2(mode, Scale(patched()).into()));
        trees.push(KeyedDelta(mode, afl(), afl()));
        trees.push(KeyedDelta(mode, Rle(afl(), afl()).into(), Delta(mode, afl()).into()));
        trees.push(KeyedDelta2(mode, patched(), scaled()));
        trees.push(KeyedDelta2(mode, Dict(9, afl(), Some(afl())).into(), Gfc.into()));
    }
    trees
}
