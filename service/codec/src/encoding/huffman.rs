//! Encoding `huffman`: a canonical code for the bucket of each value, followed by the low bits of
//! the value (FORMAT.md, section 6.17).
//!
//! A bucket is a range of values that agree in their bit length and the next `split` bits. Small
//! values have buckets of their own; at the greatest split of u8, all values do.

use std::array;

use crate::buckets::{Buckets, frequencies};
use crate::encoding::Encoding;
pub use crate::huffman_code::SYMBOLS_MAX;
use crate::huffman_code::{CODE_BITS_MAX, Code, code_lengths, codes};
use crate::node_spec::{NodeSpec, ParameterSpec, PlacedNode, SectionSpec};
use crate::packed::{WORD_BYTES, pack, unpack, words};
use crate::plan::{PlanFault, PlanNode, at};
use crate::section::{Fault, Section, TileSections};
use crate::tile::TILE_VALUES;
use crate::tree_decode::{NodeInput, NodeReader, TileContext};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::value_codes::{LANES, ValueCodes};
use crate::word::Word;

/// Bits of a code's length in the first section.
const LENGTH_BITS: u32 = 4;
/// Values of a whole group. A device decodes each group on one lane.
const GROUP_VALUES: usize = 64;
/// Groups of a whole tile at most.
const TILE_GROUPS: usize = TILE_VALUES / GROUP_VALUES;

/// Maximum bit width of the size of a group of `values` values.
const fn size_bits_max(group_values: usize) -> u32 {
    // A value takes at most a code and the low bits of the greatest bucket of 64 bits.
    usize::BITS - (group_values * (CODE_BITS_MAX as usize + 63)).leading_zeros()
}

const _: () = assert!(size_bits_max(GROUP_VALUES) == 13);

/// Rules of every `huffman` node.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    sections: &[
        SectionSpec::Own,
        SectionSpec::Directory,
        SectionSpec::Words {
            tile_words_max: |bits| {
                (TILE_GROUPS as u32 * size_bits_max(GROUP_VALUES)).div_ceil(32)
                    + TILE_VALUES as u32 / 32 * (CODE_BITS_MAX + bits)
            },
        },
    ],
    parameter_u32: ParameterSpec::Own,
    check,
    scratch_bytes: |_| 16_384,
    ..NodeSpec::LEAF
};

/// Checks the number of symbols, the split and the length of the first section.
pub(super) fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    let node = placed.node;
    let (buckets, symbols) = parameters(node.parameter_u32);
    let limit = buckets.limit(8 * node.value_type.width_bytes() as u32);
    if node.parameter_u32 >> 24 != 0 || symbols > limit.unwrap_or(0) {
        let problem = format!(
            "huffman has {symbols} symbols at split {}, its type has at most {}",
            buckets.split,
            limit.unwrap_or(0)
        );
        return placed.fault(at::PARAMETER_U32, problem);
    }
    if (symbols == 0) != (node.values == 0) {
        let problem = format!("huffman has {symbols} symbols for {} values", node.values);
        return placed.fault(at::PARAMETER_U32, problem);
    }
    placed.section_is(0, (words(symbols, LENGTH_BITS) * WORD_BYTES) as u64)
}

/// Split and number of symbols, read from the first parameter of a node.
fn parameters(parameter: u32) -> (Buckets, usize) {
    (Buckets { split: parameter >> 16 & 0xff }, symbols(parameter))
}

/// Number of symbols, read from the first parameter of a node.
pub(crate) fn symbols(parameter: u32) -> usize {
    (parameter & 0xffff) as usize
}

/// Writes the node.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
) -> Result<(), NotApplicable> {
    encode_groups::<T, GROUP_VALUES>(writer, node, Encoding::Huffman)
}

/// Writes a node of `encoding`, whose groups have `GROUP` values.
pub(super) fn encode_groups<T: Word, const GROUP: usize>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    encoding: Encoding,
) -> Result<(), NotApplicable> {
    let code = HuffmanCode::of(&frequencies(node.values), T::BITS);
    let (buckets, codes) = (code.buckets, codes(&code.lengths));
    let mut sections = TileSections::new(node.counts.tiles(), node.values.len() * T::BYTES / 2);
    let mut bits = BitWriter::default();
    for tile in node.tiles() {
        let mut sizes = [0_u16; TILE_GROUPS];
        let groups = tile.chunks(GROUP).len();
        bits.clear();
        for (group, size) in tile.chunks(GROUP).zip(&mut sizes) {
            let start = bits.bits();
            group.iter().for_each(|value| bits.put_value((*value).into(), buckets, &codes));
            *size = (bits.bits() - start) as u16;
        }
        let sizes = &mut sizes[..groups];
        let (least, most) = sizes
            .iter()
            .fold((u16::MAX, 0), |(least, most), size| (least.min(*size), most.max(*size)));
        let size_bits = most.saturating_sub(least).bits();
        let least = if groups == 0 { 0 } else { least };
        let entry = TileEntry { values: tile.len(), least, size_bits };
        sections.begin_tile(entry.bytes::<GROUP>());
        if groups > 0 {
            sizes.iter_mut().for_each(|size| *size -= least);
            pack(sizes, size_bits, &mut sections.words);
            bits.finish(&mut sections.words);
        }
    }
    let sections = [vec![code.packed_lengths()], sections.finish()].concat();
    writer.node(encoding, &node, sections, code.parameter(), 0);
    Ok(())
}

