//! Encoding `stateless`: the most frequent bytes of a chunk as short indexes, other bytes unchanged
//! (FORMAT.md, section 6.18).
//!
//! After Qin et al. (2014). Flags, indexes and other bytes of a tile are separate lists. The number
//! of flags before a value gives its position in its list, so values decode independently.

use std::cmp::Reverse;

use crate::encoding::Encoding;
use crate::node_spec::{NodeSpec, ParameterSpec, PlacedNode, SectionSpec};
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::plan::{PlanFault, at};
use crate::section::{Fault, Section, TileSections};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_type::ValueType;
use crate::word::Word;

/// Tiles of a chunk at most.
pub const CHUNK_TILES_MAX: u32 = 64;
/// Entries of a chunk's table at most: every byte.
pub const ENTRIES_MAX: u32 = 256;

/// Rules of every `stateless` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    sections: &[
        SectionSpec::Own,
        SectionSpec::Directory,
        // A flag and at most eight bits per value, and unused bits at the end of both lists.
        SectionSpec::Words { tile_words_max: |bits| TILE_VALUES as u32 / 32 * (1 + bits) + 2 },
    ],
    parameter_u32: ParameterSpec::Own,
    check,
    ..NodeSpec::LEAF
};

/// Checks type, parameters and the length of the tables.
fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    let node = placed.node;
    if node.value_type != ValueType::U8 {
        let problem =
            format!("stateless gives value type {}, it must be 1", node.value_type.code());
        return placed.fault(at::VALUE_TYPE, problem);
    }
    if let Err(problem) = check_parameters(entries(node.parameter_u32), node.parameter_u32 >> 16) {
        return placed.fault(at::PARAMETER_U32, problem);
    }
    let chunks = placed.tiles.div_ceil(u64::from(chunk_tiles(node.parameter_u32)));
    placed.section_is(0, chunks * u64::from(entries(node.parameter_u32)))
}

/// Validates `entries` and `tiles` of a chunk.
///
/// # Errors
/// The rule that they break.
pub fn check_parameters(entries: u32, tiles: u32) -> Result<(), String> {
    if (1..=ENTRIES_MAX).contains(&entries) && (1..=CHUNK_TILES_MAX).contains(&tiles) {
        return Ok(());
    }
    Err(format!(
        "stateless has {entries} entries and chunks of {tiles} tiles, it has 1 to {ENTRIES_MAX} \
         and 1 to {CHUNK_TILES_MAX}"
    ))
}

/// Entries of each chunk's table, from the first parameter.
pub fn entries(parameter: u32) -> u32 {
    parameter & 0xffff
}

/// Tiles of a chunk, from the first parameter.
pub fn chunk_tiles(parameter: u32) -> u32 {
    parameter >> 16
}

/// Bits of an index into `entries` entries.
fn index_bits(entries: u32) -> u32 {
    u32::BITS - (entries - 1).leading_zeros()
}

/// The `entries` most frequent bytes, the lesser of equally frequent ones first; bytes that do not
/// occur come last.
fn frequent_bytes(counts: &[u32; 256], entries: u32) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..=u8::MAX).collect();
    bytes.sort_by_key(|byte| Reverse(counts[usize::from(*byte)]));
    bytes.truncate(entries as usize);
    bytes
}

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    entries: &u32,
    chunk_tiles: &u32,
) -> Result<(), NotApplicable> {
    if node.value_type != ValueType::U8 {
        return NotApplicable::because("stateless takes values of u8");
    }
    check_parameters(*entries, *chunk_tiles).map_err(|reason| NotApplicable { reason })?;
    let tiles: Vec<&[T]> = node.tiles().collect();
    let mut tables = Vec::new();
    let mut sections = TileSections::new(tiles.len(), node.values.len());
    let (mut flags, mut indexes, mut others) = (Vec::new(), Vec::new(), Vec::new());
    for chunk in tiles.chunks(*chunk_tiles as usize) {
        let mut counts = [0; 256];
        chunk.iter().copied().flatten().for_each(|value| counts[byte_of(*value)] += 1);
        let table = frequent_bytes(&counts, *entries);
        let mut index_of = [None; 256];
        for (index, byte) in table.iter().enumerate() {
            index_of[usize::from(*byte)] = Some(index as u8);
        }
        tables.extend(table);
        for tile in chunk {
            flags.clear();
            indexes.clear();
            others.clear();
            for value in *tile {
                let index = index_of[byte_of(*value)];
                flags.push(u8::from(index.is_some()));
                match index {
                    Some(index) => indexes.push(index),
                    None => others.push(byte_of(*value) as u8),
                }
            }
            let [c, n] = [tile.len(), indexes.len()].map(|count| (count as u16).to_le_bytes());
            sections.begin_tile([c[0], c[1], n[0], n[1]]);
            pack(&flags, 1, &mut sections.words);
            pack(&indexes, index_bits(*entries), &mut sections.words);
            pack(&others, 8, &mut sections.words);
        }
    }
    let sections = [vec![tables], sections.finish()].concat();
    writer.node(Encoding::Stateless, &node, sections, entries | chunk_tiles << 16, 0);
    Ok(())
}

