//! How are the groups of a tile unpacked?
//!
//! Widths first, then group after group, each by a loop of its own width. Lengths follow from the
//! widths and are checked before anything is unpacked.

use crate::packed::{WORD_BYTES, unpack, unpack_group, words};
use crate::section::{Fault, Section};
use crate::tile::{GROUP_VALUES, TILE_GROUPS};
use crate::tree_decode::Node;
use crate::word::Word;

/// An afl node.
pub(crate) struct Afl<'a> {
    directory: Section<'a>,
    words: Section<'a>,
}

/// Widths of the groups of one tile.
struct Widths {
    groups: [u8; TILE_GROUPS],
    /// Bytes that the packed widths take.
    bytes: usize,
}

impl<'a> Afl<'a> {
    pub(crate) fn open(node: &Node<'a>) -> Self {
        Self { directory: node.sections[0], words: node.sections[1] }
    }

    /// Decodes the `out.len()` values of a tile.
    pub(crate) fn tile<T: Word>(&self, tile: usize, out: &mut [T]) -> Result<(), Fault> {
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let widths = self.widths::<T>(tile, bytes, out.len())?;
        let mut rest = &bytes[widths.bytes..];
        for (group, width) in out.chunks_mut(GROUP_VALUES).zip(widths.groups) {
            let width = u32::from(width);
            let packed;
            (packed, rest) = rest.split_at(words(group.len(), width) * WORD_BYTES);
            match group.as_mut_array() {
                Some(group) => unpack_group(packed, width, group),
                None => unpack(packed, width, group),
            }
        }
        Ok(())
    }

    /// Reads the widths of a tile of `count` values and confirms that its words are all there.
    fn widths<T: Word>(&self, tile: usize, bytes: &[u8], count: usize) -> Result<Widths, Fault> {
        let [_, _, _, _, low, high, width_min, width_bits] = self.directory.entry(tile);
        let (stated, groups) = (u16::from_le_bytes([low, high]), count.div_ceil(GROUP_VALUES));
        if usize::from(stated) != count {
            let problem = format!("tile {tile} has {stated} values, {count} are due");
            return self.directory.fault(tile * 8 + 4, problem);
        }
        if width_bits > 7 {
            let problem = format!("tile {tile} has widths of {width_bits} bits, at most 7");
            return self.directory.fault(tile * 8 + 7, problem);
        }
        let mut widths = Widths { groups: [width_min; TILE_GROUPS], bytes: 0 };
        if width_bits > 0 {
            widths.bytes = words(groups, width_bits.into()) * WORD_BYTES;
            let Some(packed) = bytes.get(..widths.bytes) else {
                self.directory.check_length(tile, bytes.len(), widths.bytes)?;
                unreachable!("the widths do not fit");
            };
            unpack(packed, width_bits.into(), &mut widths.groups[..groups]);
            for width in &mut widths.groups[..groups] {
                *width = width.saturating_add(width_min);
            }
        }
        let used = &widths.groups[..groups];
        let greatest = used.iter().copied().max().unwrap_or(0);
        if u32::from(greatest) > T::BITS {
            let problem = format!("tile {tile} has a width of {greatest}, above {}", T::BITS);
            return self.directory.fault(tile * 8 + 6, problem);
        }
        let mut expected = widths.bytes / WORD_BYTES;
        for (group, width) in used.iter().enumerate() {
            let length = (count - group * GROUP_VALUES).min(GROUP_VALUES);
            expected += words(length, u32::from(*width));
        }
        self.directory.check_length(tile, bytes.len(), expected * WORD_BYTES)?;
        Ok(widths)
    }
}
