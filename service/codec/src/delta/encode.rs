//! How do values become differences?
//!
//! The first difference of a tile repeats the second, and the base makes up for it, so that no
//! tile begins with an outlier (FORMAT.md, section 6.3).

use crate::encoding::Encoding;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Writes the node and its child.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: Mode,
    child: &Tree,
) -> Result<(), NotApplicable> {
    let mut bases = Vec::with_capacity(node.counts.tiles() * T::BYTES);
    let mut stored = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let first = tile.first().copied().unwrap_or_default();
        let difference = tile.get(1).map_or(T::default(), |second| second.minus(first));
        first.minus(difference).write(&mut bases);
        let others = tile.windows(2).map(|pair| mode.store(pair[1].minus(pair[0])));
        stored.extend(tile.first().map(|_| mode.store(difference)));
        stored.extend(others);
    }
    writer.node(Encoding::Delta, &node, vec![bases], (mode.code(), 0));
    writer.subtree(child, node.child(T::UNSIGNED, &stored))
}
