//! Encoding `gfc`: floats as differences from the value 32 positions earlier, in whole bytes
//! (FORMAT.md, section 6.12; Burtscher's float codec in the warp layout of O'Neil and Burtscher,
//! 2011).

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, SectionSpec};
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::plan::at;
use crate::section::{Fault, Section, TileSections};
use crate::tile::{GROUP_VALUES, TILE_VALUES};
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `gfc` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    sections: &[
        SectionSpec::Directory,
        SectionSpec::Words { tile_words_max: |bits| TILE_VALUES as u32 / 32 * (4 + bits) },
    ],
    check: |node| match node.node.value_type {
        value_type if value_type.is_float() => Ok(()),
        other => {
            let problem = format!("gfc gives value type {}, no float", other.code());
            node.fault(at::VALUE_TYPE, problem)
        }
    },
    ..NodeSpec::LEAF
};

/// Number of bytes that a code represents, for values of `width` bytes.
fn bytes_of_code(code: u8, width: usize) -> Option<usize> {
    match (width, code) {
        (8, 0..=3) | (4, 0..=4) => Some(code.into()),
        (8, 4..=7) => Some(usize::from(code) + 1),
        _ => None,
    }
}

/// Smallest code that represents at least `count` bytes, for values of `width` bytes.
fn code_of_bytes(count: usize, width: usize) -> u8 {
    let is_enough = |code: &u8| bytes_of_code(*code, width).is_some_and(|bytes| bytes >= count);
    (0..8).find(is_enough).expect("a value has at most its width in bytes")
}

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    if !node.value_type.is_float() {
        return NotApplicable::because("gfc takes floats, this is no float");
    }
    let mut sections = TileSections::new(node.counts.tiles(), node.values.len() * T::BYTES);
    for tile in node.tiles() {
        let [low, high] = (tile.len() as u16).to_le_bytes();
        sections.begin_tile([low, high, 0, 0]);
        let (nibbles, bytes) = differences(tile);
        let out = &mut sections.words;
        pack(&nibbles, 4, out);
        out.extend_from_slice(&bytes);
        out.resize(out.len().next_multiple_of(WORD_BYTES), 0);
    }
    writer.node(Encoding::Gfc, &node, sections.finish(), 0, 0);
    Ok(())
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

/// Decoder of a `gfc` node.
pub(crate) struct Gfc<'a> {
    directory: Section<'a>,
    words: Section<'a>,
}

impl<'a> Gfc<'a> {
    pub(crate) fn open(node: &NodeInput<'a>, _: &mut NodeReader<'a>) -> Result<Self, Fault> {
        Ok(Self { directory: node.sections[0], words: node.sections[1] })
    }

    pub(crate) fn tile<T: Word>(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let tile = context.tile;
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let [_, _, _, _, low, high, reserved @ ..] = self.directory.entry(tile);
        let stated = u16::from_le_bytes([low, high]);
        if usize::from(stated) != out.len() || reserved != [0, 0] {
            let problem = format!(
                "tile {tile} has {stated} values, reserved {reserved:?}; expected {}",
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
