//! How do values in grouped order become differences along each key?
//!
//! Heads go to a child of their own; the residual at a head is 0.

use crate::encoding::Encoding;
use crate::tile::TileCounts;
use crate::tree::Tree;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::{Mode, Word};

/// Writes the node and its children.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    mode: Mode,
    residuals: &Tree,
    heads: &Tree,
) -> Result<(), NotApplicable> {
    let stored = |run: &[T], out: &mut Vec<T>| {
        out.push(T::default());
        out.extend(run.windows(2).map(|pair| mode.store(pair[1].minus(pair[0]))));
    };
    write_keyed(writer, node, Encoding::KeyedDelta, mode, [residuals, heads], stored)
}

/// Writes a keyed node: `stored` appends the residuals of one run, its head's own first.
pub(crate) fn write_keyed<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    encoding: Encoding,
    mode: Mode,
    [residuals, heads]: [&Tree; 2],
    stored: impl Fn(&[T], &mut Vec<T>),
) -> Result<(), NotApplicable> {
    if matches!(node.counts, TileCounts::Sparse(_)) {
        return NotApplicable::because("keyed nodes give a value for every row");
    }
    let mut residual_values = Vec::with_capacity(node.values.len());
    let (mut head_values, mut counts) = (Vec::new(), Vec::new());
    for (number, tile) in node.tiles().enumerate() {
        let starts = writer.heads().starts(number, tile.len());
        for index in 0..starts.len() {
            let run = &tile[starts.start(index)..starts.start(index + 1)];
            head_values.push(run[0]);
            stored(run, &mut residual_values);
        }
        counts.push(starts.len() as u16);
    }
    let section = counts.iter().flat_map(|count| count.to_le_bytes()).collect();
    writer.keyed_node(encoding, &node, vec![section], mode.code().into());
    writer.subtree(residuals, node.child(T::UNSIGNED, &residual_values))?;
    let counts = TileCounts::Sparse(counts);
    let value_type = node.value_type;
    writer.subtree(heads, NodeValues { value_type, values: &head_values, counts: &counts })
}
