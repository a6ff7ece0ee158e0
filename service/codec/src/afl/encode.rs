//! How does a tile become the smallest words that hold it?
//!
//! Widths by group, written apart only where that is smaller (FORMAT.md, section 6.2).

use crate::packed::{WORD_BYTES, pack, pack_group, words};
use crate::tile::{GROUP_VALUES, TILE_GROUPS};
use crate::tree_encode::NodeValues;
use crate::word::Word;

/// Directory and words of all tiles.
pub(crate) fn encode<T: Word>(node: &NodeValues<'_, T>) -> Vec<Vec<u8>> {
    let mut directory = Vec::with_capacity(node.counts.tiles() * 8);
    let mut out = Vec::with_capacity(node.values.len() * T::BYTES / 2);
    for tile in node.tiles() {
        let offset = u32::try_from(out.len() / WORD_BYTES).expect("a block has fewer words");
        directory.extend_from_slice(&offset.to_le_bytes());
        directory.extend_from_slice(&(tile.len() as u16).to_le_bytes());
        let widths = Widths::of(tile);
        directory.extend_from_slice(&[widths.least, widths.bits]);
        widths.write(&mut out);
        for (group, width) in tile.chunks(GROUP_VALUES).zip(widths.groups) {
            match group.as_array() {
                Some(group) => pack_group(group, width.into(), &mut out),
                None => pack(group, width.into(), &mut out),
            }
        }
    }
    vec![directory, out]
}

/// Widths that a tile is written with.
struct Widths {
    groups: [u8; TILE_GROUPS],
    count: usize,
    least: u8,
    bits: u8,
}

impl Widths {
    /// Varied widths where they save words, one width elsewhere.
    fn of<T: Word>(tile: &[T]) -> Self {
        let mut groups = [0; TILE_GROUPS];
        let count = tile.len().div_ceil(GROUP_VALUES);
        let (mut wide, mut low) = (0, u8::MAX);
        for (group, width) in tile.chunks(GROUP_VALUES).zip(&mut groups) {
            let all = group.iter().fold(T::default(), |all, value| all | *value);
            *width = all.bits() as u8;
            wide = wide.max(*width);
            low = low.min(*width);
        }
        if count == 0 {
            return Self { groups, count, least: 0, bits: 0 };
        }
        let words_at = |width_of: &dyn Fn(usize) -> u8| -> usize {
            let group_words =
                |(group, values): (usize, &[T])| words(values.len(), width_of(group).into());
            tile.chunks(GROUP_VALUES).enumerate().map(group_words).sum()
        };
        let bits = (wide - low).bits() as u8;
        let varied = words(count, bits.into()) + words_at(&|group| groups[group]);
        if varied < words_at(&|_| wide) {
            return Self { groups, count, least: low, bits };
        }
        Self { groups: [wide; TILE_GROUPS], count, least: wide, bits: 0 }
    }

    /// Appends the packed widths.
    fn write(&self, out: &mut Vec<u8>) {
        let above = self.groups.map(|width| width.wrapping_sub(self.least));
        pack(&above[..self.count], self.bits.into(), out);
    }
}
