//! The rows and circles of a run, made before its clock starts.
//!
//! All cases of a motion share its rows. Circles are placed like the workload's windows or follow
//! objects, and churn by the event time of the cycles.

use std::collections::BTreeMap;

use shoal_codec::Block;
use shoal_engine::limits::SUBSCRIPTION_CHANGES_MAX;
use shoal_engine::{Region, RegionId, Space, Subscription, SubscriptionChange};
use shoal_workload::{RegionStep, Regions, START_MS};

use super::case::{Case, Motion, WARM_CYCLES};
use crate::error::BenchmarkError;
use crate::harness::blocks::Generators;
use crate::harness::source::Attributes;

/// The rows of one cycle.
#[derive(Clone, Debug)]
pub(super) struct RowCycle {
    pub(super) blocks: Vec<Block>,
    /// Event time of its last row, milliseconds after the beginning.
    elapsed_ms: f64,
}

/// The rows of a motion.
#[derive(Debug)]
pub(super) struct Rows {
    pub(super) motion: Motion,
    pub(super) space: Space,
    /// The first report of every object.
    pub(super) load: Vec<RowCycle>,
    /// The warm-up cycles: after `load`, before the clock starts.
    pub(super) warm: Vec<RowCycle>,
    /// The cycles while the clock runs.
    pub(super) cycles: Vec<RowCycle>,
}

/// The circles of a case, cycle by cycle.
#[derive(Debug)]
pub(super) struct Circles {
    /// Cycles that set all circles.
    pub(super) first: Vec<Vec<SubscriptionChange>>,
    /// Changes in the warm-up cycles.
    pub(super) warm: Vec<Vec<SubscriptionChange>>,
    pub(super) cycles: Vec<Vec<SubscriptionChange>>,
    /// The circles at the end.
    pub(super) last: BTreeMap<RegionId, Region>,
}

impl Rows {
    /// Makes all rows of a motion.
    pub(super) fn new(motion: &Motion) -> Result<Self, BenchmarkError> {
        let (name, rows) = (motion.distribution.name(), motion.cycle_updates());
        let mut generators = Generators::open(name, &motion.params, Attributes::None, rows)?;
        let space = generators.space();
        let mut load = Vec::new();
        loop {
            let blocks = generators.first_reports()?;
            if blocks.is_empty() {
                break;
            }
            load.push(RowCycle::new(blocks, &generators));
        }
        let mut some = |count: u64| -> Result<Vec<RowCycle>, BenchmarkError> {
            let cycle = |_| Ok(RowCycle::new(generators.cycle(rows)?, &generators));
            (0..count).map(cycle).collect()
        };
        let warm = some(WARM_CYCLES)?;
        let cycles = some(motion.cycles)?;
        Ok(Self { motion: motion.clone(), space, load, warm, cycles })
    }
}

impl RowCycle {
    fn new(blocks: Vec<Block>, generators: &Generators) -> Self {
        Self { blocks, elapsed_ms: (generators.last_ms() - START_MS) as f64 }
    }
}

impl Circles {
    /// Makes the circles of a case over some rows.
    pub(super) fn new(case: &Case, rows: &Rows) -> Result<Self, BenchmarkError> {
        let name = rows.motion.distribution.name();
        let mut regions = Regions::new(name, &rows.motion.params, case.regions)?;
        // Changes during the load are not part of the run.
        let loaded_ms = rows.load.last().map_or(0.0, |cycle| cycle.elapsed_ms);
        regions.advance(loaded_ms, &mut Vec::new());
        let mut registry = Registry { case, space: rows.space, circles: BTreeMap::new() };
        let live: Vec<RegionStep> = regions.live().collect();
        let changes = live.into_iter().map(|change| registry.change(change));
        let changes = changes.collect::<Result<Vec<_>, _>>()?;
        let first = changes.chunks(SUBSCRIPTION_CHANGES_MAX).map(<[_]>::to_vec).collect();
        let mut cycle = |of: &RowCycle| {
            let mut changes = Vec::new();
            regions.advance(of.elapsed_ms, &mut changes);
            if changes.len() > SUBSCRIPTION_CHANGES_MAX {
                let text = format!(
                    "{} changes of circles a cycle, at most {SUBSCRIPTION_CHANGES_MAX}: choose \
                     smaller cycles or less churn",
                    changes.len()
                );
                return Err(BenchmarkError::WorkloadRows(text));
            }
            changes.into_iter().map(|change| registry.change(change)).collect()
        };
        let mut each = |of: &[RowCycle]| of.iter().map(&mut cycle).collect::<Result<Vec<_>, _>>();
        let (warm, cycles) = (each(&rows.warm)?, each(&rows.cycles)?);
        Ok(Self { first, warm, cycles, last: registry.circles })
    }
}

/// The circles present in the engine.
struct Registry<'a> {
    case: &'a Case,
    space: Space,
    circles: BTreeMap<RegionId, Region>,
}

impl Registry<'_> {
    fn change(&mut self, change: RegionStep) -> Result<SubscriptionChange, BenchmarkError> {
        match change {
            RegionStep::Remove { region } => {
                self.circles.remove(&RegionId(region));
                Ok(SubscriptionChange::Remove(RegionId(region)))
            }
            RegionStep::Add { region, x, y } | RegionStep::Move { region, x, y } => {
                let circle = Region::circle(&self.space, x, y, self.case.regions.radius_m)?;
                self.circles.insert(RegionId(region), circle.clone());
                let wanted = self.case.experiment.wanted();
                let evaluation_mode = self.case.evaluation_mode.mode();
                let subscription =
                    Subscription { wanted, evaluation_mode, ..Subscription::new(circle) };
                Ok(SubscriptionChange::Set {
                    region: RegionId(region),
                    subscription: Box::new(subscription),
                    is_snapshot_wanted: false,
                })
            }
        }
    }
}
