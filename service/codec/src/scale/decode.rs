//! How do distances become values? The tile's least value is added.
//!
//! Arithmetic wraps, so nothing can go wrong here that the child has not refused.

use crate::section::{Fault, Section};
use crate::tree_decode::{Node, NodeReader, TileContext, TileTree};
use crate::word::Word;

/// A scale node.
pub(crate) struct Scale<'a, T> {
    bases: Section<'a>,
    child: Box<TileTree<'a, T>>,
}

impl<'a, T: Word> Scale<'a, T> {
    pub(crate) fn open(node: &Node<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Ok(Self { bases: node.sections[0], child: TileTree::open_boxed(reader)? })
    }

    pub(crate) fn tile(&self, context: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        self.child.tile(context, out)?;
        let base = self.bases.value(context.tile);
        for value in out {
            *value = value.plus(base);
        }
        Ok(())
    }
}
