//! Reads the sections of a chunk while a tile is decoded, and writes a directory with its words.
//!
//! A section knows its offset in the block, so that every error names a byte. Entries are
//! untrusted: an entry that points outside the section is an error, never a panic.

use crate::packed::WORD_BYTES;
use crate::word::Word;

/// A rule that a chunk's bytes break while they are decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte from the start of the block.
    pub(crate) offset: usize,
    /// Value found and rule broken.
    pub(crate) problem: String,
}

/// The bytes of one section, without padding.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Section<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// Offset of its first byte in the block.
    pub(crate) offset: usize,
}

/// A directory and the section of words that its entries point into, tile by tile.
pub(crate) struct TileSections {
    directory: Vec<u8>,
    /// Words of the tiles that were appended so far.
    pub(crate) words: Vec<u8>,
}

impl TileSections {
    /// Creates sections without tiles, with capacity for `tiles` entries and `word_bytes` bytes of
    /// words.
    pub(crate) fn new(tiles: usize, word_bytes: usize) -> Self {
        Self { directory: Vec::with_capacity(8 * tiles), words: Vec::with_capacity(word_bytes) }
    }

    /// Appends the entry of a tile whose words follow; `fields` are its last four bytes.
    pub(crate) fn begin_tile(&mut self, fields: [u8; 4]) {
        let offset = u32::try_from(self.words.len() / WORD_BYTES).expect("a block has fewer words");
        self.directory.extend_from_slice(&offset.to_le_bytes());
        self.directory.extend_from_slice(&fields);
    }

    /// Returns the directory and the words.
    pub(crate) fn finish(self) -> Vec<Vec<u8>> {
        vec![self.directory, self.words]
    }
}

impl<'a> Section<'a> {
    /// A fault at byte `at` of the section.
    pub(crate) fn fault<T>(&self, at: usize, problem: String) -> Result<T, Fault> {
        Err(Fault { offset: self.offset + at, problem })
    }

    /// Value `index` of a section of values; the plan's check guarantees that it exists.
    pub(crate) fn value<T: Word>(&self, index: usize) -> T {
        T::read(&self.bytes[index * T::BYTES..])
    }

    /// The directory entry of 8 bytes of tile `tile`.
    pub(crate) fn entry(&self, tile: usize) -> [u8; 8] {
        let (entries, _) = self.bytes.as_chunks::<8>();
        entries[tile]
    }

    /// Words of tile `tile` in `words`: from its offset to the next tile's offset or the end of the
    /// section. The first four bytes of an entry of this directory are the offset.
    pub(crate) fn tile_words(&self, words: &Self, tile: usize) -> Result<&'a [u8], Fault> {
        let offset_of = |entry: [u8; 8]| {
            let [a, b, c, d, ..] = entry;
            u64::from(u32::from_le_bytes([a, b, c, d])) * WORD_BYTES as u64
        };
        let start = offset_of(self.entry(tile));
        let tiles = self.bytes.len() / 8;
        let length = words.bytes.len() as u64;
        let end = if tile + 1 < tiles { offset_of(self.entry(tile + 1)) } else { length };
        if start > end || end > length || (tile == 0 && start != 0) {
            let problem = format!(
                "tile {tile} has bytes {start} to {end} of a section of {length}: tiles follow \
                 each other from 0 to its end"
            );
            return self.fault(tile * 8, problem);
        }
        Ok(&words.bytes[start as usize..end as usize])
    }

    /// Refuses a tile whose words do not take `expected` bytes.
    pub(crate) fn check_length(
        &self,
        tile: usize,
        found: usize,
        expected: usize,
    ) -> Result<(), Fault> {
        if found == expected {
            return Ok(());
        }
        let problem = format!("tile {tile} has {found} bytes of words, it takes {expected}");
        self.fault(tile * 8, problem)
    }
}
