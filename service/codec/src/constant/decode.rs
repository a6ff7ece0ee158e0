//! How does one value become many?
//!
//! It is repeated; there is nothing to refuse.

use crate::tree_decode::Node;
use crate::word::Word;

/// A const node.
pub(crate) struct Const<T> {
    value: T,
}

impl<T: Word> Const<T> {
    pub(crate) fn open(node: &Node<'_>) -> Self {
        Self { value: T::low(node.node.parameter_u64) }
    }

    pub(crate) fn tile(&self, out: &mut [T]) {
        out.fill(self.value);
    }
}
