//! How do values in grouped order become differences of differences along each key?
//!
//! The position after a head holds the plain difference, later ones its change.

use crate::encoding::Encoding;
use crate::keyed_delta::encode::write_keyed;
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
        out.extend(run.get(1).map(|second| mode.store(second.minus(run[0]))));
        out.extend(run.windows(3).map(|values| {
            mode.store(values[2].minus(values[1]).minus(values[1].minus(values[0])))
        }));
    };
    write_keyed(writer, node, Encoding::KeyedDelta2, mode, [residuals, heads], stored)
}
