//! Limits of runs, manifests, caches and queries. Relations between them are asserted at compile
//! time.

use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_codec::tile::{SEGMENT_ROWS, TILE_VALUES};

/// Rows of a tile. A tile is the unit that a query decodes and that a zone describes.
pub const TILE_ROWS: usize = TILE_VALUES;
/// Rows of one block of fixes, half of a codec segment. A query for one object reads and verifies
/// a whole block; with a quarter of a segment, the public data set takes 2 % more bytes.
pub const BLOCK_ROWS: usize = SEGMENT_ROWS / 2;
/// Tiles of a whole block.
pub const BLOCK_TILES: usize = BLOCK_ROWS / TILE_ROWS;
/// Entries of one page of a sorted table. A look-up reads and verifies one page.
pub const TABLE_PAGE_ROWS: usize = 8 * TILE_ROWS;
/// Most rows of one run. It bounds the memory of a merge, which grows with the objects of its
/// inputs.
pub const RUN_ROWS_MAX: u64 = 1 << 28;
/// Most runs of a history, 152 bytes each in the manifest, which is written as a whole. Beyond
/// this number the oldest partitions are dropped.
pub const RUNS_MAX: usize = 1 << 16;
/// Most objects that are being erased at once.
pub const ERASING_MAX: usize = 1 << 16;
/// Most gaps of a history. Beyond this number, the two nearest to each other are joined.
pub const GAPS_MAX: usize = 1 << 10;
/// Most bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Most bytes of the index of one run.
pub const INDEX_BYTES_MAX: usize = 256 << 20;
/// Least length that may be configured for the shortest partitions, in milliseconds.
pub const PARTITION_MS_MIN: i64 = 60_000;
/// Greatest length that may be configured for the shortest partitions, in milliseconds.
pub const PARTITION_MS_MAX: i64 = 7_200_000;
/// Factor between two successive lengths of partitions. Partitions with few rows are joined to one
/// of the next lengths.
pub const COARSER: i64 = 8;
/// Number of lengths above the shortest: by default 8 hours, 64 hours and 21 days.
pub const COARSER_LEVELS: u32 = 3;
/// Default of [`crate::HistoryOptions::coarser_rows_max`]. The rows of a join are sorted in memory
/// (24 MiB). Partitions with fewer rows waste space on file pages and on the codes of each block.
pub const COARSER_ROWS_DEFAULT: u64 = 1 << 19;
/// Least tiles for each thread of a query of a past moment. They take a few milliseconds.
pub const AS_OF_TILES_MIN: usize = 256;
/// Row budget of one step that writes a state; a step may return twice as many objects.
pub const STATE_PART_ROWS: usize = 1 << 16;
/// Most rows of a state. Its writer holds 24 bytes for each row.
pub const STATE_ROWS_MAX: u64 = 1 << 24;
/// A state is written only if its range has at least this many fixes for each row of the state.
pub const STATE_FIXES_MIN: u64 = 4;
/// Most states of a history; the manifest lists them like runs.
pub const STATES_MAX: usize = 1 << 14;
/// Default length of the shortest partitions: one hour.
pub const PARTITION_MS_DEFAULT: i64 = 3_600_000;
/// Default number of rows after which a batch should be sealed. They take 44 MiB.
pub const BATCH_ROWS_DEFAULT: usize = 1 << 20;
/// Most bytes of pages in the cache, unless the options say otherwise.
pub const PAGE_BYTES_DEFAULT: usize = 256 << 20;
/// Least runs of a merge in the partition that contains the clock of the watermark, or a later one.
pub const MERGE_RUNS_OPEN: usize = 4;
/// Least runs of a merge in a partition before the one that contains the clock of the watermark.
pub const MERGE_RUNS_CLOSED: usize = 2;
/// A merge takes the next older run if it has at most this many times the rows taken so far. So the
/// number of rewrites of a row is logarithmic in the rows of its partition.
pub const MERGE_RATIO_OPEN: u64 = 2;
/// The ratio for partitions before the one that contains the clock of the watermark: they get few
/// new rows, so they are merged to fewer runs.
pub const MERGE_RATIO_CLOSED: u64 = 8;

// A block has whole tiles, so that tiles of a run are numbered without regard to blocks.
const _: () = assert!(BLOCK_ROWS.is_multiple_of(TILE_ROWS));
const _: () = assert!(TABLE_PAGE_ROWS.is_multiple_of(TILE_ROWS));
// The zones of a run are one table, and its rows are numbered in 32 bits.
const _: () = assert!(RUN_ROWS_MAX / TILE_ROWS as u64 <= BLOCK_ROWS_MAX as u64);
const _: () = assert!(RUN_ROWS_MAX <= u32::MAX as u64);
const _: () = assert!(
    (RUNS_MAX + STATES_MAX) * 152 + ERASING_MAX * 8 + GAPS_MAX * 32 + 4096 <= MANIFEST_BYTES_MAX
);
// Times within a partition have 32 bits.
const _: () = assert!(PARTITION_MS_MAX * COARSER.pow(COARSER_LEVELS) <= u32::MAX as i64);
