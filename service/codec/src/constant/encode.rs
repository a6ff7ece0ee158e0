//! When is a column one value?
//!
//! When all its values have one bit pattern, or there is none.

use crate::encoding::Encoding;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: &NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    let first = node.values.first().copied().unwrap_or_default();
    if node.values.iter().any(|value| *value != first) {
        return NotApplicable::because("const takes equal values");
    }
    writer.node(Encoding::Const, node, Vec::new(), (0, first.into()));
    Ok(())
}
