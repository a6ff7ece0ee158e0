//! How do integers become decimal floats? Divided by a power of ten, correctly rounded.
//!
//! A division of exact doubles gives the double nearest to the decimal; f32 rounds once more.

use crate::float_to_int::spec::power_of_ten;
use crate::section::Fault;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::Word;

/// A float_to_int node.
pub(crate) struct FloatToInt<'a, T> {
    power: f64,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> FloatToInt<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
pub(crate) fn to_float<T: Word>(integer: T, power: f64) -> T {
    let pattern: u64 = integer.into();
    if T::BITS == 64 {
        T::low((pattern as i64 as f64 / power).to_bits())
    } else {
        T::low(u64::from(((f64::from(pattern as u32 as i32) / power) as f32).to_bits()))
    }
}
