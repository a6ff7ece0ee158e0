//! Limits of runs, manifests, caches and queries. Relations between them are asserted at compile
//! time.

use shoal_codec::limits::BLOCK_ROWS_MAX;
use shoal_codec::tile::{SEGMENT_ROWS, TILE_VALUES};

/// Rows of a tile: the unit that a query decodes and that a zone describes.
pub const TILE_ROWS: usize = TILE_VALUES;
/// Rows of one block of fixes, half of the codec's segment. A query for one object reads and
/// verifies a whole block; a block of a quarter takes 2 % more bytes on the public set.
pub const BLOCK_ROWS: usize = SEGMENT_ROWS / 2;
/// Tiles of a whole block.
pub const BLOCK_TILES: usize = BLOCK_ROWS / TILE_ROWS;
/// Entries of one page of a sorted table: a look-up reads and verifies one page.
pub const TABLE_PAGE_ROWS: usize = 8 * TILE_ROWS;
/// Rows of one run: the memory of a merge grows with the objects of its inputs.
pub const RUN_ROWS_MAX: u64 = 1 << 28;
/// Runs of a history, 152 bytes each in the manifest, which is written as a whole. Beyond it the
/// oldest partitions are dropped.
pub const RUNS_MAX: usize = 1 << 16;
/// Objects that are being erased at once.
pub const ERASING_MAX: usize = 1 << 16;
/// Gaps of a history; beyond it the nearest are joined.
pub const GAPS_MAX: usize = 1 << 10;
/// Bytes of a manifest.
pub const MANIFEST_BYTES_MAX: usize = 16 << 20;
/// Bytes of the index of one run.
pub const INDEX_BYTES_MAX: usize = 256 << 20;
/// Shortest partition, in milliseconds.
pub const PARTITION_MS_MIN: i64 = 60_000;
/// Longest partition that new fixes begin, in milliseconds.
pub const PARTITION_MS_MAX: i64 = 7_200_000;
/// Partitions become one of so many times their length when they have few rows.
pub const COARSER: i64 = 8;
/// So often: three times, an hour to 21 days.
pub const COARSER_LEVELS: u32 = 3;
/// Rows of a partition that is made of shorter ones, unless the options say otherwise: they are
/// sorted in memory, in 24 MiB. Fewer rows a partition waste space on pages of files and on codes of
/// each block.
pub const COARSER_ROWS_DEFAULT: u64 = 1 << 19;
/// Tiles that a thread of a query of a past moment reads at least: some milliseconds.
pub const AS_OF_TILES_MIN: usize = 256;
/// Objects that a step of the work on a state looks for; it may find twice as many.
pub const STATE_PART_ROWS: usize = 1 << 16;
/// Rows of a state: the work on it holds 24 bytes for each.
pub const STATE_ROWS_MAX: u64 = 1 << 24;
/// A state has at most one row for so many fixes of its range.
pub const STATE_FIXES_MIN: u64 = 4;
/// States of a history, which are listed as runs are.
pub const STATES_MAX: usize = 1 << 14;
/// Partition unless the options say otherwise: an hour.
pub const PARTITION_MS_DEFAULT: i64 = 3_600_000;
/// Rows that a batch collects before it should be sealed, unless the options say otherwise: 44 MiB.
pub const BATCH_ROWS_DEFAULT: usize = 1 << 20;
/// Bytes of pages that stay in memory, unless the options say otherwise.
pub const PAGE_BYTES_DEFAULT: usize = 256 << 20;
/// Runs of the partition that still fills which are worth a merge.
pub const MERGE_RUNS_OPEN: usize = 4;
/// Runs of a partition that lies before the watermark which are worth a merge.
pub const MERGE_RUNS_CLOSED: usize = 2;
/// A merge takes the next older run while that has at most so many times the rows taken so far:
/// every row is rewritten a number of times that is logarithmic in the rows of its partition.
pub const MERGE_RATIO_OPEN: u64 = 2;
/// The same where the partition lies before the watermark: fewer runs, as little more arrives.
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
