//! Launches that encode columns: tiles, distinct values of a column, the order of keyed trees.
//!
//! Addresses in a task come from slices; the code that builds the task asserts their lengths.

use std::sync::Arc;

use cudarc::driver::{CudaContext, CudaStream, DriverError};
use cudarc::nvrtc::Ptx;
use shoal_codec::Encoding;
use shoal_codec::encoding::huffman::SYMBOLS_MAX;
use shoal_engine::EngineError;
use shoal_engine::layout::{self, EncodeStep, EncodeTask};

use super::codec_encode_memory::DeviceSlice;
use super::module::{BLOCK_THREADS, Kernel, SHARED_BYTES_MAX, WARP, arguments, launch};
use crate::codec::code;
use crate::tuning::Width;

/// Values of a tile.
pub(crate) const TILE_VALUES: usize = shoal_codec::tile::TILE_VALUES;
/// Threads of a tile's block.
const TILE_THREADS: u64 = BLOCK_THREADS as u64;
/// Blocks of a launch over all rows with a stride.
const STRIDED_BLOCKS: u64 = 1056;

/// Steps that a single warp can run; the last two are keyed.
const COMMON: [u32; 8] = [
    code(Encoding::Raw),
    code(Encoding::Afl),
    code(Encoding::Delta),
    code(Encoding::Scale),
    code(Encoding::Divisor),
    code(Encoding::Patch),
    code(Encoding::KeyedDelta),
    code(Encoding::KeyedDelta2),
];

macro_rules! encode_kernels {
    ($($file:literal: $($name:ident),+;)+) => {
        /// Every entry point of encoding and statistics, by name.
        #[derive(Debug)]
        pub(crate) struct EncodeKernels {
            $($(pub(super) $name: Kernel,)+)+
            /// Most shared memory of a block.
            shared_bytes: u32,
        }

        impl EncodeKernels {
            /// Loads the fatbins that the build embedded.
            pub(crate) fn load(context: &Arc<CudaContext>) -> Result<Self, DriverError> {
                let shared_bytes = context.attribute(SHARED_BYTES_MAX)?.unsigned_abs();
                $(
                    let image = include_bytes!(concat!(env!("OUT_DIR"), "/", $file, ".fatbin"));
                    let module = context.load_module(Ptx::from_binary(image.to_vec()))?;
                    $(
                        let function = module.load_function(stringify!($name))?;
                        let width = width_of(stringify!($name), shared_bytes);
                        let $name = Kernel::new(function, width)?;
                    )+
                )+
                Ok(Self { $($($name,)+)+ shared_bytes })
            }
        }
    };
}

encode_kernels! {
    "codec/encode": encode_tiles_narrow, encode_tiles_wide, encode_offsets, encode_place;
    "codec/encode_lanes": encode_lanes_narrow, encode_lanes_wide, encode_keyed_narrow,
        encode_keyed_wide;
    "codec/encode_distinct": encode_keys, encode_widen, encode_begins, encode_distinct,
        encode_frequencies, encode_enter, encode_entries, encode_codes, encode_dictionary,
        encode_heads;
    "codec/encode_order": encode_order;
    "codec/encode_group": encode_group, encode_scatter;
    "codec/encode_strings": encode_ranks, encode_strings;
    "codec/encode_hash": hash_values, hash_list, hash_number, hash_codes;
    "codec/group": codec_range, codec_count, codec_move;
    "codec/statistics": statistics_bounds, statistics_divisor, statistics_decimals,
        statistics_buckets;
}

