//! Launches that compute the grouped order of rows while columns are encoded. They use the kernels
//! of decoding, and one that finds heads.
//!
//! Each launch takes one column of keys, whose places are addresses.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{CODEC_DIGITS, CODEC_PARTS, CodecKeys, CodecRange, EncodeTask};

use super::argument_layout::{GroupingArgument, Pointer};
use super::codec_encode::{EncodeKernels, TILE_VALUES};
use super::codec_encode_memory::DeviceSlice;
use super::module::{BLOCK_THREADS, WARP, arguments, launch};

/// Rows that are ordered together.
const SEGMENT_ROWS: usize = shoal_codec::tile::SEGMENT_ROWS;
/// Rows of a block of threads.
const PART_ROWS: usize = SEGMENT_ROWS / CODEC_PARTS as usize;

/// The buffers of ordering a column of keys.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ordering {
    /// Bit patterns of whole bytes, in order of rows.
    pub(crate) keys: DeviceSlice<u8>,
    pub(crate) key_bytes: u32,
    pub(crate) rows: u32,
    /// By position in the order: the row and the bits of its key. Padded to whole tiles, as are
    /// `places`, `work` and `other`.
    pub(crate) order: DeviceSlice<u32>,
    /// By row: its position within the segment.
    pub(crate) places: DeviceSlice<u16>,
    pub(crate) work: DeviceSlice<u32>,
    pub(crate) other: DeviceSlice<u32>,
    /// Digit counts of each part: `counts` for every byte of a key, `published` for one pass.
    pub(crate) counts: DeviceSlice<u32>,
    pub(crate) published: DeviceSlice<u32>,
    /// By segment.
    pub(crate) ranges: DeviceSlice<CodecRange>,
}

impl Ordering {
    /// Number of digit counts of all parts of `rows` rows.
    pub(crate) fn digits(rows: usize) -> usize {
        rows.div_ceil(PART_ROWS) * CODEC_DIGITS as usize
    }

    /// The record for the kernels.
    pub(crate) fn record(&self) -> CodecKeys {
        let (rows, bytes) = (self.rows as usize, self.key_bytes as usize);
        let whole = rows.next_multiple_of(TILE_VALUES);
        assert!(self.keys.len() >= rows * bytes, "a key a row");
        let shortest = self.order.len().min(self.work.len()).min(self.other.len());
        assert!(shortest.min(self.places.len()) >= whole, "whole tiles");
        assert!(self.counts.len() >= Self::digits(rows) * bytes, "digits of every byte");
        assert!(self.published.len() >= Self::digits(rows), "digits of a pass");
        assert!(self.ranges.len() >= rows.div_ceil(SEGMENT_ROWS), "a range a segment");
        CodecKeys {
            keys: self.keys.address(),
            order: self.order.address(),
            places: self.places.address(),
            heads: 0,
            work: self.work.address(),
            other: self.other.address(),
            counts: self.counts.address(),
            published: self.published.address(),
            ranges: self.ranges.address(),
            first_part: 0,
            rows: self.rows,
            key_bytes: self.key_bytes,
            is_decoded: 0,
            bits: 0,
            passes: self.key_bytes,
            first_segment: 0,
            reserved: 0,
        }
    }

    /// Threads of a launch with a block per part.
    fn threads(&self) -> u64 {
        (self.rows as usize).div_ceil(PART_ROWS) as u64 * u64::from(BLOCK_THREADS)
    }
}

impl EncodeKernels {
    /// Computes the least key and the bits of the keys of each segment; `record` is that of
    /// `ordering`.
    pub(crate) fn range_keys(
        &self,
        stream: &CudaStream,
        ordering: &Ordering,
        record: DeviceSlice<CodecKeys>,
    ) -> Result<(), EngineError> {
        let grouping = grouping_of(record);
        launch(&self.codec_range, stream, ordering.threads(), arguments![grouping])
    }

    /// Sorts by keys of at most `passes` digits; the ranges have been computed.
    pub(crate) fn order_keys(
        &self,
        stream: &CudaStream,
        ordering: &Ordering,
        record: DeviceSlice<CodecKeys>,
        passes: u32,
    ) -> Result<(), EngineError> {
        let (grouping, threads) = (grouping_of(record), ordering.threads());
        launch(&self.codec_count, stream, threads, arguments![grouping])?;
        for pass in 0..passes {
            launch(&self.codec_move, stream, threads, arguments![grouping, pass])?;
        }
        Ok(())
    }

    /// Heads of the order; `task` reads its keys.
    pub(crate) fn encode_heads(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        ordering: &Ordering,
        heads: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        assert_eq!((task.rows, task.values), (ordering.rows, ordering.keys.address()));
        assert!(heads.len() >= (task.rows as usize).div_ceil(32), "a bit a position");
        let (order, ranges) = (ordering.order.address(), ordering.ranges.address());
        let (threads, heads) = (u64::from(task.rows).next_multiple_of(WARP), heads.address());
        launch(&self.encode_heads, stream, threads, arguments![*task, order, ranges, heads])
    }
}

/// One column, whose places are addresses.
fn grouping_of(record: DeviceSlice<CodecKeys>) -> GroupingArgument {
    let (input, output, keys) = (Pointer::NULL, Pointer::NULL, record.pointer());
    GroupingArgument { input, output, keys, length: 1, reserved: 0 }
}
