//! How do differences become values? By an inclusive scan over the tile.
//!
//! Arithmetic wraps, so nothing can go wrong here that the child has not refused.

use crate::section::{Fault, Section};
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::{Mode, Word};

/// A delta node.
pub(crate) struct Delta<'a, T> {
    bases: Section<'a>,
    mode: Mode,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Delta<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let mode = Mode::from_code(node.node.parameter_u32.into()).expect("modes are checked");
        Ok(Self { bases: node.sections[0], mode, child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        self.mode.unstore(out);
        scan(self.bases.value(context.tile), out);
        Ok(())
    }
}

/// Replaces differences by `base` plus their running sum.
pub(crate) fn scan<T: Word>(base: T, differences: &mut [T]) {
    let mut value = base;
    for difference in differences {
        value = value.plus(*difference);
        *difference = value;
    }
}
