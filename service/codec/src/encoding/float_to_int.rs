//! Encoding `float_to_int`: decimal floats as integers (FORMAT.md, section 6.7).
//!
//! A float fits if converting its integer back restores every bit; -0.0, infinities and NaN never
//! fit.

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, PlacedNode};
use crate::plan::{PlanFault, at};
use crate::section::Fault;
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_type::ValueType;
use crate::word::Word;

/// Rules of every `float_to_int` node. The first parameter is the number of decimals.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::OWN],
    parameter_u32: ParameterSpec::Own,
    check,
    ..NodeSpec::LEAF
};

/// Maximum decimals. 10^22 is the greatest power of ten that a double holds exactly.
pub const DECIMALS_MAX: u32 = 22;

/// 10 to the power of `decimals`, exact.
///
/// # Panics
/// If `decimals` is above [`DECIMALS_MAX`].
pub fn power_of_ten(decimals: u32) -> f64 {
    const POWERS: [f64; DECIMALS_MAX as usize + 1] = [
        1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15, 1e16,
        1e17, 1e18, 1e19, 1e20, 1e21, 1e22,
    ];
    POWERS[decimals as usize]
}

/// Checks the decimals and the type of the child.
fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    if placed.node.parameter_u32 > DECIMALS_MAX {
        let problem = format!("{} decimals, at most {DECIMALS_MAX}", placed.node.parameter_u32);
        return placed.fault(at::PARAMETER_U32, problem);
    }
    match integer_type(placed.node.value_type) {
        Some(integer) => placed.child_type(0, integer),
        None => {
            let code = placed.node.value_type.code();
            let problem = format!("float_to_int gives value type {code}, no float");
            placed.fault(at::VALUE_TYPE, problem)
        }
    }
}

/// Greatest magnitude of integers that stand for doubles. Above 2^53, not every integer is a
/// double.
const INTEGER_MAX: f64 = 9_007_199_254_740_992.0;

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    decimals: &Option<u8>,
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
    writer.node(Encoding::FloatToInt, &node, Vec::new(), decimals, 0);
    writer.subtree(child, node.child(integer_type, &integers))
}

/// Type of the integers that stand for floats.
pub fn integer_type(value_type: ValueType) -> Option<ValueType> {
    match value_type {
        ValueType::F32 => Some(ValueType::I32),
        ValueType::F64 => Some(ValueType::I64),
        _ => None,
    }
}

/// The integer pattern that gives back the float pattern `value`, if there is one.
pub(super) fn to_integer<T: Word>(value: T, decimals: u32) -> Option<T> {
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
        // Earlier values are checked again after the number of decimals increases.
        if decimals == before {
            return Some(decimals);
        }
    }
}

/// Decoder of a `float_to_int` node. A division of exact doubles gives the double nearest to the
/// decimal; f32 rounds once more.
pub(crate) struct FloatToInt<'a, T> {
    power: f64,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> FloatToInt<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let power = power_of_ten(node.node.parameter_u32);
        Ok(Self { power, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        for value in out {
            *value = to_float(*value, self.power);
        }
        Ok(())
    }
}

/// The bit pattern of the float that the integer pattern `integer` stands for.
#[inline(always)]
pub(super) fn to_float<T: Word>(integer: T, power: f64) -> T {
    let pattern: u64 = integer.into();
    if T::BITS == 64 {
        T::low((pattern as i64 as f64 / power).to_bits())
    } else {
        T::low(u64::from(((f64::from(pattern as u32 as i32) / power) as f32).to_bits()))
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
