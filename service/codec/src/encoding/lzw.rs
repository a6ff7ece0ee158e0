//! Encoding `lzw`: codes for strings of bytes that occurred earlier in the chunk (FORMAT.md,
//! section 6.19).
//!
//! The method is that of Welch (1984). The codes are a child node, so any tree of numbers can
//! encode them. The string of entry e is copied from the output: it begins where code e begins and
//! is one byte longer than the string of code e.

use std::cell::RefCell;

use crate::encoding::Encoding;
use crate::node_spec::{ChildSpec, NodeSpec, ParameterSpec, PlacedNode, SectionSpec};
use crate::plan::{PlanFault, at};
use crate::section::{Fault, Section};
use crate::tile::{TILE_VALUES, TileCounts};
use crate::tree::Tree;
use crate::tree_decode::{NodeInput, NodeReader, TileContext, TileTree, check_sum};
use crate::tree_encode::{NodeValues, NotApplicable, TreeWriter};
use crate::universal_hash::UniversalHash;
use crate::value_type::ValueType;
use crate::word::Word;

/// Tiles of a chunk at most.
pub const CHUNK_TILES_MAX: u32 = 256;
/// The code of the first entry. Codes below it are bytes.
const ENTRY_FIRST: usize = 256;
/// Maximum entries of a chunk. The greatest code is 65,535.
pub const ENTRIES_MAX: usize = 65_536 - ENTRY_FIRST;
/// Bytes of a string that are copied at once.
const STRING_SHORT: usize = 16;

/// Rules of every `lzw` node. The child gives the codes.
pub(crate) const SPEC: NodeSpec = NodeSpec {
    children: &[ChildSpec::U16.sparse()],
    sections: &[SectionSpec::Counts],
    parameter_u32: ParameterSpec::Own,
    check,
    // The bytes of a chunk, and the start of each of its codes.
    scratch_bytes: |node| {
        let chunk_values = u64::from(node.parameter_u32) * TILE_VALUES as u64;
        5 * chunk_values.min(node.values.into())
    },
    ..NodeSpec::LEAF
};

/// Checks that the node is the root and has type u8, and checks its parameter.
fn check(placed: &PlacedNode<'_>) -> Result<(), PlanFault> {
    let node = placed.node;
    if placed.index != 0 {
        return placed.fault(at::ENCODING, "lzw is below another node, it must be the root".into());
    }
    if node.value_type != ValueType::U8 {
        let problem = format!("lzw gives value type {}, it must be 1", node.value_type.code());
        return placed.fault(at::VALUE_TYPE, problem);
    }
    match check_tiles(node.parameter_u32) {
        Ok(()) => Ok(()),
        Err(problem) => placed.fault(at::PARAMETER_U32, problem),
    }
}

/// Checks that a chunk has 1 to [`CHUNK_TILES_MAX`] tiles.
///
/// # Errors
/// The rule that they break.
pub fn check_tiles(tiles: u32) -> Result<(), String> {
    if (1..=CHUNK_TILES_MAX).contains(&tiles) {
        return Ok(());
    }
    Err(format!("lzw has chunks of {tiles} tiles, it has 1 to {CHUNK_TILES_MAX}"))
}

/// Writes the node and its codes.
pub(crate) fn encode<T: Word>(
    writer: &mut TreeWriter<'_>,
    node: NodeValues<'_, T>,
    chunk_tiles: &u32,
    codes: &Tree,
) -> Result<(), NotApplicable> {
    if node.value_type != ValueType::U8 {
        return NotApplicable::because("lzw takes values of u8");
    }
    check_tiles(*chunk_tiles).map_err(|reason| NotApplicable { reason })?;
    let byte_of = |value: &T| -> u8 {
        let pattern: u64 = (*value).into();
        pattern as u8
    };
    let bytes: Vec<u8> = node.values.iter().map(byte_of).collect();
    let mut dictionary = Dictionary::new(bytes.len().min(*chunk_tiles as usize * TILE_VALUES));
    let mut written = Vec::with_capacity(bytes.len() / 2);
    let mut counts = Vec::with_capacity(node.counts.tiles());
    for chunk in bytes.chunks(*chunk_tiles as usize * TILE_VALUES) {
        let first = counts.len();
        counts.resize(first + chunk.len().div_ceil(TILE_VALUES), 0_u16);
        dictionary.write(chunk, |start, code| {
            counts[first + start / TILE_VALUES] += 1;
            written.push(code);
        });
    }
    let counts = TileCounts::Sparse(counts);
    writer.node(Encoding::Lzw, &node, vec![counts.section()], *chunk_tiles, 0);
    let value_type = ValueType::U16;
    writer.subtree(codes, NodeValues { value_type, values: &written, counts: &counts })
}