/// The split and the code lengths that the writer chooses for a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HuffmanCode {
    buckets: Buckets,
    lengths: Vec<u8>,
}

impl HuffmanCode {
    /// Chooses the split that takes the fewest bits for codes, low bits and lengths; on a tie, the
    /// smallest. `frequencies` count the symbols at the finest split of a type of `bits` bits.
    pub fn of(frequencies: &[u32; SYMBOLS_MAX], bits: u32) -> Self {
        let finest = Buckets::finest(bits);
        let mut best: Option<(u64, Self)> = None;
        for split in 0..=finest.split {
            let buckets = Buckets { split };
            let (mut merged, mut symbols, mut low) = ([0; SYMBOLS_MAX], 0, 0);
            for (symbol, count) in frequencies.iter().enumerate().filter(|(_, count)| **count > 0) {
                let (high, low_bits) = finest.parts(symbol);
                let (symbol, low_bits) = buckets.symbol(u64::from(high) << low_bits);
                merged[symbol] += count;
                symbols = symbols.max(symbol + 1);
                low += u64::from(*count) * u64::from(low_bits);
            }
            let merged = &merged[..symbols];
            let code = Self { buckets, lengths: code_lengths(merged) };
            let both = merged.iter().zip(codes(&code.lengths));
            let coded: u64 =
                both.map(|(&count, code)| u64::from(count) * u64::from(code.length)).sum();
            let cost = low + coded + symbols as u64 * u64::from(LENGTH_BITS);
            if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                best = Some((cost, code));
            }
        }
        best.expect("there is a split").1
    }

    /// Number of bits below the highest set bit of a value that distinguish buckets.
    pub fn split(&self) -> u32 {
        self.buckets.split
    }

    /// The finest split of a type of `bits` bits.
    pub fn finest_split(bits: u32) -> u32 {
        Buckets::finest(bits).split
    }

    /// The first parameter of the node.
    pub fn parameter(&self) -> u32 {
        self.buckets.split << 16 | self.lengths.len() as u32
    }

    /// The section of lengths.
    pub fn packed_lengths(&self) -> Vec<u8> {
        let mut packed = Vec::new();
        pack(&self.lengths, LENGTH_BITS, &mut packed);
        packed
    }

    /// For each symbol: its code, with the first bit lowest, and from bit 16 on the length of the
    /// code.
    pub fn packed_codes(&self) -> Vec<u32> {
        let packed = |code: Code| u32::from(code.bits) | u32::from(code.length) << 16;
        codes(&self.lengths).into_iter().map(packed).collect()
    }
}

/// Writes the codes and low bits of a tile.
#[derive(Default)]
struct BitWriter {
    words: Vec<u8>,
    held: u64,
    held_bits: u32,
}

impl BitWriter {
    fn clear(&mut self) {
        self.words.clear();
        (self.held, self.held_bits) = (0, 0);
    }

    fn bits(&self) -> usize {
        self.words.len() * 8 + self.held_bits as usize
    }

    #[inline(always)]
    fn put_value(&mut self, value: u64, buckets: Buckets, codes: &[Code]) {
        let (symbol, low_bits) = buckets.symbol(value);
        let code = codes[symbol];
        self.put(code.bits.into(), code.length.into());
        let low = value & ((1 << low_bits) - 1);
        self.put(low & u64::from(u32::MAX), low_bits.min(32));
        self.put(low >> 32, low_bits.saturating_sub(32));
    }

    /// Appends at most 32 bits.
    #[inline(always)]
    fn put(&mut self, bits: u64, count: u32) {
        self.held |= bits << self.held_bits;
        self.held_bits += count;
        if self.held_bits >= 32 {
            self.words.extend_from_slice(&(self.held as u32).to_le_bytes());
            self.held >>= 32;
            self.held_bits -= 32;
        }
    }

    /// Appends the words of the tile to `out`.
    fn finish(&mut self, out: &mut Vec<u8>) {
        if self.held_bits > 0 {
            self.words.extend_from_slice(&(self.held as u32).to_le_bytes());
        }
        out.extend_from_slice(&self.words);
    }
}

/// Decoder of a `huffman` node whose groups have `GROUP` values.
pub(crate) struct Huffman<'a, const GROUP: usize> {
    codes: Option<ValueCodes>,
    directory: Section<'a>,
    words: Section<'a>,
}

