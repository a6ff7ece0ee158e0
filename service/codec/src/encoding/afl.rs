//! Encoding `afl`, aligned fixed length: packed values with one bit width for each group of 32
//! values (FORMAT.md, section 6.2).

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, SectionSpec};
use crate::packed::{WORD_BYTES, pack, pack_group, unpack, unpack_group, words};
use crate::section::{Fault, Section, TileSections};
use crate::tile::{GROUP_VALUES, TILE_GROUPS, TILE_VALUES};
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::word::Word;

/// Rules of every `afl` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    sections: &[
        SectionSpec::Directory,
        // Varied widths are written only where they take fewer words than one width.
        SectionSpec::Words { tile_words_max: |bits| TILE_VALUES as u32 / 32 * bits },
    ],
    ..NodeSpec::LEAF
};

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    let mut sections = TileSections::new(node.counts.tiles(), node.values.len() * T::BYTES / 2);
    for tile in node.tiles() {
        let widths = PackedWidths::of(tile);
        let [low, high] = (tile.len() as u16).to_le_bytes();
        sections.begin_tile([low, high, widths.least, widths.bits]);
        let out = &mut sections.words;
        widths.write(out);
        for (group, width) in tile.chunks(GROUP_VALUES).zip(widths.groups) {
            match group.as_array() {
                Some(group) => pack_group(group, width.into(), out),
                None => pack(group, width.into(), out),
            }
        }
    }
    writer.node(Encoding::Afl, &node, sections.finish(), 0, 0);
    Ok(())
}

/// Widths that a tile is written with.
struct PackedWidths {
    groups: [u8; TILE_GROUPS],
    count: usize,
    least: u8,
    bits: u8,
}

impl PackedWidths {
    /// Chooses varied widths if they save words, else one width for all groups.
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

/// Decoder of an `afl` node.
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

    /// Reads the widths of a tile of `count` values and checks the length of its words.
    fn widths<T: Word>(&self, tile: usize, bytes: &[u8], count: usize) -> Result<Widths, Fault> {
        let [_, _, _, _, low, high, width_min, width_bits] = self.directory.entry(tile);
        let (stated, groups) = (u16::from_le_bytes([low, high]), count.div_ceil(GROUP_VALUES));
        if usize::from(stated) != count {
            let problem = format!("tile {tile} has {stated} values, expected {count}");
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