/// Launch width of a kernel on a device with `shared_bytes` of shared memory per block; if that is
/// too little, the kernel is never launched.
fn width_of(kernel: &str, shared_bytes: u32) -> Width {
    let shared = |threads, bytes: u32| Width::with_shared(threads, bytes.min(shared_bytes));
    match kernel {
        "encode_order" => shared(layout::ENCODE_ORDER_THREADS, layout::ENCODE_ORDER_BYTES),
        "encode_strings" => Width::of_blocks(WARP as u32),
        "encode_scatter" => Width::of_blocks(layout::ENCODE_SEGMENT_THREADS),
        "encode_group" => shared(layout::ENCODE_SEGMENT_THREADS, layout::ENCODE_GROUP_BYTES),
        "encode_offsets" => Width::of_blocks(layout::ENCODE_OFFSETS_THREADS),
        "encode_lanes_narrow"
        | "encode_lanes_wide"
        | "encode_keyed_narrow"
        | "encode_keyed_wide" => Width::of_blocks(WARP as u32 * layout::ENCODE_LANES_TILES),
        _ => Width::FULL,
    }
}

/// Runs of equal values in sorted order.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Runs {
    /// Sorted values and their rows.
    pub(crate) keys: DeviceSlice<u64>,
    pub(crate) rows: DeviceSlice<u32>,
    /// By sorted value: 1 if a run begins there, and the number of runs that begin before it.
    pub(crate) begins: DeviceSlice<u32>,
    pub(crate) before: DeviceSlice<u32>,
    /// By run: its value and its start; after the last start, the number of all values.
    pub(crate) distinct: DeviceSlice<u64>,
    pub(crate) starts: DeviceSlice<u32>,
    pub(crate) length: u32,
}

impl EncodeKernels {
    /// The kernels as on a device with too little shared memory per block for segments.
    #[cfg(test)]
    pub(crate) fn without_segments(self) -> Self {
        Self { shared_bytes: 0, ..self }
    }

    /// True if a block of threads can hold the rows of a segment.
    pub(crate) fn hold_segments(&self) -> bool {
        self.shared_bytes >= layout::ENCODE_ORDER_BYTES.max(layout::ENCODE_GROUP_BYTES)
    }

    /// Encodes all tiles of a task into staged words and sections; `steps` are uploaded to
    /// `target`.
    pub(crate) fn encode_tiles(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        steps: &[EncodeStep],
        target: DeviceSlice<EncodeStep>,
    ) -> Result<(), EngineError> {
        assert_eq!((task.steps, task.steps_count as usize), (target.address(), target.len()));
        let are_common = steps.iter().all(|step| COMMON.contains(&step.kind));
        let is_wide = task.bits == 64;
        if task.counts == 0 && are_common {
            let is_keyed = steps.iter().any(|step| COMMON[6..].contains(&step.kind));
            let kernel = match (is_keyed, is_wide) {
                (false, false) => &self.encode_lanes_narrow,
                (false, true) => &self.encode_lanes_wide,
                (true, false) => &self.encode_keyed_narrow,
                (true, true) => &self.encode_keyed_wide,
            };
            return launch(kernel, stream, u64::from(task.tiles) * WARP, arguments![*task]);
        }
        let kernel = if is_wide { &self.encode_tiles_wide } else { &self.encode_tiles_narrow };
        launch(kernel, stream, u64::from(task.tiles) * TILE_THREADS, arguments![*task])
    }

    /// Computes the start of each tile in each section of words, and the lengths of the sections.
    pub(crate) fn encode_offsets(
        &self,
        stream: &CudaStream,
        sizes: DeviceSlice<u32>,
        offsets: DeviceSlice<u32>,
        tiles: u32,
        totals: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        let sections = totals.len();
        let all = sections * tiles as usize;
        assert!(sizes.len().min(offsets.len()) >= all, "a size and an offset a tile");
        let (sizes, offsets, totals) = (sizes.address(), offsets.address(), totals.address());
        let threads = sections as u64 * u64::from(layout::ENCODE_OFFSETS_THREADS);
        launch(&self.encode_offsets, stream, threads, arguments![sizes, offsets, tiles, totals])
    }

