//! Bytes and text on the device (FORMAT.md, sections 6.18 and 6.19).
//!
//! Finds tables of frequent bytes, and codes of strings.

use shoal_codec::encoding::{huffman::SYMBOLS_MAX, lzw, stateless};
use shoal_codec::{Encoding, PlanNode, ValueType};

use super::error::EncodeError;
use super::program::node;
use super::source::Source;
use super::worker::Worker;
use crate::launch::{DeviceSlice, TILE_VALUES};

/// Greatest size of the tables of entries of all chunks that are encoded at a time, bytes.
const SLOT_BYTES_MAX: usize = 1 << 30;

/// The tables of `stateless` on the device.
#[derive(Debug)]
pub(super) struct Frequent {
    /// The node with its parameters.
    pub(super) node: PlanNode,
    /// The section of tables.
    pub(super) tables: DeviceSlice<u8>,
    /// By chunk and byte: the rank of the byte by frequency.
    pub(super) ranks: DeviceSlice<u8>,
}

/// The codes of `lzw` on the device.
#[derive(Debug)]
pub(super) struct Strings {
    pub(super) node: PlanNode,
    /// Number of codes of each tile.
    pub(super) counts: DeviceSlice<u16>,
    /// The child's values.
    pub(super) codes: Source,
}

impl Worker {
    /// The most frequent bytes of each chunk of a source.
    pub(super) fn frequent(
        &mut self,
        source: &Source,
        entries: u32,
        chunk_tiles: u32,
    ) -> Result<Frequent, EncodeError> {
        takes_bytes(source)?;
        stateless::check_parameters(entries, chunk_tiles).map_err(EncodeError::NotApplicable)?;
        let chunks = source.tiles().div_ceil(chunk_tiles) as usize;
        let tables = self.arena.allocate(chunks * entries as usize)?;
        let ranks = self.arena.allocate(chunks * SYMBOLS_MAX)?;
        let (task, sizes) = (source.task(), (chunk_tiles, entries));
        self.kernels.encode_ranks(&self.stream, &task, sizes, (ranks, tables))?;
        let parameter = entries | chunk_tiles << 16;
        let node = node(Encoding::Stateless, source.value_type, parameter, 0);
        Ok(Frequent { node, tables, ranks })
    }

    /// The codes of the strings of a source.
    pub(super) fn strings(
        &mut self,
        source: &Source,
        chunk_tiles: u32,
    ) -> Result<Strings, EncodeError> {
        takes_bytes(source)?;
        lzw::check_tiles(chunk_tiles).map_err(EncodeError::NotApplicable)?;
        let tiles = source.tiles() as usize;
        let chunk_bytes = (source.rows as usize).min(chunk_tiles as usize * TILE_VALUES);
        // At most half of the places are taken.
        let slots = (2 * chunk_bytes.min(lzw::ENTRIES_MAX)).next_power_of_two();
        let chunks = tiles.div_ceil(chunk_tiles as usize);
        let at_a_time = chunks.min(SLOT_BYTES_MAX / (slots * size_of::<u64>()));
        let codes = self.arena.allocate::<u16>(tiles * TILE_VALUES)?;
        let counts = self.arena.allocate::<u16>(tiles)?;
        let tables = self.arena.allocate::<u64>(at_a_time * slots)?;
        let total = self.upload(&[0_u64])?;
        let task = source.task();
        self.kernels.encode_strings(
            &self.stream,
            &task,
            chunk_tiles,
            tables,
            slots.trailing_zeros(),
            codes,
            counts,
            total,
        )?;
        let length = self.read(total)?[0] as u32;
        let codes = Source {
            values: codes.bytes(),
            bits: 16,
            value_type: ValueType::U16,
            counts: Some((counts, length)),
            ..*source
        };
        let node = node(Encoding::Lzw, source.value_type, chunk_tiles, 0);
        let node = PlanNode { children: 1, sections: 1, values: source.rows, ..node };
        Ok(Strings { node, counts, codes })
    }
}

/// Refuses values that are not bytes.
fn takes_bytes(source: &Source) -> Result<(), EncodeError> {
    if source.value_type == ValueType::U8 && source.counts.is_none() {
        return Ok(());
    }
    EncodeError::because("stateless and lzw take a value of u8 for every row")
}
