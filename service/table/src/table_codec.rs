//! The codec of the blocks of a table: this core, or a device that the caller provides.
//!
//! Every codec writes the same bytes for the same planners and columns, and reads what another one
//! wrote.

use std::ops::Range;

use shoal_codec::tile::SEGMENT_ROWS;
use shoal_codec::{
    BlockError, Table, TableOutcome, TablePlanner, TableValues, encode_planned_table,
};

/// Why a codec encodes or decodes nothing.
#[derive(Debug)]
pub enum CodecFault {
    /// The columns fit no block, or the block is damaged.
    Block(BlockError),
    /// The device failed, or its memory does not suffice.
    Device(String),
}

impl From<BlockError> for CodecFault {
    fn from(error: BlockError) -> Self {
        Self::Block(error)
    }
}

/// Encodes and decodes the blocks of a table.
pub trait TableCodec: Send {
    /// Plans and encodes a table: as [`encode_planned_table`].
    ///
    /// # Errors
    /// As there, or the device's.
    fn encode(
        &mut self,
        planners: &mut [TablePlanner],
        columns: &[(u16, &TableValues)],
        is_keyed: bool,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<TableOutcome>, CodecFault>;

    /// Decodes `rows` of all columns: as [`Table::decode_all`].
    ///
    /// # Errors
    /// As there, or the device's.
    fn decode(&mut self, table: &Table, rows: Range<usize>)
    -> Result<Vec<TableValues>, CodecFault>;

    /// Rows of a table that are decoded together, which bounds the memory that a small block can
    /// claim.
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
