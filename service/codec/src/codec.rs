//! The interface of block codecs, and the codec on one CPU core.
//!
//! All implementations write the same bytes, and keep no state between blocks.
//! [`crate::Block::decode_rows`] reads what any of them wrote.

use crate::block_plan::BlockPlan;
use crate::columns::FixColumns;
use crate::encode::ColumnOutcome;
use crate::error::BlockError;
use crate::space::SpaceTag;

/// Encodes columns to blocks.
pub trait BlockCodec {
    /// Replaces `out` with the block of `columns` and reuses its allocation. Each column is encoded
    /// with its tree in `plan` if the tree applies and makes the column smaller; otherwise it stays
    /// raw. The same input gives the same bytes. Returns the outcome of each column; on error `out`
    /// is empty.
    ///
    /// # Errors
    /// If columns have unequal lengths, if the space is invalid, if rows or bytes exceed the
    /// default [`crate::Budget`], or if event times are more than
    /// [`crate::limits::TIME_SPAN_MS_MAX`] apart.
    fn encode_planned(
        &self,
        columns: &FixColumns,
        plan: &BlockPlan,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<Vec<ColumnOutcome>, BlockError>;

    /// [`BlockCodec::encode_planned`] with every column raw, which gives format version 1.0.
    ///
    /// # Errors
    /// As [`BlockCodec::encode_planned`].
    fn encode(
        &self,
        columns: &FixColumns,
        space: &SpaceTag,
        sequence: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), BlockError> {
        self.encode_planned(columns, &BlockPlan::raw(), space, sequence, out).map(|_| ())
    }
}

/// The codec in safe Rust on one core; `encode.rs` implements it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuCodec;
