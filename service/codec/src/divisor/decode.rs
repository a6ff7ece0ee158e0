//! How do quotients become values? Times the divisor, plus the remainder.
//!
//! Arithmetic wraps, so nothing can go wrong here that the child has not refused.

use crate::section::Fault;
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::Word;

/// A divisor node.
pub(crate) struct Divisor<'a, T> {
    divisor: T,
    remainder: T,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Divisor<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
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
