//! One point of an experiment: the number and size of circles over a set of objects.
//!
//! Combinations whose circles overlap more than the flags allow, or whose cycles exceed the
//! engine's limit of events, are left out with the reason.

use std::f64::consts::PI;

use shoal_engine::limits::{CYCLE_EVENTS_MAX, CYCLE_FIXES_MAX, REGIONS_MAX};
use shoal_workload::{Params, RegionParams};

use super::options::{Distribution, EvaluationName, Experiment, Options};

/// Area of the space of both workloads, square metres.
const SPACE_M2: f64 = 1e10;
/// Warm-up cycles: one more than are in flight.
pub(super) const WARM_CYCLES: u64 = 4;

/// The objects and rows shared by several cases.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Motion {
    pub(super) distribution: Distribution,
    pub(super) params: Params,
    /// Updates in all, a whole number of cycles.
    pub(super) updates: u64,
    pub(super) cycles: u64,
}

impl Motion {
    /// A distribution with the sizes of the flags.
    pub(super) fn new(distribution: Distribution, options: &Options) -> Self {
        let cycles = options.updates.div_ceil(options.cycle.min(CYCLE_FIXES_MAX as u64));
        let rows = options.updates.div_ceil(cycles);
        let params = Params {
            objects: options.objects,
            seed: options.common.seed,
            speed_range: options.speed_range,
            ..Params::default()
        };
        Self { distribution, params, updates: cycles * rows, cycles }
    }

    /// Updates of one cycle.
    pub(super) fn cycle_updates(&self) -> usize {
        (self.updates / self.cycles) as usize
    }
}

/// One point of an experiment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Case {
    pub(super) experiment: Experiment,
    pub(super) regions: RegionParams,
    pub(super) evaluation_mode: EvaluationName,
}

impl Case {
    /// Average number of circles that contain an object. Circles are uniform; that a few cross the
    /// border is ignored.
    fn memberships(&self) -> f64 {
        let RegionParams { regions, radius_m, .. } = self.regions;
        regions as f64 * PI * radius_m * radius_m / SPACE_M2
    }

    /// Why the case is left out, if it is.
    fn excess(&self, motion: &Motion, options: &Options) -> Option<String> {
        let (memberships, most) = (self.memberships(), options.memberships_max);
        if memberships > most {
            return Some(format!("{memberships:.1} circles an object, at most {most}"));
        }
        // In the worst case the number of leaves equals the number of enters.
        let events = 2.0 * memberships * motion.cycle_updates() as f64;
        if events > CYCLE_EVENTS_MAX as f64 {
            return Some(format!("up to {events:.0} events a cycle, at most {CYCLE_EVENTS_MAX}"));
        }
        let regions = self.regions.regions;
        (regions > REGIONS_MAX as u64).then(|| format!("{regions} circles, at most {REGIONS_MAX}"))
    }

    /// The name of the case within its experiment.
    pub(super) fn label(&self) -> String {
        let RegionParams { regions, radius_m, .. } = self.regions;
        if regions == 0 { "none".into() } else { format!("{regions} of {radius_m} m") }
    }
}

/// The cases of an experiment, and the cases that are left out with the reason. Without circles
/// there is only one case, whatever the radii.
pub(super) fn cases(
    experiment: Experiment,
    motion: &Motion,
    options: &Options,
) -> (Vec<Case>, Vec<String>) {
    let (mut taken, mut left_out) = (Vec::new(), Vec::new());
    for regions in &options.regions {
        let radii = if *regions == 0 { &options.radius[..1] } else { &options.radius };
        for radius_m in radii {
            let regions = RegionParams {
                regions: *regions,
                radius_m: *radius_m,
                churn: options.churn,
                follows: options.follow,
            };
            let case = Case { experiment, regions, evaluation_mode: options.evaluation_mode };
            match case.excess(motion, options) {
                None => taken.push(case),
                Some(why) => left_out.push(format!("{} left out: {why}", case.label())),
            }
        }
    }
    (taken, left_out)
}
