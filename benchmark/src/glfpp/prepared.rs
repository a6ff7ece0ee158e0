//! Everything that a run needs, made before its clock starts: encoded rows and queries.
//!
//! Rows lie in host memory as raw blocks (20 bytes a row, 34 with all attributes); no row is used
//! twice. Generators run side by side, each with its share of the objects and its own block in
//! every cycle; how many there are depends on the cycle alone, so the same case gives the same
//! bytes on any machine.

use std::thread;

use bytes::Bytes;
use shoal_codec::{Block, BlockCodec, Budget, CpuCodec};
use shoal_engine::limits::CYCLE_FIXES_MAX;
use shoal_engine::{CycleInput, Query, Request, Space};
use shoal_workload::Params;

use super::case::{Case, Distribution};
use crate::error::BenchmarkError;
use crate::source::Source;

/// Rows of one block at most: 8.5 MB with all attributes.
const BLOCK_ROWS: usize = 250_000;
/// Queries at rest where cycles have none.
const REST_QUERIES: usize = 1_000;
/// Generators at most: four million updates a cycle.
const GENERATORS_MAX: usize = 16;

const _: () = assert!(GENERATORS_MAX * BLOCK_ROWS <= CYCLE_FIXES_MAX, "one round is a cycle");

/// The rows and queries of one cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    pub(super) blocks: Vec<Block>,
    pub(super) queries: Vec<Query>,
}

impl Cycle {
    /// As the engine takes it.
    pub(super) fn input(&self) -> CycleInput {
        CycleInput {
            system_ms: 0,
            time_max_ms: i64::MAX,
            requests: self.blocks.iter().cloned().map(Request::Block).collect(),
            queries: self.queries.clone(),
            subscriptions: Vec::new(),
        }
    }
}

/// A case, ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) case: Case,
    pub(super) space: Space,
    /// The first report of every object.
    pub(super) load: Vec<Cycle>,
    /// One cycle before the clock starts.
    pub(super) warm: Cycle,
    pub(super) cycles: Vec<Cycle>,
    /// Asked when nothing moves any more: the last cycle's queries, or some others.
    pub(super) rest: Vec<Query>,
}

impl Prepared {
    /// Makes all rows and queries of a case.
    pub(super) fn new(case: &Case) -> Result<Self, BenchmarkError> {
        let largest = case.cycle_updates().max(BLOCK_ROWS);
        let generators = largest.div_ceil(BLOCK_ROWS).min(GENERATORS_MAX);
        let generators = generators.min(case.objects as usize);
        let open = |shard| Generator::open(case, shard, generators);
        let mut generators = (0..generators).map(open).collect::<Result<Vec<_>, _>>()?;
        // Windows are one stream, whoever makes the rows.
        let mut asking = Generator::open(case, 0, 1)?.source;
        let mut load = Vec::new();
        while generators.iter().any(|generator| generator.unseen > 0) {
            let next = |generator: &mut Generator| {
                let rows = generator.unseen.min(BLOCK_ROWS);
                generator.unseen -= rows;
                generator.block(rows)
            };
            load.push(Cycle { blocks: side_by_side(&mut generators, next)?, queries: Vec::new() });
        }
        let mut cycle = || {
            let rows = case.cycle_updates();
            let count = generators.len();
            let next = |generator: &mut Generator| {
                let share = rows * (generator.number + 1) / count - rows * generator.number / count;
                generator.block(share)
            };
            let queries = asking.queries(case.cycle_queries())?;
            Ok(Cycle { blocks: side_by_side(&mut generators, next)?, queries })
        };
        let warm = cycle()?;
        let cycles =
            (0..case.cycles).map(|_| cycle()).collect::<Result<Vec<_>, BenchmarkError>>()?;
        let rest = match cycles.last() {
            Some(last) if !last.queries.is_empty() => last.queries.clone(),
            _ => asking.queries(REST_QUERIES)?,
        };
        Ok(Self { case: case.clone(), space: asking.space(), load, warm, cycles, rest })
    }

    /// For another case of the same workload.
    pub(super) fn for_case(self, case: &Case) -> Self {
        assert!(self.case.is_workload_of(case), "{case:?} after {:?}", self.case);
        Self { case: case.clone(), ..self }
    }
}

/// One shard of the workload.
struct Generator {
    number: usize,
    source: Source,
    /// Objects that have not reported yet: the first rows of these workloads are the whole fleet.
    unseen: usize,
}

impl Generator {
    fn open(case: &Case, number: usize, generators: usize) -> Result<Self, BenchmarkError> {
        let hotspots = match case.distribution {
            Distribution::Gauss(hotspots) => hotspots,
            Distribution::Uniform => Params::default().hotspots,
        };
        let params = Params {
            objects: case.objects,
            seed: case.seed,
            window: case.window,
            shard: number as u32,
            shards: generators as u32,
            hotspots,
            windows_follow: case.windows_follow,
            ..Params::default()
        };
        let unseen = (case.objects as usize).saturating_sub(number).div_ceil(generators);
        let source = Source::open(case.distribution.name(), &params, case.attributes)?;
        Ok(Self { number, source, unseen })
    }

    /// The next rows as a block; none when there are no rows.
    fn block(&mut self, rows: usize) -> Result<Option<Block>, BenchmarkError> {
        if rows == 0 {
            return Ok(None);
        }
        let columns = self.source.columns(rows)?;
        let mut bytes = Vec::new();
        CpuCodec.encode(&columns, &self.source.space().tag(), 0, &mut bytes)?;
        Ok(Some(Block::parse(Bytes::from(bytes), &Budget::default())?))
    }
}

/// The next block of every generator, made at the same time.
fn side_by_side(
    generators: &mut [Generator],
    next: impl Fn(&mut Generator) -> Result<Option<Block>, BenchmarkError> + Sync,
) -> Result<Vec<Block>, BenchmarkError> {
    let next = &next;
    let blocks: Result<Vec<_>, _> = thread::scope(|scope| {
        let make = |generator| scope.spawn(move || next(generator));
        let threads: Vec<_> = generators.iter_mut().map(make).collect();
        let join = |thread: thread::ScopedJoinHandle<'_, _>| {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        threads.into_iter().map(join).collect()
    });
    Ok(blocks?.into_iter().flatten().collect())
}