impl<'a, const GROUP: usize> Huffman<'a, GROUP> {
    pub(crate) fn open(node: &NodeInput<'a>, _: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let [lengths, directory, words] = [0, 1, 2].map(|index| node.sections[index]);
        let codes = Self::codes(node.node, &lengths)?;
        Ok(Self { codes, directory, words })
    }

    /// The decoder for the code lengths in `section`; `None` for a node without values.
    fn codes(node: &PlanNode, section: &Section<'_>) -> Result<Option<ValueCodes>, Fault> {
        let (buckets, symbols) = parameters(node.parameter_u32);
        if symbols == 0 {
            return Ok(None);
        }
        let mut lengths = vec![0_u8; symbols];
        unpack(section.bytes, LENGTH_BITS, &mut lengths);
        match ValueCodes::new(&lengths, buckets) {
            Some(codes) => Ok(Some(codes)),
            None => section.fault(0, "the code lengths do not form a prefix code".into()),
        }
    }

    pub(crate) fn tile<T: Word>(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let tile = context.tile;
        let bytes = self.directory.tile_words(&self.words, tile)?;
        let sizes = self.sizes(tile, bytes, out.len())?;
        let Some(codes) = &self.codes else { return Ok(()) };
        let bytes = &bytes[sizes.bytes..];
        let mut start = 0;
        let mut sizes = sizes.groups.iter();
        for part in out.chunks_mut(LANES * GROUP) {
            let (mut bits, mut ends) = ([0; LANES], [0; LANES]);
            for ((bit, end), size) in bits.iter_mut().zip(&mut ends).zip(&mut sizes) {
                *bit = start;
                start += usize::from(*size);
                *end = start;
            }
            let mut groups = part.chunks_mut(GROUP);
            codes.decode(bytes, &mut bits, array::from_fn(|_| groups.next().unwrap_or_default()));
            if bits != ends {
                let problem = format!("groups of tile {tile} end at bits {bits:?}, not {ends:?}");
                return self.directory.fault(tile * 8, problem);
            }
        }
        Ok(())
    }

    /// Reads the sizes of a tile's groups and checks the length of its words.
    fn sizes(&self, tile: usize, bytes: &[u8], count: usize) -> Result<Sizes, Fault> {
        let [_, _, _, _, fields @ ..] = self.directory.entry(tile);
        let fault = |problem: String| self.directory.fault(tile * 8 + 4, problem);
        let Some(entry) = TileEntry::parse::<GROUP>(fields) else {
            let limit = size_bits_max(GROUP);
            return fault(format!("the sizes of tile {tile} have more than {limit} bits"));
        };
        if entry.values != count {
            return fault(format!("tile {tile} has {} values, expected {count}", entry.values));
        }
        let groups = count.div_ceil(GROUP);
        let mut sizes = Sizes { groups: [0; TILE_GROUPS], bytes: 0 };
        sizes.bytes = words(groups, entry.size_bits) * WORD_BYTES;
        let Some(packed) = bytes.get(..sizes.bytes) else {
            return fault(format!(
                "tile {tile} has {} bytes of words, its sizes take {}",
                bytes.len(),
                sizes.bytes
            ));
        };
        unpack(packed, entry.size_bits, &mut sizes.groups[..groups]);
        sizes.groups[..groups].iter_mut().for_each(|size| *size += entry.least);
        let bits: usize = sizes.groups.iter().map(|size| usize::from(*size)).sum();
        let expected = sizes.bytes + bits.div_ceil(32) * WORD_BYTES;
        self.directory.check_length(tile, bytes.len(), expected)?;
        Ok(sizes)
    }
}

/// The last four bytes of a tile's entry in the directory.
struct TileEntry {
    values: usize,
    /// The least size of a group in bits.
    least: u16,
    /// Width in bits of the stored group sizes, which are relative to the least size.
    size_bits: u32,
}

impl TileEntry {
    const LEAST_AT: u32 = 11;

    fn bytes<const GROUP: usize>(&self) -> [u8; 4] {
        let least = u32::from(self.least) << Self::LEAST_AT;
        let bits_at = Self::LEAST_AT + size_bits_max(GROUP);
        (self.values as u32 | least | self.size_bits << bits_at).to_le_bytes()
    }

    /// `None` for sizes above their limit, or a reserved bit that is set.
    fn parse<const GROUP: usize>(bytes: [u8; 4]) -> Option<Self> {
        let (entry, limit) = (u32::from_le_bytes(bytes), size_bits_max(GROUP));
        let size_bits = entry >> (Self::LEAST_AT + limit);
        (size_bits <= limit).then_some(Self {
            values: (entry & ((1 << Self::LEAST_AT) - 1)) as usize,
            least: (entry >> Self::LEAST_AT & ((1 << limit) - 1)) as u16,
            size_bits,
        })
    }
}

/// Length in bits of each group of a tile.
struct Sizes {
    groups: [u16; TILE_GROUPS],
    /// Bytes that the sizes take.
    bytes: usize,
}
