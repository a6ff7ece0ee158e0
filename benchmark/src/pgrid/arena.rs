//! Storage of buckets: an array of first buckets, indexed by cell, and chunks of overflow buckets.
//!
//! A cell's number is the number of its first bucket, so a lookup by position needs no pointer.
//! Chunks are allocated on first use and never freed; workers reuse unlinked buckets.

use std::sync::OnceLock;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;

use super::bucket::{Bucket, Line, vacant_lines};
use super::chain::Chain;

/// Buckets of one chunk.
const CHUNK_BUCKETS: u32 = 1 << 12;
/// Maximum number of chunks. The table of all chunks takes a megabyte.
const CHUNKS_MAX: u32 = 1 << 16;

/// All buckets of a grid.
#[derive(Debug)]
pub(super) struct Arena {
    heads: Vec<Line>,
    chains: Vec<Chain>,
    chunks: Vec<OnceLock<Vec<Line>>>,
    cells: u32,
    lines_per_bucket: usize,
    overflow: AtomicU32,
}

impl Arena {
    pub(super) fn new(cells: u32, lines_per_bucket: usize) -> Self {
        Self {
            heads: vacant_lines(cells as usize, lines_per_bucket),
            chains: (0..cells).map(|_| Chain::new()).collect(),
            chunks: (0..CHUNKS_MAX).map(|_| OnceLock::new()).collect(),
            cells,
            lines_per_bucket,
            overflow: AtomicU32::new(0),
        }
    }

    /// The first bucket of a cell.
    #[inline(always)]
    pub(super) fn head(&self, cell: u32) -> Bucket<'_> {
        let start = cell as usize * self.lines_per_bucket;
        Bucket::new(&self.heads[start..start + self.lines_per_bucket])
    }

    /// The chain of a cell's overflow buckets.
    pub(super) fn chain(&self, cell: u32) -> &Chain {
        &self.chains[cell as usize]
    }

    /// A bucket by its number.
    #[inline(always)]
    pub(super) fn bucket(&self, number: u32) -> Bucket<'_> {
        if number < self.cells { self.head(number) } else { self.behind(number - self.cells) }
    }

    fn behind(&self, number: u32) -> Bucket<'_> {
        let chunk = &self.chunks[(number / CHUNK_BUCKETS) as usize];
        let lines = chunk.get_or_init(|| self.chunk());
        let start = (number % CHUNK_BUCKETS) as usize * self.lines_per_bucket;
        Bucket::new(&lines[start..start + self.lines_per_bucket])
    }

    #[cold]
    fn chunk(&self) -> Vec<Line> {
        vacant_lines(CHUNK_BUCKETS as usize, self.lines_per_bucket)
    }

    /// Whether a bucket is the permanent first bucket of a cell.
    pub(super) fn is_head(&self, number: u32) -> bool {
        number < self.cells
    }

    /// The number of an unused bucket.
    ///
    /// # Panics
    /// If all chunks are full, at about 250 million buckets.
    pub(super) fn unused(&self) -> u32 {
        self.cells + self.overflow.fetch_add(1, Relaxed)
    }

    pub(super) fn memory_bytes(&self) -> usize {
        let chunks = self.chunks.iter().filter(|chunk| chunk.get().is_some()).count();
        let lines = self.heads.len() + chunks * CHUNK_BUCKETS as usize * self.lines_per_bucket;
        lines * size_of::<Line>() + self.chains.len() * size_of::<Chain>()
    }
}
