//! The rows and queries of a run, made before its clock starts.
//!
//! Rows are blocks in host memory, raw or encoded. No row is used twice, and the same case gives
//! the same bytes on any machine.

use rayon::prelude::*;
use shoal_codec::Block;
use shoal_engine::{Query, QueryKind, Space};
use shoal_workload::Params;

use super::case::{Case, USUAL_RESULTS};
use crate::error::BenchmarkError;
use crate::harness::blocks::Generators;
use crate::harness::source::Source;

/// Number of queries after the last cycle, if that cycle has none.
const REST_QUERIES: usize = 1_000;

/// Objects, windows and steps by which the size of windows is fitted.
const FITTED_OBJECTS: usize = 1_000_000;
const FITTED_QUERIES: usize = 1_000;
const FITTED_STEPS: usize = 8;

/// The rows and queries of one cycle.
#[derive(Clone, Debug, Default)]
pub(super) struct Cycle {
    pub(super) blocks: Vec<Block>,
    pub(super) queries: Vec<Query>,
}

/// A case, ready to run.
#[derive(Debug)]
pub(super) struct Prepared {
    pub(super) case: Case,
    /// Side of a window as a share of the space's side: that of the case, or fitted.
    pub(super) window: f64,
    pub(super) space: Space,
    /// The first report of every object.
    pub(super) load: Vec<Cycle>,
    /// One cycle before the clock starts.
    pub(super) warm: Cycle,
    pub(super) cycles: Vec<Cycle>,
    /// Queries after the last cycle: that cycle's queries again, or new queries if it has none.
    pub(super) rest: Vec<Query>,
}

impl Prepared {
    /// Makes all rows and queries of a case.
    pub(super) fn new(case: &Case) -> Result<Self, BenchmarkError> {
        let name = case.distribution.name();
        let mut generators = Generators::open(
            name,
            &params(case, case.window),
            case.attributes,
            case.cycle_updates(),
        )?
        .encoding(case.input, case.block_rows);
        let mut load = Vec::new();
        loop {
            let blocks = generators.first_reports()?;
            if blocks.is_empty() {
                break;
            }
            load.push(Cycle { blocks, queries: Vec::new() });
        }
        let window = match case.windows_follow {
            true => fitted_window(case, &load)?,
            false => case.window,
        };
        // Query windows have a source of their own, so they do not depend on the number of
        // generators.
        let mut windows = Source::open(name, &params(case, window), case.attributes)?;
        let mut cycle = || {
            let queries = queries(&mut windows, case.cycle_queries(), case.overlap)?;
            Ok(Cycle { blocks: generators.cycle(case.cycle_updates())?, queries })
        };
        let warm = cycle()?;
        let cycles =
            (0..case.cycles).map(|_| cycle()).collect::<Result<Vec<_>, BenchmarkError>>()?;
        let rest = match cycles.last() {
            Some(last) if !last.queries.is_empty() => last.queries.clone(),
            _ => windows.queries(REST_QUERIES)?,
        };
        Ok(Self { case: case.clone(), window, space: windows.space(), load, warm, cycles, rest })
    }

    /// Bytes of the blocks of an update; 0 without updates.
    pub(super) fn bytes_per_update(&self) -> f64 {
        let blocks = self.cycles.iter().flat_map(|cycle| &cycle.blocks);
        let bytes: usize = blocks.map(|block| block.bytes().len()).sum();
        bytes as f64 / self.case.updates.max(1) as f64
    }

    /// Replaces the case by another one of the same workload; keeps rows and queries.
    pub(super) fn for_case(self, case: &Case) -> Self {
        assert!(self.case.is_workload_of(case), "{case:?} after {:?}", self.case);
        Self { case: case.clone(), ..self }
    }
}

/// The size of windows with which queries find ten objects on average at their first reports.
fn fitted_window(case: &Case, load: &[Cycle]) -> Result<f64, BenchmarkError> {
    let step = (case.objects as usize / FITTED_OBJECTS).max(1);
    let mut positions = Vec::new();
    for block in load.iter().flat_map(|cycle| &cycle.blocks) {
        let rows = block.decode()?;
        positions.extend(rows.x.iter().copied().zip(rows.y.iter().copied()).step_by(step));
    }
    let share = positions.len() as f64 / case.objects as f64;
    let mut window = case.window;
    for _ in 0..FITTED_STEPS {
        let params = params(case, window);
        let mut source = Source::open(case.distribution.name(), &params, case.attributes)?;
        let queries = source.queries(FITTED_QUERIES)?;
        let inside = |query: &Query| match &query.kind {
            QueryKind::Range(region) => {
                positions.iter().filter(|(x, y)| region.contains(*x, *y)).count()
            }
            QueryKind::Get(_) | QueryKind::Nearest { .. } => 0,
        };
        let found: usize = queries.par_iter().map(inside).sum();
        let mean = found as f64 / FITTED_QUERIES as f64 / share;
        // Converges, because the number grows at least with the side and at most with its square.
        window = (window * (USUAL_RESULTS / mean.max(1e-3)).sqrt()).clamp(1e-9, 1.0);
    }
    Ok(window)
}

/// Queries of a cycle, `overlap` with each window. Queries with the same window are far apart.
fn queries(
    windows: &mut Source,
    count: usize,
    overlap: usize,
) -> Result<Vec<Query>, BenchmarkError> {
    let distinct = windows.queries(count.div_ceil(overlap))?;
    Ok(distinct.iter().cycle().take(count).cloned().collect())
}

/// The workload of a case with windows of this size.
fn params(case: &Case, window: f64) -> Params {
    Params {
        objects: case.objects,
        seed: case.seed,
        window,
        hotspots: case.distribution.hotspots().unwrap_or(Params::default().hotspots),
        windows_follow: case.windows_follow,
        ..Params::default()
    }
}