/// The entries of a chunk while it is written.
struct Dictionary {
    /// Key of each entry. It consists of the code of the entry's string without the last byte, and
    /// of that byte.
    entries: Vec<u32>,
    /// Hash table of entry numbers plus 1, 0 for a free slot; it has at least twice as many slots
    /// as entries.
    slots: Vec<u16>,
    /// Randomly keyed for each column, because clients choose the bytes.
    hash: UniversalHash,
}

impl Dictionary {
    /// An empty dictionary for chunks of at most `bytes` bytes.
    fn new(bytes: usize) -> Self {
        let entries = bytes.min(ENTRIES_MAX);
        let slots = vec![0; (2 * entries).next_power_of_two()];
        Self { entries: Vec::with_capacity(entries), slots, hash: UniversalHash::random() }
    }

    /// Calls `push` for every code of a chunk, with the position of its first byte.
    fn write(&mut self, chunk: &[u8], mut push: impl FnMut(usize, u16)) {
        self.entries.clear();
        self.slots.fill(0);
        let Some((first, rest)) = chunk.split_first() else { return };
        let (mut code, mut start) = (u32::from(*first), 0);
        for (before, byte) in rest.iter().enumerate() {
            match self.find_or_add(code << 8 | u32::from(*byte)) {
                Some(entry) => code = (ENTRY_FIRST + entry) as u32,
                None => {
                    push(start, code as u16);
                    (code, start) = (u32::from(*byte), before + 1);
                }
            }
        }
        push(start, code as u16);
    }

    /// Finds the entry of a code and a byte; if absent, adds it and returns `None`.
    #[inline(always)]
    fn find_or_add(&mut self, key: u32) -> Option<usize> {
        let mask = self.slots.len() - 1;
        let mut at = (self.hash.hash(key.into()) >> 32) as usize & mask;
        loop {
            let Some(entry) = usize::from(self.slots[at]).checked_sub(1) else {
                if self.entries.len() < ENTRIES_MAX {
                    self.entries.push(key);
                    self.slots[at] = self.entries.len() as u16;
                }
                return None;
            };
            if self.entries[entry] == key {
                return Some(entry);
            }
            at = (at + 1) & mask;
        }
    }
}

/// Decoder of an `lzw` node.
pub(crate) struct Lzw<'a> {
    values: usize,
    chunk_tiles: usize,
    counts: Section<'a>,
    codes: Box<TileTree<'a, u16>>,
    /// Chunk of the tile decoded last; it is reused because tiles are usually decoded in order.
    chunk: RefCell<Chunk>,
}

/// A chunk, decoded up to a tile.
#[derive(Default)]
struct Chunk {
    /// Number of the chunk; `None` if none is decoded.
    number: Option<usize>,
    /// Number of tiles decoded.
    tiles: usize,
    /// Number of bytes decoded. The string of the last code may end after these tiles.
    end: usize,
    bytes: Vec<u8>,
    /// For each code the position of its first byte in the chunk.
    starts: Vec<u32>,
}

impl<'a> Lzw<'a> {
    pub(crate) fn open(node: &NodeInput<'a>, reader: &mut NodeReader<'a>) -> Result<Self, Fault> {
        let counts = node.sections[0];
        check_sum(&counts, reader.peek())?;
        let codes = TileTree::open_boxed(reader)?;
        let (values, chunk_tiles) = (node.node.values as usize, node.node.parameter_u32 as usize);
        Ok(Self { values, chunk_tiles, counts, codes, chunk: RefCell::default() })
    }

