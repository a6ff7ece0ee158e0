//! Rows of a workload as blocks in host memory, encoded before any clock starts.
//!
//! A raw row has 20 bytes, 34 with all attributes. Generators run in parallel, each with its share
//! of the objects and one block in every cycle, or several if blocks have a lower limit of rows.
//! The number of generators depends only on the cycle, so the same parameters produce the same
//! bytes on any machine.

use std::thread;

use bytes::Bytes;
use shoal_codec::{Block, BlockCodec, BlockStream, Budget, CpuCodec, FixColumns, PlanChoice};
use shoal_engine::Space;
use shoal_engine::limits::CYCLE_FIXES_MAX;
use shoal_workload::{Params, START_MS};

use super::source::{Attributes, Source};
use crate::error::BenchmarkError;

/// Maximum rows of one block: 8.5 MB with all attributes.
pub(crate) const BLOCK_ROWS: u32 = 250_000;
/// Maximum number of generators: four million updates per cycle.
const GENERATORS_MAX: usize = 16;

const _: () =
    assert!(GENERATORS_MAX * BLOCK_ROWS as usize <= CYCLE_FIXES_MAX, "one round is a cycle");

/// All shards of one workload.
pub(crate) struct Generators(Vec<Generator>);

impl Generators {
    /// Opens a workload for cycles of `cycle_rows` rows. Sets the shards of `params`.
    pub(crate) fn open(
        name: &str,
        params: &Params,
        attributes: Attributes,
        cycle_rows: usize,
    ) -> Result<Self, BenchmarkError> {
        let generators = cycle_rows.div_ceil(BLOCK_ROWS as usize).clamp(1, GENERATORS_MAX);
        let generators = generators.min(params.objects as usize);
        let open = |number| Generator::open(name, params, attributes, number, generators);
        (0..generators).map(open).collect::<Result<_, _>>().map(Self)
    }

    /// Encodes the rows of cycles by the plans of `choice`, in blocks of at most `block_rows` rows.
    pub(crate) fn encoding(mut self, choice: PlanChoice, block_rows: usize) -> Self {
        for generator in &mut self.0 {
            generator.stream = BlockStream::new(generator.source.space().tag(), choice);
            generator.block_rows = block_rows;
        }
        self
    }

    /// The space of the objects.
    pub(crate) fn space(&self) -> Space {
        self.0[0].source.space()
    }

    /// Latest event time so far.
    pub(crate) fn last_ms(&self) -> i64 {
        self.0.iter().map(|generator| generator.last_ms).max().unwrap_or(START_MS)
    }

    /// First reports of further objects, as blocks of one cycle. Empty after the last object.
    pub(crate) fn first_reports(&mut self) -> Result<Vec<Block>, BenchmarkError> {
        self.in_parallel(|generator| {
            let rows = generator.unseen.min(BLOCK_ROWS as usize);
            generator.unseen -= rows;
            generator.raw_block(rows).map(|block| block.into_iter().collect())
        })
    }

    /// The next rows as blocks of one cycle.
    pub(crate) fn cycle(&mut self, rows: usize) -> Result<Vec<Block>, BenchmarkError> {
        let count = self.0.len();
        self.in_parallel(|generator| {
            let share = rows * (generator.number + 1) / count - rows * generator.number / count;
            generator.blocks(share)
        })
    }

    /// The next blocks of every generator, made in parallel.
    fn in_parallel(
        &mut self,
        next: impl Fn(&mut Generator) -> Result<Vec<Block>, BenchmarkError> + Sync,
    ) -> Result<Vec<Block>, BenchmarkError> {
        let next = &next;
        let blocks: Result<Vec<_>, _> = thread::scope(|scope| {
            let make = |generator| scope.spawn(move || next(generator));
            let threads: Vec<_> = self.0.iter_mut().map(make).collect();
            let join = |thread: thread::ScopedJoinHandle<'_, _>| {
                thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            };
            threads.into_iter().map(join).collect()
        });
        Ok(blocks?.into_iter().flatten().collect())
    }
}

/// One shard of the workload.
struct Generator {
    number: usize,
    source: Source,
    /// Number of objects without a report so far. The first rows of these workloads report every
    /// object once.
    unseen: usize,
    last_ms: i64,
    /// Encodes the rows of cycles.
    stream: BlockStream,
    block_rows: usize,
}

impl Generator {
    fn open(
        name: &str,
        params: &Params,
        attributes: Attributes,
        number: usize,
        generators: usize,
    ) -> Result<Self, BenchmarkError> {
        let params = Params { shard: number as u32, shards: generators as u32, ..params.clone() };
        let unseen = (params.objects as usize).saturating_sub(number).div_ceil(generators);
        let source = Source::open(name, &params, attributes)?;
        let stream = BlockStream::new(source.space().tag(), PlanChoice::Raw);
        let (last_ms, block_rows) = (START_MS, BLOCK_ROWS as usize);
        Ok(Self { number, source, unseen, last_ms, stream, block_rows })
    }

    /// The next rows as a raw block; `None` for 0 rows.
    fn raw_block(&mut self, rows: usize) -> Result<Option<Block>, BenchmarkError> {
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.columns(rows)?;
        let mut bytes = Vec::new();
        CpuCodec.encode(&columns, &self.source.space().tag(), 0, &mut bytes)?;
        Ok(Some(Block::parse(Bytes::from(bytes), &Budget::default())?))
    }

    /// The next rows as blocks of the stream.
    fn blocks(&mut self, rows: usize) -> Result<Vec<Block>, BenchmarkError> {
        let mut blocks = Vec::with_capacity(rows.div_ceil(self.block_rows));
        let mut left = rows;
        while left > 0 {
            let columns = self.columns(left.min(self.block_rows))?;
            left -= columns.len();
            let bytes = self.stream.encode(&CpuCodec, &columns)?;
            blocks.push(Block::parse(Bytes::from(bytes), &Budget::default())?);
        }
        Ok(blocks)
    }

    fn columns(&mut self, rows: usize) -> Result<FixColumns, BenchmarkError> {
        let columns = self.source.columns(rows)?;
        self.last_ms = columns.time_ms.last().map_or(self.last_ms, |last| *last);
        Ok(columns)
    }
}
