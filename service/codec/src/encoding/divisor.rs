//! Encoding `divisor`: quotients by a divisor that all values
//! share (FORMAT.md, section 6.6).

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, PlacedNode};
use crate::plan::{PlanFault, at};
use crate::section::Fault;
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_type::ValueType;
use crate::word::Word;

/// Rules of every `divisor` node: parameters are remainder and divisor.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::SAME],
    parameter_u32: ParameterSpec::Own,
    parameter_u64: ParameterSpec::Own,
    check,
    ..NodeSpec::LEAF
};

/// The greatest divisor of values of one type.
fn divisor_max(value_type: ValueType) -> u64 {
    let bits = 8 * value_type.width_bytes() as u32 - u32::from(value_type.is_signed());
    if bits >= 32 { u32::MAX.into() } else { (1 << bits) - 1 }
}

/// Checks the type, the divisor and the remainder.
fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    let value_type = placed.node.value_type;
    let (divisor, remainder) = (placed.node.parameter_u64, placed.node.parameter_u32);
    if value_type.is_float() {
        let problem = "divisor gives a floating type, it takes integers".to_owned();
        return placed.fault(at::VALUE_TYPE, problem);
    }
    if !(2..=divisor_max(value_type)).contains(&divisor) {
        let most = divisor_max(value_type);
        return placed.fault(at::PARAMETER_U64, format!("divisor is {divisor}, not 2 to {most}"));
    }
    if u64::from(remainder) >= divisor {
        let problem = format!("remainder is {remainder}, the divisor {divisor}");
        return placed.fault(at::PARAMETER_U32, problem);
    }
    Ok(())
}

/// A divisor and remainder that a plan gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DivisorChoice {
    /// 2 or more.
    pub divisor: u32,
    /// Below the divisor.
    pub remainder: u32,
}

impl DivisorChoice {
    /// True if a reader accepts this choice for values of this type.
    pub fn suits(self, value_type: ValueType) -> bool {
        !value_type.is_float() && Division::new(self, value_type).is_some()
    }

    /// Returns the inverse of the divisor's odd part modulo 2^64, the number of factors of two, and
    /// the greatest quotient. A number is a multiple if its product with the inverse, rotated right
    /// by the number of factors of two, does not exceed the greatest quotient.
    pub fn inverse(self) -> (u64, u32, u64) {
        let Divisible { inverse, shift, limit } = Divisible::by(self.divisor.into());
        (inverse, shift, limit)
    }

    /// Creates a choice from a divisor and `value`, one of the values that share it (sign-extended
    /// if the type is signed); `None` if the type does not allow the divisor.
    pub fn shared(divisor: u64, value: u64, value_type: ValueType) -> Option<Self> {
        if divisor < 2 || divisor > divisor_max(value_type) {
            return None;
        }
        let remainder = if value_type.is_signed() {
            (value as i64).rem_euclid(divisor as i64) as u64
        } else {
            value % divisor
        };
        let narrow = |number| u32::try_from(number).expect("divisors have at most 32 bits");
        Some(Self { divisor: narrow(divisor), remainder: narrow(remainder) })
    }
}

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    choice: &Option<DivisorChoice>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    if node.value_type.is_float() {
        return NotApplicable::because("divisor takes integers");
    }
    let Some(choice) = choice.or_else(|| common(node.value_type, node.values)) else {
        return NotApplicable::because("values share no divisor above 1");
    };
    let Some(division) = Division::new(choice, node.value_type) else {
        return NotApplicable::because("the divisor does not suit the type");
    };
    let mut fits = true;
    let quotient = |value: &T| {
        let quotient = division.quotient(*value);
        fits &= quotient.is_some();
        quotient.unwrap_or_default()
    };
    let quotients: Vec<T> = node.values.iter().map(quotient).collect();
    if !fits {
        return NotApplicable::because("a value is no multiple of the divisor");
    }
    writer.node(Encoding::Divisor, &node, Vec::new(), choice.remainder, choice.divisor.into());
    writer.subtree(child, node.child(node.value_type, &quotients))
}

/// Distance between two values of a type.
fn distance<T: Word>(one: T, other: T, is_signed: bool) -> u64 {
    let (one, other) = (one.extend(is_signed), other.extend(is_signed));
    if is_signed { (one as i64).abs_diff(other as i64) } else { one.abs_diff(other) }
}

/// The greatest common divisor of all differences, with its remainder. `None` if the divisor is 1
/// or above its limit, or if all values are equal.
pub(crate) fn common<T: Word>(value_type: ValueType, values: &[T]) -> Option<DivisorChoice> {
    let first = *values.first()?;
    let is_signed = value_type.is_signed();
    let mut divisor = 0;
    let mut test = Divisible::by(1);
    for value in values {
        let difference = distance(*value, first, is_signed);
        if difference == 0 || (divisor != 0 && test.holds(difference)) {
            continue;
        }
        divisor = greatest_common(divisor, difference);
        if divisor == 1 {
            return None;
        }
        test = Divisible::by(divisor);
    }
    DivisorChoice::shared(divisor, first.extend(is_signed), value_type)
}

