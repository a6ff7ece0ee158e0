//! How do values become differences of differences?
//!
//! The first two of a tile repeat the third, base and slope make up for it (FORMAT.md, section
//! 6.4).

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
    let mut starts = Vec::with_capacity(node.counts.tiles() * 2 * T::BYTES);
    let mut stored = Vec::with_capacity(node.values.len());
    for tile in node.tiles() {
        let [first, second, third] = first_three(tile);
        let bend = match tile.len() {
            0..3 => T::default(),
            _ => third.minus(second).minus(second.minus(first)),
        };
        // d(0) = d(1) - bend, slope = d(0) - bend, base = v(0) - d(0).
        let before = second.minus(first).minus(bend);
        first.minus(before).write(&mut starts);
        before.minus(bend).write(&mut starts);
        stored.extend(tile.iter().take(2).map(|_| mode.store(bend)));
        stored.extend(tile.windows(3).map(|values| {
            mode.store(values[2].minus(values[1]).minus(values[1].minus(values[0])))
        }));
    }
    writer.node(Encoding::Delta2, &node, vec![starts], (mode.code(), 0));
    writer.subtree(child, node.child(T::UNSIGNED, &stored))
}

/// The first three values, the last one repeated where there are fewer.
fn first_three<T: Word>(tile: &[T]) -> [T; 3] {
    let first = tile.first().copied().unwrap_or_default();
    let second = tile.get(1).copied().unwrap_or(first);
    [first, second, tile.get(2).copied().unwrap_or(second)]
}
