//! Launches that encode bytes and text: ranks of bytes by frequency, codes of strings.
//!
//! See the kernels for what each slice holds.

use cudarc::driver::CudaStream;
use shoal_codec::encoding::huffman::SYMBOLS_MAX;
use shoal_engine::EngineError;
use shoal_engine::layout::EncodeTask;

use super::codec_encode::{EncodeKernels, TILE_VALUES};
use super::codec_encode_memory::DeviceSlice;
use super::module::{WARP, arguments, launch};

impl EncodeKernels {
    /// Writes the rank of every byte in each chunk of `chunk_tiles` tiles, and the `entries` most
    /// frequent bytes of each chunk.
    pub(crate) fn encode_ranks(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        (chunk_tiles, entries): (u32, u32),
        (ranks, tables): (DeviceSlice<u8>, DeviceSlice<u8>),
    ) -> Result<(), EngineError> {
        assert_eq!(task.counts, 0, "every tile has all its values");
        let chunks = task.tiles.div_ceil(chunk_tiles) as usize;
        assert!(ranks.len() >= chunks * SYMBOLS_MAX, "a rank a byte");
        assert!(tables.len() >= chunks * entries as usize, "a table a chunk");
        let (ranks, tables) = (ranks.address(), tables.address());
        let threads = (chunks * SYMBOLS_MAX) as u64;
        let arguments = arguments![*task, chunk_tiles, entries, ranks, tables];
        launch(&self.encode_ranks, stream, threads, arguments)
    }

    /// Writes the codes of all chunks to `codes`, the number of codes of each tile to `counts`, and
    /// adds their sum to `total`. A chunk has `chunk_tiles` tiles. `slots` holds one table of
    /// 2^`slot_bits` places for each chunk that is encoded at the same time.
    pub(crate) fn encode_strings(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        chunk_tiles: u32,
        slots: DeviceSlice<u64>,
        slot_bits: u32,
        codes: DeviceSlice<u16>,
        counts: DeviceSlice<u16>,
        total: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert_eq!((task.counts, task.bits), (0, 8), "bytes in order of rows");
        let at_a_time = slots.len() >> slot_bits;
        assert!(at_a_time > 0 && total.len() == 1, "a chunk at least, and their sum");
        assert!(codes.len() >= task.tiles as usize * TILE_VALUES, "a code a byte");
        assert!(counts.len() >= task.tiles as usize, "a number a tile");
        let (slots, codes, counts) = (slots.address(), codes.address(), counts.address());
        let total = total.address();
        let blocks = u64::from(task.tiles.div_ceil(chunk_tiles)).min(at_a_time as u64);
        let arguments = arguments![*task, chunk_tiles, slots, slot_bits, codes, counts, total];
        launch(&self.encode_strings, stream, blocks * WARP, arguments)
    }
}
