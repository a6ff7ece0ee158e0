//! How do values become distances?
//!
//! The least value of each tile, in the order of the value type, is its base.

use crate::encoding::Encoding;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    child: &Tree,
) -> Result<(), NotApplicable> {
    // Signed order is unsigned order with the sign bit turned.
    let sign = T::low(if node.value_type.is_signed() { 1 << (T::BITS - 1) } else { 0 });
    let mut bases = Vec::with_capacity(node.counts.tiles() * T::BYTES);
    let mut distances = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let least = tile.iter().map(|value| value.plus(sign)).min();
        let base = least.map_or(T::default(), |least| least.minus(sign));
        base.write(&mut bases);
        distances.extend(tile.iter().map(|value| value.minus(base)));
    }
    writer.node(Encoding::Scale, &node, vec![bases], (0, 0));
    writer.subtree(child, node.child(T::UNSIGNED, &distances))
}