/// Euclid's algorithm; 0 is divisible by everything.
fn greatest_common(mut one: u64, mut other: u64) -> u64 {
    while other != 0 {
        (one, other) = (other, one % other);
    }
    one
}

/// Tests for multiples of one divisor. Divisibility and exact quotients take one multiplication by
/// the inverse of the odd part modulo 2^64 (Granlund and Montgomery 1994, section 9).
#[derive(Clone, Copy)]
struct Divisible {
    /// Inverse of the odd part modulo 2^64.
    inverse: u64,
    /// Number of factors of two in the divisor.
    shift: u32,
    /// The greatest quotient.
    limit: u64,
}

impl Divisible {
    /// `divisor` is above 0.
    fn by(divisor: u64) -> Self {
        let shift = divisor.trailing_zeros();
        let odd = divisor >> shift;
        // Each Newton step doubles the number of correct bits: 3, 6, 12, 24, 48, 96.
        let mut inverse = odd;
        for _ in 0..5 {
            inverse = inverse.wrapping_mul(2_u64.wrapping_sub(odd.wrapping_mul(inverse)));
        }
        Self { inverse, shift, limit: u64::MAX / divisor }
    }

    /// The quotient of a multiple; for other numbers, a result above the greatest quotient.
    fn quotient(self, number: u64) -> u64 {
        number.wrapping_mul(self.inverse).rotate_right(self.shift)
    }

    /// True if `number` is a multiple of the divisor.
    fn holds(self, number: u64) -> bool {
        self.quotient(number) <= self.limit
    }
}

/// Division of values of one type by one divisor after subtraction of its remainder.
pub(crate) struct Division {
    remainder: u64,
    divisible: Divisible,
    is_signed: bool,
}

impl Division {
    /// `None` if no reader would accept it.
    pub(crate) fn new(choice: DivisorChoice, value_type: ValueType) -> Option<Self> {
        let divisor = u64::from(choice.divisor);
        let fits = (2..=divisor_max(value_type)).contains(&divisor);
        (fits && choice.remainder < choice.divisor).then(|| Self {
            remainder: choice.remainder.into(),
            divisible: Divisible::by(divisor),
            is_signed: value_type.is_signed(),
        })
    }

    /// The quotient of `value` minus the remainder; `None` if the division is not exact.
    pub(crate) fn quotient<T: Word>(&self, value: T) -> Option<T> {
        let extended = value.extend(self.is_signed);
        let (magnitude, is_negative) = if self.is_signed {
            let number = (extended as i64).checked_sub(self.remainder as i64)?;
            (number.unsigned_abs(), number < 0)
        } else {
            (extended.checked_sub(self.remainder)?, false)
        };
        let quotient = self.divisible.quotient(magnitude);
        if quotient > self.divisible.limit {
            return None;
        }
        Some(T::low(if is_negative { quotient.wrapping_neg() } else { quotient }))
    }
}

/// Decoder of a `divisor` node, modulo 2^W.
pub(crate) struct Divisor<'a, T> {
    divisor: T,
    remainder: T,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Divisor<'a, T> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let divisor = T::low(node.node.parameter_u64);
        let remainder = T::low(node.node.parameter_u32.into());
        Ok(Self { divisor, remainder, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        for value in out {
            *value = value.times(self.divisor).plus(self.remainder);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exact_quotients_agree_with_division() {
        for divisor in [2_u32, 3, 5, 8, 10, 100, 1000, 12_345, 86_400_000, u32::MAX] {
            for remainder in [0, 1, divisor - 1] {
                let choice = DivisorChoice { divisor, remainder };
                let Some(division) = Division::new(choice, ValueType::I64) else {
                    panic!("{choice:?}")
                };
                for value in [-1_000_000_007_i64, -1, 0, 1, 99, 100, 86_400_000 * 12, i64::MAX] {
                    let number = value - i64::from(remainder);
                    let exact = number % i64::from(divisor) == 0;
                    let expected = exact.then(|| (number / i64::from(divisor)) as u64);
                    assert_eq!(division.quotient(value as u64), expected, "{value} by {choice:?}");
                }
            }
        }
    }

    #[test]
    fn the_common_divisor_is_found_with_its_remainder() {
        let values = [-93_i32, 7, 107, 1_000_007].map(|value| value as u32);
        let found = common(ValueType::I32, &values);
        assert_eq!(found, Some(DivisorChoice { divisor: 100, remainder: 7 }));
        assert_eq!(common(ValueType::U32, &[1_u32, 2]), None);
        assert_eq!(common(ValueType::U32, &[5_u32, 5]), None);
        assert_eq!(common::<u64>(ValueType::U64, &[]), None);
        let far = [0_u64, 1 << 40];
        assert_eq!(common(ValueType::U64, &far), None);
    }
}
