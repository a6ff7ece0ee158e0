//! Encoding `const`: one value in every row
//! (FORMAT.md, section 6.11).

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, ParameterSpec};
use crate::section::Fault;
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `const` node. The second parameter is the value.
pub(crate) const SPEC: NodeSpec =
    NodeSpec { parameter_u64: ParameterSpec::Value, ..NodeSpec::LEAF };

/// Writes the node; the value is 0 if there are no rows.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    let first = node.values.first().copied().unwrap_or_default();
    if node.values.iter().any(|value| *value != first) {
        return NotApplicable::because("const takes equal values");
    }
    writer.node(Encoding::Const, &node, Vec::new(), 0, first.into());
    Ok(())
}

/// Decoder of a `const` node.
pub(crate) struct Const<T> {
    value: T,
}

impl<T: Word> Const<T> {
    pub(crate) fn open(node: &NodeInput<'_>, _: &mut NodeReader<'_>) -> Result<Self, Fault> {
        Ok(Self { value: T::low(node.node.parameter_u64) })
    }

    pub(crate) fn tile(&self, _: TileContext<'_>, out: &mut [T]) -> Result<(), Fault> {
        out.fill(self.value);
        Ok(())
    }
}
