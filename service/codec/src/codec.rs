//! The interface of block codecs, and the codec on one CPU core.
//!
//! All implementations write the same bytes. They own no buffers and keep no state between blocks.

use std::ops::Range;

use crate::block::Block;
use crate::block_plan::BlockPlan;
use crate::columns::{ColumnSet, FixColumns};
use crate::encode::{ColumnOutcome, encode, encoded_size_max};
use crate::error::BlockError;
use crate::space::SpaceTag;

/// Encodes columns to blocks and decodes rows of blocks.
pub trait BlockCodec {
    /// Replaces `out` with the block of `columns`; its allocation is reused. Each column takes its
    /// tree of `plan` if it applies and makes the column smaller, and stays raw otherwise. The
    /// same input gives the same bytes. Returns the outcome of each column; on error `out` is
    /// empty.
    ///
    /// # Errors
    /// Columns of unequal length, an invalid space, more rows or bytes than the default
    /// [`crate::Budget`], event times more than [`crate::limits::TIME_SPAN_MS_MAX`] apart.
    fn encode_planned(
        &self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, BlockError>;

    /// [`BlockCodec::encode_planned`] with every column raw: format version 1.0.
    ///
    /// # Errors
    /// As there.
    fn encode(
        &self,
        columns: &FixColumns,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        self.encode_planned(columns, &BlockPlan::raw(), space, sequence, out).map(|_| ())
    }

    /// Replaces `out` with `rows` of `block`; its allocations are reused.
    ///
    /// # Errors
    /// As [`Block::decode_rows`]; `out` has no rows then.
    fn decode_rows(
        &self,
        block: &Block,
        rows: Range<usize>,
        out: &mut FixColumns,
    ) -> Result<(), BlockError>;

    /// Bytes that a block of `rows` rows with these columns takes at most, whatever the values.
    fn encoded_size_max(&self, rows: usize, columns: ColumnSet) -> usize;
}

/// The codec in safe Rust on one core.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCodec;

impl BlockCodec for CpuCodec {
    fn encode_planned(
        &self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, BlockError> {
        encode(columns, plan, space, sequence, out)
    }

    fn decode_rows(
        &self,
        block: &Block,
        rows: Range<usize>,
        out: &mut FixColumns,
    ) -> Result<(), BlockError> {
        block.decode_rows(rows, out)
    }

    fn encoded_size_max(&self, rows: usize, columns: ColumnSet) -> usize {
        encoded_size_max(rows, columns)
    }
}
