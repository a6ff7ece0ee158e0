//! How are the raw values of a tile read?
//!
//! Bytes come in whole values: the section's length is checked with the plan.

use crate::section::Section;
use crate::tile::TILE_VALUES;
use crate::tree_decode::Node;
use crate::word::Word;

/// A raw node.
pub(crate) struct Raw<'a> {
    values: Section<'a>,
}

impl<'a> Raw<'a> {
    pub(crate) fn open(node: &Node<'a>) -> Self {
        Self { values: node.sections[0] }
    }

    pub(crate) fn tile<T: Word>(&self, tile: usize, out: &mut [T]) {
        let bytes = &self.values.bytes[tile * TILE_VALUES * T::BYTES..];
        for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
            *value = T::read(bytes);
        }
    }
}
