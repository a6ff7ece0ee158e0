//! The content of a log: blocks of one plan, arranged in cycles and groups.
//!
//! Blocks are encoded before any clock starts. A few distinct blocks are repeated up to the
//! requested number of bytes, because the log does not parse them.

use std::ops::Range;

use shoal_codec::{BlockStream, CpuCodec, PlanChoice};
use shoal_position_log::{CycleHeader, Group, LogError, LoggedRequest, RequestBody};
use shoal_workload::Params;

use super::options::Options;
use crate::error::BenchmarkError;
use crate::harness::AnswerHash;
use crate::harness::source::{Attributes, Source};

/// Bytes of distinct blocks: more than the processor's caches hold.
const DISTINCT_BYTES: usize = 64 << 20;
/// Bytes of a raw row.
const RAW_ROW_BYTES: u64 = 20;
/// Minimum number of raw blocks in a group.
const GROUP_BLOCKS_MIN: u64 = 4;

/// Blocks arranged in cycles, and cycles in groups.
pub(super) struct Content {
    blocks: Vec<Vec<u8>>,
    /// Number of blocks, repeated ones included.
    count: usize,
    block_rows: usize,
    /// Blocks of one cycle.
    cycle_blocks: usize,
    /// The cycles of each group.
    pub(super) groups: Vec<Range<usize>>,
    /// Bytes of all blocks.
    pub(super) bytes: u64,
}

/// The workload after the first report of every object.
pub(super) fn open_source(options: &Options) -> Result<Source, BenchmarkError> {
    let params =
        Params { objects: options.objects, seed: options.common.seed, ..Params::default() };
    let mut source = Source::open(&options.workload, &params, Attributes::None)?;
    source.columns(options.objects as usize)?;
    Ok(source)
}

impl Content {
    /// The content of `append`: one block per cycle, in groups of at most `group_bytes`.
    pub(super) fn of_groups(
        options: &Options,
        plan: PlanChoice,
        group_bytes: u64,
    ) -> Result<Self, BenchmarkError> {
        let fitting = group_bytes / RAW_ROW_BYTES / GROUP_BLOCKS_MIN;
        let block_rows = fitting.clamp(1, u64::from(options.block_rows)) as usize;
        let mut source = open_source(options)?;
        let mut stream = BlockStream::new(source.space().tag(), plan);
        let (mut blocks, mut encoded) = (Vec::new(), 0);
        while encoded < DISTINCT_BYTES.min(options.bytes as usize) {
            let block = stream.encode(&CpuCodec, &source.columns(block_rows)?)?;
            encoded += block.len();
            blocks.push(block);
        }
        let mut content = Self::new(blocks, block_rows, 1);
        while content.bytes < options.bytes {
            content.bytes += content.block(content.count).len() as u64;
            content.count += 1;
        }
        content.arrange(|bytes, next| bytes + next > group_bytes);
        Ok(content)
    }

    /// The content of `recover`: cycles of several blocks, groups that end when they have
    /// `group_bytes`, as the server makes them.
    pub(super) fn of_tail(
        options: &Options,
        plan: PlanChoice,
        group_bytes: u64,
    ) -> Result<Self, BenchmarkError> {
        let block_rows = options.block_rows.min(options.cycle) as usize;
        let mut source = open_source(options)?;
        let mut stream = BlockStream::new(source.space().tag(), plan);
        let mut block = |_| Ok(stream.encode(&CpuCodec, &source.columns(block_rows)?)?);
        let count = options.tail.div_ceil(block_rows as u64);
        let blocks = (0..count).map(&mut block).collect::<Result<Vec<_>, BenchmarkError>>()?;
        let mut content = Self::new(blocks, block_rows, options.cycle as usize / block_rows);
        content.count = content.blocks.len();
        content.bytes = content.blocks.iter().map(|block| block.len() as u64).sum();
        content.arrange(|bytes, _| bytes >= group_bytes);
        Ok(content)
    }

    fn new(blocks: Vec<Vec<u8>>, block_rows: usize, cycle_blocks: usize) -> Self {
        Self { blocks, count: 0, block_rows, cycle_blocks, groups: Vec::new(), bytes: 0 }
    }

    /// Divides the cycles into groups. `is_full(group_bytes, next_cycle_bytes)` closes a group
    /// before the next cycle.
    fn arrange(&mut self, is_full: impl Fn(u64, u64) -> bool) {
        let (mut first, mut bytes) = (0, 0);
        for cycle in 0..self.cycles() {
            let next = self.cycle(cycle).map(|block| block.len() as u64).sum();
            if cycle > first && is_full(bytes, next) {
                self.groups.push(first..cycle);
                (first, bytes) = (cycle, 0);
            }
            bytes += next;
        }
        self.groups.push(first..self.cycles());
    }

    fn block(&self, number: usize) -> &[u8] {
        &self.blocks[number % self.blocks.len()]
    }

    /// Number of cycles.
    pub(super) fn cycles(&self) -> usize {
        self.count.div_ceil(self.cycle_blocks)
    }

    /// Rows of all blocks.
    pub(super) fn rows(&self) -> u64 {
        (self.count * self.block_rows) as u64
    }

    /// The blocks of a cycle.
    pub(super) fn cycle(&self, number: usize) -> impl Iterator<Item = &[u8]> + Clone {
        let first = number * self.cycle_blocks;
        (first..self.count.min(first + self.cycle_blocks)).map(|block| self.block(block))
    }

    /// The blocks of a group.
    pub(super) fn group(&self, cycles: &Range<usize>) -> impl Iterator<Item = &[u8]> {
        cycles.clone().flat_map(|cycle| self.cycle(cycle))
    }

    /// Appends the cycles of a group. Epochs begin at `first_epoch`.
    pub(super) fn fill(
        &self,
        cycles: &Range<usize>,
        first_epoch: u64,
        group: &mut Group,
    ) -> Result<(), LogError> {
        for cycle in cycles.clone() {
            let epoch = first_epoch + cycle as u64;
            let header = CycleHeader { epoch, system_ms: 0, time_max_ms: i64::MAX };
            let request = |block| LoggedRequest { body: RequestBody::Block(block), batch: None };
            group.append(header, self.cycle(cycle).map(request))?;
        }
        Ok(())
    }

    /// Bytes of the frame of each group.
    pub(super) fn frame_bytes(&self) -> Result<Vec<usize>, LogError> {
        let mut group = Group::new();
        let frame = |cycles| {
            group.clear();
            self.fill(cycles, 1, &mut group)?;
            Ok(group.frame_bytes())
        };
        self.groups.iter().map(frame).collect()
    }

    /// The hash of all blocks in order.
    pub(super) fn hash(&self) -> String {
        let mut hash = ContentHash::new();
        (0..self.count).for_each(|block| hash.add(self.block(block)));
        hash.finish()
    }
}

/// A hash of blocks.
pub(super) struct ContentHash(AnswerHash);

impl ContentHash {
    pub(super) fn new() -> Self {
        Self(AnswerHash::new())
    }

    /// Adds a block: its length, then its bytes in words of 8, the last one padded with zeros.
    pub(super) fn add(&mut self, block: &[u8]) {
        self.0.add_word(block.len() as u64);
        let (words, rest) = block.as_chunks();
        words.iter().for_each(|word| self.0.add_word(u64::from_le_bytes(*word)));
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.0.add_word(u64::from_le_bytes(last));
    }

    pub(super) fn finish(&self) -> String {
        self.0.finish()
    }
}
