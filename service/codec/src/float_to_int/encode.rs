//! Which floats are decimals of how many digits?
//!
//! A float fits if its integer gives back every bit; -0.0, infinities and NaN never do.

use crate::column::ValueType;
use crate::encoding::Encoding;
use crate::float_to_int::decode::to_float;
use crate::float_to_int::spec::{DECIMALS_MAX, power_of_ten};
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Integers of doubles lie within 2^53: beyond, not every integer is a double.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    decimals: Option<u8>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let Some(integer_type) = integer_type(node.value_type) else {
        return NotApplicable::because("float_to_int takes floats");
    };
    let Some(decimals) = decimals.map(u32::from).or_else(|| least_decimals(node.values)) else {
        return NotApplicable::because("no number of decimals suits all values");
    };
    if decimals > DECIMALS_MAX {
        return NotApplicable::because("too many decimals");
    }
    let mut integers = Vec::with_capacity(node.values.len());
    for value in node.values {
        match to_integer(*value, decimals) {
            Some(integer) => integers.push(integer),
            None => return NotApplicable::because("a value has other decimals"),
        }
    }
    writer.node(Encoding::FloatToInt, &node, Vec::new(), (decimals, 0));
    writer.subtree(child, node.child(integer_type, &integers))
}

/// Type of the integers that stand for floats.
pub(crate) fn integer_type(value_type: ValueType) -> Option<ValueType> {
    match value_type {
        ValueType::F32 => Some(ValueType::I32),
        ValueType::F64 => Some(ValueType::I64),
        _ => None,
    }
}

/// The integer pattern that gives back the float pattern `value`, if there is one.
pub(crate) fn to_integer<T: Word>(value: T, decimals: u32) -> Option<T> {
    let (pattern, power) = (value.into(), power_of_ten(decimals));
    let is_double = T::BITS == 64;
    let double =
        if is_double { f64::from_bits(pattern) } else { f32::from_bits(pattern as u32).into() };
    let rounded = (double * power).round_ties_even();
    let limit = if is_double { INTEGER_MAX } else { i32::MAX.into() };
    // NaN compares false and is refused here too.
    if !(-limit..=limit).contains(&rounded) {
        return None;
    }
    let integer = T::low(rounded as i64 as u64);
    (to_float(integer, power) == value).then_some(integer)
}

/// The least number of decimals that suits all values.
pub(crate) fn least_decimals<T: Word>(values: &[T]) -> Option<u32> {
    let mut decimals = 0;
    loop {
        let before = decimals;
        for value in values {
            while to_integer(*value, decimals).is_none() {
                decimals += 1;
                if decimals > DECIMALS_MAX {
                    return None;
                }
            }
        }
        // Values seen before an increase are seen again with it.
        if decimals == before {
            return Some(decimals);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimals_are_the_least_and_strange_floats_are_refused() {
        let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
        assert_eq!(least_decimals(&bits(&[1.0, -2.0])), Some(0));
        assert_eq!(least_decimals(&bits(&[0.1, 12.25, -7.0])), Some(2));
        assert_eq!(least_decimals(&bits(&[1.0 / 3.0])), Some(16));
        assert_eq!(least_decimals(&bits(&[0.1 + 0.2])), None);
        for strange in [-0.0, f64::NAN, f64::INFINITY, f64::MIN_POSITIVE / 2.0] {
            assert_eq!(least_decimals(&bits(&[1.5, strange])), None, "{strange}");
        }
        assert_eq!(least_decimals(&[0.1_f32.to_bits(), 3.5_f32.to_bits()]), Some(1));
        assert_eq!(least_decimals(&[f32::MAX.to_bits()]), None);
    }
}
