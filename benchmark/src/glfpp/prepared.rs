//! Everything that a run needs, made before its clock starts: encoded rows and queries.
//!
//! Rows lie in host memory as raw blocks; no row is used twice, and the same case gives the same
//! bytes on any machine.

use shoal_codec::Block;
use std::sync::Arc;

use shoal_engine::{CycleInput, Query, Request, Space};
use shoal_workload::Params;

use super::case::{Case, Distribution};
use crate::error::BenchmarkError;
use crate::rows::Generators;
use crate::source::Source;

/// Queries at rest where cycles have none.
const REST_QUERIES: usize = 1_000;

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
            requests: Arc::new(self.blocks.iter().cloned().map(Request::Block).collect()),
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
        let (name, params) = (case.distribution.name(), params(case));
        let mut generators =
            Generators::open(name, &params, case.attributes, case.cycle_updates())?;
        // Windows are one stream, whoever makes the rows.
        let mut asking = Source::open(name, &params, case.attributes)?;
        let mut load = Vec::new();
        loop {
            let blocks = generators.first_reports()?;
            if blocks.is_empty() {
                break;
            }
            load.push(Cycle { blocks, queries: Vec::new() });
        }
        let mut cycle = || {
            let queries = asking.queries(case.cycle_queries())?;
            Ok(Cycle { blocks: generators.cycle(case.cycle_updates())?, queries })
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

/// The workload of a case.
fn params(case: &Case) -> Params {
    let hotspots = match case.distribution {
        Distribution::Gauss(hotspots) => hotspots,
        Distribution::Uniform => Params::default().hotspots,
    };
    Params {
        objects: case.objects,
        seed: case.seed,
        window: case.window,
        hotspots,
        windows_follow: case.windows_follow,
        ..Params::default()
    }
}
