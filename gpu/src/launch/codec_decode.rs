//! Launches that decode columns of blocks; their number does not depend on the number of blocks.
//!
//! Blocks, lists and output share one buffer: decoded columns first, then the input. The code that
//! builds the lists asserts that places lie inside the buffer.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{
    CODEC_ORDER_BYTES, CODEC_ORDER_ROWS, CODEC_SCATTER_BYTES, CODEC_SCATTER_EACH,
    CODEC_SCATTER_THREADS, CodecColumn, CodecKeys, CodecOpen, CodecScatter, CodecStep,
    CodecStrings, RowOutcomeCounts,
};

use super::argument_layout::{CodecArgument, GroupingArgument, Pointer};
use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, Run, WARP, arguments, launch, launch_run};
use super::parameters::ByteRange;
use crate::codec::Class;

/// Threads of a block of the kernels without slots.
pub(super) const DECODE_THREADS: u32 = 128;
/// Threads of a block of the kernels with slots.
pub(super) const SLOT_THREADS: u32 = 32;

/// Most tiles that run at once even in kernels that use more registers: 16 on each of 132
/// multiprocessors.
const SMALL_TILES: u32 = 2112;

/// Places of the lists of a decode in the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodecRanges {
    /// Bytes before the input.
    pub(crate) front: usize,
    pub(crate) steps: ByteRange,
    pub(crate) opens: ByteRange,
    pub(crate) keys: ByteRange,
    /// Columns of strings, and the number of their chunks.
    pub(crate) strings: ByteRange,
    pub(crate) chunks: u32,
    /// Keyed columns to scatter to their rows, and the number of their pieces.
    pub(crate) scatters: ByteRange,
    pub(crate) pieces: u32,
    /// Bytes of the longest segment of a keyed column.
    pub(crate) scatter_bytes: u32,
    /// Number of parts of all key columns, and digits of the longest key.
    pub(crate) parts: u32,
    pub(crate) passes: u32,
    /// Number of segments of all key columns, and rows of the longest segment.
    pub(crate) segments: u32,
    pub(crate) segment_rows: u32,
    /// True if the keys of any key column are not codes.
    pub(crate) has_wide_keys: bool,
    /// For the columns in row order, then for the keyed columns: by class, the list of the columns
    /// and their number of tiles.
    pub(crate) columns: [[(ByteRange, u32); Class::ALL.len()]; 2],
}

/// Failure flags of requests: one word per request, `stride` words apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    address: u64,
    stride: u32,
}

impl Failed {
    /// A word per request.
    pub(crate) fn words(words: &DeviceBuffer<u32>) -> Self {
        Self { address: words.address(), stride: 1 }
    }

    /// The outcomes of requests.
    pub(crate) fn outcomes(outcomes: &DeviceBuffer<RowOutcomeCounts>) -> Self {
        let address = outcomes.address() + std::mem::offset_of!(RowOutcomeCounts, failed) as u64;
        Self { address, stride: (size_of::<RowOutcomeCounts>() / size_of::<u32>()) as u32 }
    }
}

impl Kernels {
    /// Decodes everything in the lists and flags requests that fail.
    pub(crate) fn codec_decode(
        &self,
        stream: &CudaStream,
        buffer: &DeviceBuffer<u8>,
        lists: &CodecRanges,
        failed: Failed,
    ) -> Result<(), EngineError> {
        assert!(lists.front <= buffer.len(), "the output lies in the buffer");
        let (output, input) = (buffer.pointer(), buffer.address() + lists.front as u64);
        let input = Pointer::new(input);
        let steps = lists.steps.pointer::<CodecStep>(buffer);
        let (failed, stride) = (Pointer::new(failed.address), failed.stride);
        let codec = CodecArgument { input, output, steps, failed, stride, reserved: 0 };
        let tasks = lists.opens.address::<CodecOpen>(buffer);
        let threads = lists.opens.length as u64 * u64::from(DECODE_THREADS);
        launch(&self.codec_open, stream, threads, arguments![codec, tasks])?;
        let [in_order, keyed] = &lists.columns;
        self.decode_columns(stream, buffer, &codec, in_order)?;
        let strings = lists.strings.address::<CodecStrings>(buffer);
        let (length, run) = (lists.strings.length as u32, self.following(lists.chunks));
        launch_run(&self.codec_strings, stream, run, 0, arguments![codec, strings, length])?;
        let keys = lists.keys.pointer::<CodecKeys>(buffer);
        let length = lists.keys.length as u32;
        let grouping = GroupingArgument { input, output, keys, length, reserved: 0 };
        self.order_rows(stream, &grouping, lists)?;
        self.decode_columns(stream, buffer, &codec, keyed)?;
        let columns = lists.scatters.address::<CodecScatter>(buffer);
        self.scatter_rows(stream, buffer.address(), columns, lists)
    }

