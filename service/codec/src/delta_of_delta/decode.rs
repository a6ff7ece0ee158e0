//! How do differences of differences become values? By two scans over the tile.
//!
//! Arithmetic wraps, so nothing can go wrong here that the child has not refused.

use crate::section::{Fault, Section};
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::{Mode, Word};

/// A delta2 node.
pub(crate) struct Delta2<'a, T> {
    /// Base and slope of each tile.
    starts: Section<'a>,
    mode: Mode,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Delta2<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u32.into()).expect("modes are checked");
        Ok(Self { starts: node.sections[0], mode, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        self.mode.unstore(out);
        let mut value: T = self.starts.value(2 * context.tile);
        let mut slope: T = self.starts.value(2 * context.tile + 1);
        for stored in out {
            slope = slope.plus(*stored);
            value = value.plus(slope);
            *stored = value;
        }
        Ok(())
    }
}