/// A value of u8 as an index.
fn byte_of<T: Word>(value: T) -> usize {
    let pattern: u64 = value.into();
    pattern as usize
}

/// Decoder of a `stateless` node.
pub(crate) struct Stateless<'a> {
    entries: usize,
    chunk_tiles: usize,
    tables: Section<'a>,
    directory: Section<'a>,
    words: Section<'a>,
}

impl<'a> Stateless<'a> {
    pub(crate) fn open(node: &NodeInput<'a>, _: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let [tables, directory, words] = [0, 1, 2].map(|index| node.sections[index]);
        let parameter = node.node.parameter_u32;
        let [entries, chunk_tiles] =
            [entries(parameter), chunk_tiles(parameter)].map(|number| number as usize);
        Ok(Self { entries, chunk_tiles, tables, directory, words })
    }

    pub(crate) fn tile<T: Word>(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let tile = context.tile;
        let parts = self.parts(tile, out.len())?;
        let table = &self.tables.bytes[tile / self.chunk_tiles * self.entries..][..self.entries];
        let mut indexes = [0_u8; TILE_VALUES];
        let indexes = &mut indexes[..parts.indexed];
        unpack(parts.indexes, index_bits(self.entries as u32), indexes);
        if let Some(index) = indexes.iter().find(|index| usize::from(**index) >= self.entries) {
            let problem = format!("tile {tile} has index {index} of {} entries", self.entries);
            return self.directory.fault(tile * 8, problem);
        }
        let (mut indexes, mut others) = (indexes.iter(), parts.others.iter());
        for (values, flags) in out.chunks_mut(32).zip(parts.flags.as_chunks::<WORD_BYTES>().0) {
            let mut flags = u32::from_le_bytes(*flags);
            for value in values {
                let byte = match flags & 1 {
                    0 => others.next(),
                    _ => indexes.next().map(|index| &table[usize::from(*index)]),
                };
                *value = T::low((*byte.expect("as many as flags")).into());
                flags >>= 1;
            }
        }
        Ok(())
    }

    /// The lists of a tile; their lengths follow from the flags.
    fn parts(&self, tile: usize, count: usize) -> Result<Parts<'a>, Fault> {
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let [_, _, _, _, fields @ ..] = self.directory.entry(tile);
        let [values, indexed] = [[fields[0], fields[1]], [fields[2], fields[3]]]
            .map(|field| usize::from(u16::from_le_bytes(field)));
        if values != count || indexed > count {
            let problem =
                format!("tile {tile} has {indexed} indexes of {values} values, expected {count}");
            return self.directory.fault(tile * 8 + 4, problem);
        }
        let index_bits = index_bits(self.entries as u32);
        let lengths = [(count, 1), (indexed, index_bits), (count - indexed, 8)]
            .map(|(count, width)| words(count, width) * WORD_BYTES);
        self.directory.check_length(tile, bytes.len(), lengths.iter().sum())?;
        let (flags, rest) = bytes.split_at(lengths[0]);
        let (indexes, others) = rest.split_at(lengths[1]);
        let words = flags.as_chunks::<WORD_BYTES>().0.iter();
        let mut words = words.map(|word| u32::from_le_bytes(*word));
        // Unused flag bits after the last value are ignored.
        let beyond = (count.next_multiple_of(32) - count) as u32;
        let last = words.next_back().unwrap_or(0) << beyond;
        let found = words.map(u32::count_ones).sum::<u32>() + last.count_ones();
        if found as usize != indexed {
            let problem = format!("tile {tile} has {found} flags for {indexed} indexes");
            return self.directory.fault(tile * 8 + 6, problem);
        }
        Ok(Parts { flags, indexed, indexes, others: &others[..count - indexed] })
    }
}

/// The lists of a tile.
struct Parts<'a> {
    /// One bit for each value: 1 if the value is in the table.
    flags: &'a [u8],
    indexed: usize,
    indexes: &'a [u8],
    others: &'a [u8],
}
