//! How do floats become differences in whole bytes?
//!
//! Each less the one 32 before it, as sign and magnitude (FORMAT.md, section 6.12; Burtscher's
//! float codec as O'Neil and Burtscher laid it out for warps, 2011).

use crate::gfc::spec::{bytes_of_code, code_of_bytes};
use crate::packed::{WORD_BYTES, pack};
use crate::tile::GROUP_VALUES;
use crate::tree_encode::NodeValues;
use crate::word::Word;

/// Directory and words of all tiles.
pub(crate) fn encode<T: Word>(node: &NodeValues<'_, T>) -> Vec<Vec<u8>> {
    let mut directory = Vec::with_capacity(node.counts.tiles() * 8);
    let mut out = Vec::with_capacity(node.values.len() * T::BYTES);
    for tile in node.tiles() {
        let offset = u32::try_from(out.len() / WORD_BYTES).expect("a block has fewer words");
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(&(tile.len() as u16).to_le_bytes());
        directory.extend_from_slice(&[0; 2]);
        let (nibbles, bytes) = differences(tile);
        pack(&nibbles, 4, &mut out);
        out.extend_from_slice(&bytes);
        out.resize(out.len().next_multiple_of(WORD_BYTES), 0);
    }
    vec![directory, out]
}

/// Nibbles and bytes of one tile.
fn differences<T: Word>(tile: &[T]) -> (Vec<u8>, Vec<u8>) {
    let mut nibbles = Vec::with_capacity(tile.len());
    let mut bytes = Vec::with_capacity(tile.len() * T::BYTES);
    for (index, value) in tile.iter().enumerate() {
        let before = index.checked_sub(GROUP_VALUES).map_or(T::default(), |at| tile[at]);
        let difference = value.minus(before);
        let is_negative = difference.bits() == T::BITS;
        let magnitude = if is_negative { before.minus(*value) } else { difference };
        let code = code_of_bytes(magnitude.bits().div_ceil(8) as usize, T::BYTES);
        let count = bytes_of_code(code, T::BYTES).expect("the code was just made");
        nibbles.push(code | u8::from(is_negative) << 3);
        let pattern: u64 = magnitude.into();
        bytes.extend_from_slice(&pattern.to_le_bytes()[..count]);
    }
    (nibbles, bytes)
}
