//! Launches that find a grouped order and permute values to it, one block of threads per segment.
//!
//! Only for devices with enough shared memory per block; callers check.

use cudarc::driver::CudaStream;
use shoal_engine::EngineError;
use shoal_engine::layout::{self, EncodeTask};

use super::codec_encode::{EncodeKernels, TILE_VALUES};
use super::codec_encode_memory::DeviceSlice;
use super::module::{arguments, launch};

/// Rows of a block.
const SEGMENT_ROWS: usize = shoal_codec::tile::SEGMENT_ROWS;
/// Alignment of values, bytes, because kernels load neighbouring rows at once.
const ALIGN_BYTES: u64 = 32;

impl EncodeKernels {
    /// Writes the place of each row within its segment, and a bit for each head; the values of
    /// `task` are keys. Sets `failed` to 1 for segments whose keys are too far apart, else to 0.
    /// Requires [`EncodeKernels::hold_segments`].
    pub(crate) fn encode_order(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        places: DeviceSlice<u16>,
        heads: DeviceSlice<u32>,
        failed: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert!(task.counts == 0 && task.values.is_multiple_of(ALIGN_BYTES), "a column of its own");
        assert!(places.len() >= whole(task), "whole tiles");
        assert!(heads.len() * 32 >= whole(task), "a bit a place");
        assert_eq!(failed.len() as u64, segments(task), "a word a segment");
        let (places, heads, failed) = (places.address(), heads.address(), failed.address());
        let threads = segments(task) * u64::from(layout::ENCODE_ORDER_THREADS);
        launch(&self.encode_order, stream, threads, arguments![*task, places, heads, failed])
    }

    /// Writes the values of a task to their `places`, except in segments that have failed.
    pub(crate) fn encode_group(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        places: DeviceSlice<u16>,
        failed: DeviceSlice<u64>,
        to: DeviceSlice<u8>,
    ) -> Result<(), EngineError> {
        assert!(task.counts == 0 && task.values.is_multiple_of(ALIGN_BYTES), "a column of its own");
        assert_eq!(failed.len() as u64, segments(task), "a word a segment");
        assert!(places.len() >= whole(task), "whole tiles");
        assert!(to.len() >= whole(task) * task.bits as usize / 8, "whole tiles");
        let (places, failed, to) = (places.address(), failed.address(), to.address());
        let threads = segments(task) * u64::from(layout::ENCODE_SEGMENT_THREADS);
        let kernel = if self.hold_segments() { &self.encode_group } else { &self.encode_scatter };
        launch(kernel, stream, threads, arguments![*task, places, failed, to])
    }
}

/// Rows in whole tiles.
fn whole(task: &EncodeTask) -> usize {
    (task.rows as usize).next_multiple_of(TILE_VALUES)
}

/// Segments, which are blocks of a launch.
fn segments(task: &EncodeTask) -> u64 {
    (task.rows as usize).div_ceil(SEGMENT_ROWS) as u64
}
