//! Codec of the blocks of a table: one CPU core, or a device that the caller provides.
//!
//! All codecs write the same bytes for the same planners and columns, and read each other's blocks.

use std::ops::Range;

use shoal_codec::tile::SEGMENT_ROWS;
use shoal_codec::{
    BlockError, Table, TableOutcome, TablePlanner, TableValues, encode_planned_table,
};

/// Why a codec failed.
#[derive(Debug)]
pub enum CodecFault {
    /// The columns do not fit a block, or the block is damaged.
    Block(BlockError),
    /// The device failed, or has too little memory.
    Device(String),
}

impl From<BlockError> for CodecFault {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

/// Encodes and decodes the blocks of a table.
pub trait TableCodec: Send {
    /// Plans and encodes a table as [`encode_planned_table`] does.
    ///
    /// # Errors
    /// As [`encode_planned_table`], and [`CodecFault::Device`].
    fn encode(
        &mut self,
        planners: &mut [TablePlanner],
        columns: &[(u16, &TableValues)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, CodecFault>;

    /// Decodes `rows` of all columns as [`Table::decode_all`] does.
    ///
    /// # Errors
    /// As [`Table::decode_all`], and [`CodecFault::Device`].
    fn decode(&mut self, table: &Table, rows: Range<usize>)
    -> Result<Vec<TableValues>, CodecFault>;

    /// Maximum rows of a table to decode at a time. This limits the memory for a small block that
    /// claims many rows.
    fn rows_together(&self, _table: &Table) -> usize {
        SEGMENT_ROWS
    }
}

/// The codec on one core.
#[derive(Clone, Copy, Debug, Default)]
pub struct CpuTableCodec;

impl TableCodec for CpuTableCodec {
    fn encode(
        &mut self,
        planners: &mut [TablePlanner],
        columns: &[(u16, &TableValues)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, CodecFault> {
        Ok(encode_planned_table(planners, columns, is_keyed, sequence, out)?)
    }

    fn decode(
        &mut self,
        table: &Table,
        rows: Range<usize>,
    ) -> Result<Vec<TableValues>, CodecFault> {
        Ok(table.decode_all(rows)?)
    }
}
