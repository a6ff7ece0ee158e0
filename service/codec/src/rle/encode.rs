//! How do values become runs?
//!
//! As long as they go, never across a tile.

use crate::column::ValueType;
use crate::encoding::Encoding;
use crate::tile::TileCounts;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Writes the node and its children.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    values: &Tree,
    lengths: &Tree,
) -> Result<(), NotApplicable> {
    let (mut run_values, mut run_lengths) = (Vec::new(), Vec::<u16>::new());
    let mut runs = Vec::with_capacity(node.counts.tiles());
    for tile in node.tiles() {
        let start = run_values.len();
        for run in tile.chunk_by(|before, after| before == after) {
            run_values.push(run[0]);
            run_lengths.push((run.len() - 1) as u16);
        }
        runs.push((run_values.len() - start) as u16);
    }
    let section = runs.iter().flat_map(|count| count.to_le_bytes()).collect();
    writer.node(Encoding::Rle, &node, vec![section], (0, 0));
    let counts = TileCounts::Sparse(runs);
    let value_type = node.value_type;
    writer.subtree(values, NodeValues { value_type, values: &run_values, counts: &counts })?;
    let value_type = ValueType::U16;
    writer.subtree(lengths, NodeValues { value_type, values: &run_lengths, counts: &counts })
}