    /// Writes the values of a task as keys, with their rows. For a sparse node, `before` has the
    /// number of values in the tiles before each tile.
    pub(crate) fn encode_keys(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        before: DeviceSlice<u32>,
        keys: DeviceSlice<u64>,
        rows: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        let is_sparse = task.counts != 0;
        assert!(!is_sparse || before.len() >= task.tiles as usize, "a sum a tile");
        assert_eq!(keys.len(), rows.len(), "a row a key");
        assert!(is_sparse || keys.len() >= task.rows as usize, "a key a row");
        let (before, keys, rows) = (before.address(), keys.address(), rows.address());
        let threads = u64::from(task.tiles) * TILE_THREADS;
        launch(&self.encode_keys, stream, threads, arguments![*task, before, keys, rows])
    }

    /// Converts the counts of tiles to 32 bits.
    pub(crate) fn encode_widen(
        &self,
        stream: &CudaStream,
        counts: DeviceSlice<u16>,
        wide: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        assert!(wide.len() >= counts.len(), "a number a tile");
        let (tiles, counts, wide) = (counts.len() as u32, counts.address(), wide.address());
        launch(&self.encode_widen, stream, tiles.into(), arguments![counts, wide, tiles])
    }

    /// Marks where runs begin.
    pub(crate) fn encode_begins(
        &self,
        stream: &CudaStream,
        runs: &Runs,
    ) -> Result<(), EngineError> {
        let length = runs.length;
        assert!(runs.keys.len().min(runs.begins.len()) >= length as usize, "a mark a key");
        let (keys, begins) = (runs.keys.address(), runs.begins.address());
        launch(&self.encode_begins, stream, length.into(), arguments![keys, begins, length])
    }

    /// Lists the distinct values; writes their number to `numbers`.
    pub(crate) fn encode_distinct(
        &self,
        stream: &CudaStream,
        runs: &Runs,
        numbers: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        let length = runs.length;
        let shortest = runs.keys.len().min(runs.begins.len()).min(runs.before.len());
        assert!(shortest.min(runs.distinct.len()) >= length as usize, "all may be different");
        assert!(runs.starts.len() > length as usize && numbers.len() == 1, "and the end");
        let (keys, begins, before) =
            (runs.keys.address(), runs.begins.address(), runs.before.address());
        let (distinct, starts, numbers) =
            (runs.distinct.address(), runs.starts.address(), numbers.address());
        let arguments = arguments![keys, begins, before, length, distinct, starts, numbers];
        launch(&self.encode_distinct, stream, length.into(), arguments)
    }

    /// Writes keys by which a sort puts the most frequent of `numbers` distinct values first.
    pub(crate) fn encode_frequencies(
        &self,
        stream: &CudaStream,
        runs: &Runs,
        numbers: u32,
        keys: DeviceSlice<u32>,
        values: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        assert!(runs.starts.len() > numbers as usize, "a run has an end");
        assert!(keys.len().min(values.len()) >= numbers as usize, "a pair a number");
        let (starts, keys, values) = (runs.starts.address(), keys.address(), values.address());
        let arguments = arguments![starts, numbers, keys, values];
        launch(&self.encode_frequencies, stream, numbers.into(), arguments)
    }

    /// Marks the first `limit` of `listed`.
    pub(crate) fn encode_enter(
        &self,
        stream: &CudaStream,
        listed: DeviceSlice<u32>,
        limit: u32,
        entered: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        assert!(listed.len().min(entered.len()) >= limit as usize, "a mark an entry");
        let (listed, entered) = (listed.address(), entered.address());
        launch(&self.encode_enter, stream, limit.into(), arguments![listed, limit, entered])
    }