    pub(crate) fn tile<T: Word>(
        &self,
        context: TileContext<'_>,
        out: &mut [T],
    ) -> Result<(), Fault> {
        let (number, index) = (context.tile / self.chunk_tiles, context.tile % self.chunk_tiles);
        let chunk = &mut *self.chunk.borrow_mut();
        if chunk.number != Some(number) {
            let first = number * self.chunk_tiles * TILE_VALUES;
            let length = (self.values - first).min(self.chunk_tiles * TILE_VALUES);
            chunk.begin(number, length);
        }
        while chunk.tiles <= index {
            let tile = number * self.chunk_tiles + chunk.tiles;
            if let Err(fault) = self.next_tile(chunk, TileContext { tile, ..context }) {
                chunk.number = None;
                return Err(fault);
            }
        }
        let bytes = &chunk.bytes[index * TILE_VALUES..][..out.len()];
        for (value, byte) in out.iter_mut().zip(bytes) {
            *value = T::low((*byte).into());
        }
        Ok(())
    }

    /// Decodes the next tile of a chunk.
    fn next_tile(&self, chunk: &mut Chunk, context: TileContext<'_>) -> Result<(), Fault> {
        let tile = context.tile;
        let start = chunk.tiles * TILE_VALUES;
        let end = chunk.bytes.len().min(start + TILE_VALUES);
        let count = usize::from(self.counts.value::<u16>(tile));
        let fault = |problem| self.counts.fault(2 * tile, problem);
        if count > end - start {
            return fault(format!("tile {tile} has {count} codes of {} values", end - start));
        }
        let mut codes = [0_u16; TILE_VALUES];
        let codes = &mut codes[..count];
        self.codes.tile(context, codes)?;
        if let Err(problem) = chunk.append(codes, end) {
            return fault(format!("tile {tile} has {problem}"));
        }
        chunk.tiles += 1;
        Ok(())
    }
}

impl Chunk {
    /// Begins a chunk of `length` bytes.
    fn begin(&mut self, number: usize, length: usize) {
        (self.number, self.tiles, self.end) = (Some(number), 0, 0);
        self.bytes.resize(length, 0);
        self.starts.clear();
    }

    /// Appends the strings of a tile's codes. Fails unless all of them begin before byte `tile_end`
    /// and the last one reaches it.
    fn append(&mut self, codes: &[u16], tile_end: usize) -> Result<(), String> {
        let Self { bytes, starts, end, .. } = self;
        let mut to = *end;
        for &code in codes {
            if to >= tile_end {
                return Err(format!("a code that begins at byte {to} of its chunk, behind it"));
            }
            let number = starts.len();
            starts.push(to as u32);
            let Some(entry) = usize::from(code).checked_sub(ENTRY_FIRST) else {
                bytes[to] = code as u8;
                to += 1;
                continue;
            };
            if entry >= number {
                return Err(format!("code {number} of its chunk for entry {entry}, a later one"));
            }
            // The entry's last byte is the first of the next string, which may be this one.
            let [from, last] = [starts[entry], starts[entry + 1]].map(|start| start as usize);
            let length = last - from;
            if length >= bytes.len() - to {
                let limit = bytes.len();
                return Err(format!("a string of {} bytes at byte {to} of {limit}", length + 1));
            }
            copy(bytes, from, to, length);
            bytes[to + length] = bytes[last];
            to += length + 1;
        }
        *end = to;
        if to < tile_end {
            return Err(format!("codes that end at byte {to} of its chunk, before {tile_end}"));
        }
        Ok(())
    }
}

/// Copies `length` bytes from `from` to `to`, where `to` > `from`; may overwrite bytes after the
/// copy.
#[inline(always)]
fn copy(bytes: &mut [u8], from: usize, to: usize, length: usize) {
    if length <= STRING_SHORT && to + STRING_SHORT <= bytes.len() {
        let (before, behind) = bytes.split_at_mut(to);
        if let (Some(short), Some(out)) =
            (before[from..].first_chunk::<STRING_SHORT>(), behind.first_chunk_mut::<STRING_SHORT>())
        {
            *out = *short;
            return;
        }
    }
    bytes.copy_within(from..from + length, to);
}
