//! How do float differences in whole bytes become floats?
//!
//! Nibbles say sign and byte count of each value; their bytes follow, so every length is known
//! before a byte is taken. Each value adds to the one 32 before it.

use crate::gfc::spec::bytes_of_code;
use crate::packed::{WORD_BYTES, unpack, words};
use crate::section::{Fault, Section};
use crate::tile::{GROUP_VALUES, TILE_VALUES};
use crate::tree_decode::Node;
use crate::word::Word;

/// A gfc node.
pub(crate) struct Gfc<'a> {
    directory: Section<'a>,
    words: Section<'a>,
}

impl<'a> Gfc<'a> {
    pub(crate) fn open(node: &Node<'a>) -> Self {
        Self { directory: node.sections[0], words: node.sections[1] }
    }

    /// Decodes the `out.len()` values of a tile.
    pub(crate) fn tile<T: Word>(&self, tile: usize, out: &mut [T]) -> Result<(), Fault> {
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let [_, _, _, _, low, high, reserved @ ..] = self.directory.entry(tile);
        let stated = u16::from_le_bytes([low, high]);
        if usize::from(stated) != out.len() || reserved != [0, 0] {
            let problem = format!(
                "tile {tile} has {stated} values, reserved {reserved:?}; {} are due",
                out.len()
            );
            return self.directory.fault(tile * 8 + 4, problem);
        }
        let nibble_bytes = words(out.len(), 4) * WORD_BYTES;
        if bytes.len() < nibble_bytes {
            return self.directory.check_length(tile, bytes.len(), nibble_bytes);
        }
        let mut nibbles = [0_u8; TILE_VALUES];
        let nibbles = &mut nibbles[..out.len()];
        unpack(&bytes[..nibble_bytes], 4, nibbles);
        let mut used = 0;
        for nibble in &*nibbles {
            let Some(count) = bytes_of_code(nibble & 7, T::BYTES) else {
                let problem = format!("tile {tile} has byte code {} of a float", nibble & 7);
                return self.directory.fault(tile * 8, problem);
            };
            used += count;
        }
        let expected = nibble_bytes + used.next_multiple_of(WORD_BYTES);
        self.directory.check_length(tile, bytes.len(), expected)?;
        let mut rest = &bytes[nibble_bytes..];
        for index in 0..out.len() {
            let nibble = nibbles[index];
            let count = bytes_of_code(nibble & 7, T::BYTES).expect("codes are checked");
            let mut pattern = [0; 8];
            pattern[..count].copy_from_slice(&rest[..count]);
            rest = &rest[count..];
            let magnitude = T::low(u64::from_le_bytes(pattern));
            let before = index.checked_sub(GROUP_VALUES).map_or(T::default(), |at| out[at]);
            let is_negative = nibble & 8 != 0;
            out[index] = if is_negative { before.minus(magnitude) } else { before.plus(magnitude) };
        }
        Ok(())
    }
}