    /// Writes the entries, and the code of each of `numbers` distinct values. `entered` and `rank`
    /// are empty if all values are entries.
    pub(crate) fn encode_entries(
        &self,
        stream: &CudaStream,
        runs: &Runs,
        (entered, rank): (DeviceSlice<u32>, DeviceSlice<u32>),
        (numbers, limit): (u32, u32),
        (entries, code_of): (DeviceSlice<u64>, DeviceSlice<u32>),
    ) -> Result<(), EngineError> {
        let is_all = entered.address() == 0;
        assert!(is_all || entered.len().min(rank.len()) >= numbers as usize, "a mark each");
        assert!(entries.len() >= limit as usize, "an entry each");
        assert!(code_of.len().min(runs.distinct.len()) >= numbers as usize, "a code each");
        let (distinct, entered, rank) =
            (runs.distinct.address(), entered.address(), rank.address());
        let (entries, code_of) = (entries.address(), code_of.address());
        let arguments = arguments![distinct, entered, rank, numbers, limit, entries, code_of];
        launch(&self.encode_entries, stream, numbers.into(), arguments)
    }

    /// Writes the code of every row.
    pub(crate) fn encode_codes(
        &self,
        stream: &CudaStream,
        runs: &Runs,
        code_of: DeviceSlice<u32>,
        codes: DeviceSlice<u16>,
    ) -> Result<(), EngineError> {
        let length = runs.length;
        let shortest = runs.rows.len().min(runs.begins.len()).min(runs.before.len());
        assert!(shortest.min(codes.len()) >= length as usize, "a code a row");
        let (rows, begins, before) =
            (runs.rows.address(), runs.begins.address(), runs.before.address());
        let (code_of, codes) = (code_of.address(), codes.address());
        let arguments = arguments![rows, begins, before, code_of, length, codes];
        launch(&self.encode_codes, stream, length.into(), arguments)
    }

    /// Packs the entries of a dictionary.
    pub(crate) fn encode_dictionary(
        &self,
        stream: &CudaStream,
        entries: DeviceSlice<u64>,
        width: u32,
        words: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        let limit = entries.len() as u32;
        assert_eq!(words.len(), (entries.len() * width as usize).div_ceil(32), "packed entries");
        let (threads, entries, words) = (words.len() as u64, entries.address(), words.address());
        launch(&self.encode_dictionary, stream, threads, arguments![entries, limit, width, words])
    }

    /// Computes the bounds of the values and counts equal neighbours and descents; see the kernel.
    pub(crate) fn statistics_bounds(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        sign: u64,
        found: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert!(found.len() >= 4, "four numbers");
        let found = found.address();
        launch(&self.statistics_bounds, stream, strided(task), arguments![*task, sign, found])
    }

    /// The common divisor of values of `width` bits; see the kernel.
    pub(crate) fn statistics_divisor(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        width: u32,
        is_signed: bool,
        found: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert!(found.len() >= 1, "a number");
        let (is_signed, found) = (u32::from(is_signed), found.address());
        let arguments = arguments![*task, width, is_signed, found];
        launch(&self.statistics_divisor, stream, strided(task), arguments)
    }

    /// Decimals that fit floats of `width` bits; see the kernel.
    pub(crate) fn statistics_decimals(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        width: u32,
        powers: DeviceSlice<u64>,
        found: DeviceSlice<u64>,
    ) -> Result<(), EngineError> {
        assert!(found.len() >= 1 && powers.len() >= 23, "a number, and powers to ask for");
        let (powers, found) = (powers.address(), found.address());
        let arguments = arguments![*task, width, powers, found];
        launch(&self.statistics_decimals, stream, strided(task), arguments)
    }

    /// Frequencies of the buckets of all values; see the kernel.
    pub(crate) fn statistics_buckets(
        &self,
        stream: &CudaStream,
        task: &EncodeTask,
        split: u32,
        frequencies: DeviceSlice<u32>,
    ) -> Result<(), EngineError> {
        assert!(frequencies.len() >= SYMBOLS_MAX, "a number a symbol");
        let frequencies = frequencies.address();
        launch(
            &self.statistics_buckets,
            stream,
            strided(task),
            arguments![*task, split, frequencies],
        )
    }
}

/// Threads of a launch over all rows of a task.
pub(super) fn strided(task: &EncodeTask) -> u64 {
    u64::from(task.rows).next_multiple_of(TILE_THREADS).min(STRIDED_BLOCKS * TILE_THREADS)
}
