//! Encoding `huffman_long`: `huffman` with groups of 256 values (FORMAT.md, section 6.20).
//!
//! The sizes of groups take about a quarter of the bytes that they take in `huffman`. A CPU decodes
//! four groups at a time in either encoding; a device uses a quarter of the lanes.

use crate::encoding::Encoding;
use crate::encoding::huffman::{self, Huffman, encode_groups};
use crate::node_spec::NodeSpec;
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Values of a whole group.
const GROUP_VALUES: usize = 256;

/// Rules of every `huffman_long` node. They equal those of `huffman`, whose bounds also hold for
/// fewer groups.
pub(crate) const SPEC: NodeSpec = huffman::SPEC;

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    encode_groups::<T, GROUP_VALUES>(writer, node, Encoding::HuffmanLong)
}

/// Decoder of a `huffman_long` node.
pub(crate) type HuffmanLong<'a> = Huffman<'a, GROUP_VALUES>;
