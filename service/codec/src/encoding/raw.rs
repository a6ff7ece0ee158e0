//! Encoding `raw`: values little-endian in row order, nothing between them (FORMAT.md, section
//! 6.1).

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, SectionSpec};
use crate::section::{Fault, Section};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `raw` node.
pub(crate) const SPEC: NodeSpec = NodeSpec { sections: &[SectionSpec::Column], ..NodeSpec::LEAF };

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    let mut bytes = Vec::with_capacity(node.values.len() * T::BYTES);
    for value in node.values {
        value.write(&mut bytes);
    }
    writer.node(Encoding::Raw, &node, vec![bytes], 0, 0);
    Ok(())
}

/// Decoder of a `raw` node.
pub(crate) struct Raw<'a> {
    values: Section<'a>,
}

impl<'a> Raw<'a> {
    pub(crate) fn open(node: &NodeInput<'a>, _: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Ok(Self { values: node.sections[0] })
    }

    pub(crate) fn tile<T: Word>(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        // The plan's check has confirmed the length of the section.
        let bytes = &self.values.bytes[context.tile * TILE_VALUES * T::BYTES..];
        for (value, bytes) in out.iter_mut().zip(bytes.chunks_exact(T::BYTES)) {
            *value = T::read(bytes);
        }
        Ok(())
    }
}
