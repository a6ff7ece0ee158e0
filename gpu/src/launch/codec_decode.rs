//! Launches that decode columns of blocks: a number that does not depend on how many blocks there
//! are.
//!
//! Blocks, lists and what is decoded lie in one buffer: decoded columns first, then the input. That
//! places lie inside is asserted where the lists are made.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{
    CODEC_SPREAD_THREADS, CodecColumn, CodecKeys, CodecOpen, CodecSpread, CodecStep, Fates,
};

use super::memory::DeviceBuffer;
use super::module::{BLOCK_THREADS, Kernels, WARP, arguments, launch, launch_shared};
use super::parameters::Stretch;
use crate::codec::Class;

/// Threads of a block of the kernels without slots.
pub(super) const DECODE_THREADS: u32 = 128;
/// Threads of a block of the kernels with slots.
pub(super) const SLOT_THREADS: u32 = 32;

/// Tiles of a launch that are all under way at a time, by kernels of more registers too: 16 on each
/// of 132 multiprocessors.
const FEW_TILES: u32 = 2112;

/// Where the lists of what is to be decoded lie in the buffer.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CodecStretches {
    /// Bytes before the input.
    pub(crate) front: usize,
    pub(crate) steps: Stretch,
    pub(crate) opens: Stretch,
    pub(crate) keys: Stretch,
    /// Keyed columns that go to their rows, and pieces of all.
    pub(crate) spreads: Stretch,
    pub(crate) pieces: u32,
    /// Bytes of the largest piece.
    pub(crate) piece_bytes: u32,
    /// Parts of all keys, and digits of the longest.
    pub(crate) parts: u32,
    pub(crate) passes: u32,
    /// Whether keys are not all codes.
    pub(crate) has_wide_keys: bool,
    /// By class, columns in order of rows, then keyed ones; and tiles of each list.
    pub(crate) columns: [[(Stretch, u32); Class::ALL.len()]; 2],
}

/// Who is told of failures: words, so many apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed {
    address: u64,
    stride: u32,
}

impl Failed {
    /// A word a request.
    pub(crate) fn words(words: &DeviceBuffer<u32>) -> Self {
        Self { address: words.address(), stride: 1 }
    }

    /// The fates of requests.
    pub(crate) fn fates(fates: &DeviceBuffer<Fates>) -> Self {
        let address = fates.address() + std::mem::offset_of!(Fates, failed) as u64;
        Self { address, stride: (size_of::<Fates>() / size_of::<u32>()) as u32 }
    }
}

/// `Codec` of codec_tree.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct CodecArgument {
    input: u64,
    output: u64,
    steps: u64,
    failed: u64,
    stride: u32,
    reserved: u32,
}

/// `Grouping` of codec_group.cuh.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub(super) struct GroupingArgument {
    pub(super) input: u64,
    pub(super) output: u64,
    pub(super) keys: u64,
    pub(super) length: u32,
    pub(super) reserved: u32,
}

impl Kernels {
    /// Decodes everything that the lists name; marks who fails.
    pub(crate) fn codec_decode(
        &self,
        stream: &CudaStream,
        buffer: &DeviceBuffer<u8>,
        lists: &CodecStretches,
        failed: Failed,
    ) -> Result<(), EngineError> {
        assert!(lists.front <= buffer.len(), "what is decoded has room");
        let (output, input) = (buffer.address(), buffer.address() + lists.front as u64);
        let steps = lists.steps.address::<CodecStep>(buffer);
        let Failed { address, stride } = failed;
        let codec = CodecArgument { input, output, steps, failed: address, stride, reserved: 0 };
        let tasks = lists.opens.address::<CodecOpen>(buffer);
        let threads = lists.opens.length as u64 * u64::from(DECODE_THREADS);
        launch(&self.codec_open, stream, threads, arguments![codec, tasks])?;
        let [in_order, keyed] = &lists.columns;
        self.decode_columns(stream, buffer, &codec, in_order)?;
        let keys = lists.keys.address::<CodecKeys>(buffer);
        let length = lists.keys.length as u32;
        let grouping = GroupingArgument { input, output, keys, length, reserved: 0 };
        self.order_rows(stream, &grouping, lists)?;
        self.decode_columns(stream, buffer, &codec, keyed)?;
        let columns = lists.spreads.address::<CodecSpread>(buffer);
        let length = lists.spreads.length as u32;
        let threads = u64::from(lists.pieces) * u64::from(CODEC_SPREAD_THREADS);
        let wide = (threads, lists.piece_bytes);
        launch_shared(&self.codec_spread, stream, wide, arguments![output, columns, length])
    }

    /// One launch that counts and one a digit, and what wide keys take beside them.
    fn order_rows(
        &self,
        stream: &CudaStream,
        grouping: &GroupingArgument,
        lists: &CodecStretches,
    ) -> Result<(), EngineError> {
        let grouping = *grouping;
        let parts = u64::from(lists.parts) * u64::from(BLOCK_THREADS);
        if lists.has_wide_keys {
            launch(&self.codec_range, stream, parts, arguments![grouping])?;
        }
        launch(&self.codec_count, stream, parts, arguments![grouping])?;
        for pass in 0..lists.passes {
            launch(&self.codec_move, stream, parts, arguments![grouping, pass])?;
        }
        if lists.has_wide_keys {
            launch(&self.codec_heads, stream, parts, arguments![grouping])?;
        }
        Ok(())
    }

    /// One launch a class that has columns.
    fn decode_columns(
        &self,
        stream: &CudaStream,
        buffer: &DeviceBuffer<u8>,
        codec: &CodecArgument,
        lists: &[(Stretch, u32); Class::ALL.len()],
    ) -> Result<(), EngineError> {
        let codec = *codec;
        for (class, (columns, tiles)) in Class::ALL.iter().zip(lists) {
            let kernel = match (class.is_wide, class.slots) {
                (false, 0) if *tiles <= FEW_TILES => &self.codec_few_plain_32,
                (false, 0) => &self.codec_plain_32,
                (false, 1) if *tiles <= FEW_TILES => &self.codec_few_slot_32,
                (false, 1) => &self.codec_slot_32,
                (false, _) => &self.codec_slots_32,
                (true, 0) => &self.codec_plain_64,
                (true, 1) => &self.codec_slot_64,
                (true, _) => &self.codec_slots_64,
            };
            let (length, tiles) = (columns.length as u32, *tiles);
            let columns = columns.address::<CodecColumn>(buffer);
            let arguments = arguments![codec, columns, length, tiles];
            launch(kernel, stream, u64::from(tiles) * WARP, arguments)?;
        }
        Ok(())
    }
}