    /// Scatters values of keyed columns to their rows.
    fn scatter_rows(
        &self,
        stream: &CudaStream,
        output: u64,
        columns: u64,
        lists: &CodecRanges,
    ) -> Result<(), EngineError> {
        let kernel = &self.codec_scatter;
        let chunk_bytes = lists.scatter_bytes.min(CODEC_SCATTER_BYTES);
        let chunks = lists.scatter_bytes.div_ceil(CODEC_SCATTER_BYTES);
        let buffers = chunks.min(kernel.dynamic_shared_bytes / CODEC_SCATTER_BYTES);
        let threads = lists.segment_rows.div_ceil(CODEC_SCATTER_EACH).next_multiple_of(WARP as u32);
        let run = Run {
            threads: Some(threads.min(CODEC_SCATTER_THREADS)),
            ..self.following(lists.pieces)
        };
        let length = lists.scatters.length as u32;
        let arguments = arguments![output, columns, length, chunk_bytes, buffers];
        launch_run(kernel, stream, run, chunk_bytes * buffers, arguments)
    }

    /// A launch of independent blocks that follows another launch of a chain.
    fn following(&self, blocks: u32) -> Run {
        Run { blocks, threads: None, cluster: 1, follows: self.has_clusters }
    }

    /// Sorts rows with clusters of blocks; on older devices with launches that pass rows through
    /// memory.
    fn order_rows(
        &self,
        stream: &CudaStream,
        grouping: &GroupingArgument,
        lists: &CodecRanges,
    ) -> Result<(), EngineError> {
        let grouping = *grouping;
        if self.has_clusters {
            let blocks = lists.segment_rows.div_ceil(CODEC_ORDER_ROWS).next_power_of_two();
            let run = Run { cluster: blocks, ..self.following(lists.segments * blocks) };
            let kernel = match lists.has_wide_keys {
                true => &self.codec_order_keys,
                false => &self.codec_order_codes,
            };
            return launch_run(kernel, stream, run, CODEC_ORDER_BYTES, arguments![grouping]);
        }
        let parts = u64::from(lists.parts) * u64::from(BLOCK_THREADS);
        if lists.has_wide_keys {
            launch(&self.codec_range, stream, parts, arguments![grouping])?;
        }
        launch(&self.codec_count, stream, parts, arguments![grouping])?;
        for pass in 0..lists.passes {
            launch(&self.codec_move, stream, parts, arguments![grouping, pass])?;
        }
        launch(&self.codec_heads, stream, parts, arguments![grouping])
    }

    /// One launch for each class that has columns.
    fn decode_columns(
        &self,
        stream: &CudaStream,
        buffer: &DeviceBuffer<u8>,
        codec: &CodecArgument,
        lists: &[(ByteRange, u32); Class::ALL.len()],
    ) -> Result<(), EngineError> {
        let codec = *codec;
        for (class, (columns, tiles)) in Class::ALL.iter().zip(lists) {
            let kernel = match class {
                Class::Narrow(0) if *tiles <= SMALL_TILES => &self.codec_small_plain_32,
                Class::Narrow(0) => &self.codec_plain_32,
                Class::Narrow(1) if *tiles <= SMALL_TILES => &self.codec_small_slot_32,
                Class::Narrow(1) => &self.codec_slot_32,
                Class::Narrow(_) => &self.codec_slots_32,
                Class::Wide(0) => &self.codec_plain_64,
                Class::Wide(1) => &self.codec_slot_64,
                Class::Wide(_) => &self.codec_slots_64,
                Class::Runs => &self.codec_runs_32,
                Class::Repeats => &self.codec_repeats_32,
            };
            let (length, tiles) = (columns.length as u32, *tiles);
            let columns = columns.address::<CodecColumn>(buffer);
            let arguments = arguments![codec, columns, length, tiles];
            let run = self.following(tiles.div_ceil(kernel.warps()));
            launch_run(kernel, stream, run, 0, arguments)?;
        }
        Ok(())
    }
}
