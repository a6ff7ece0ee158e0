//! Chooses the cheaper method of updating a grid: applying the moves, or rebuilding it.
//!
//! The cost of both is proportional to numbers that are available beforehand. The cost of a unit is
//! measured with events at every update; the initial values were measured on an H200 while other
//! stages ran.

/// Weight of the newest measurement.
const NEWEST: f64 = 0.2;
/// Greatest factor by which one measurement changes an estimate. Launches are occasionally delayed
/// (allocations, a busy driver): without the limit, one rebuild of 10 ms made the rest of a run
/// apply moves, at half the rate.
const NEWEST_MAX: f64 = 2.0;

/// Assumed number of updates after which a located grid is rebuilt. With 4, a fleet of 100 M
/// objects was never located, at 0.7 times the rate (H200, 8 M moves).
const LOCATED_UPDATES: f64 = 16.0;

/// Estimated nanoseconds: of the launches, and per slot of each kind of work.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cost {
    /// Fixed part of either method, launches.
    launch_ns: f64,
    apply_ns: f64,
    rebuild_ns: f64,
    locate_ns: f64,
    /// The forced method.
    forced: Option<UpdateMethod>,
}

/// A method of updating a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UpdateMethod {
    /// Deletes, inserts and moves.
    Apply,
    /// Rebuilds from the newest positions.
    Rebuild,
}

impl Cost {
    pub(crate) fn new(forced: Option<UpdateMethod>) -> Self {
        Self { launch_ns: 40_000.0, apply_ns: 0.4, rebuild_ns: 0.06, locate_ns: 0.16, forced }
    }

    /// The forced method, or the cheaper one: applying the moves of `moved` slots of two cycles, or
    /// rebuilding all `slots`. A grid that is not located must be located before moves can be
    /// applied; as it is located once for many updates, a share of that counts.
    pub(crate) fn cheaper(&self, moved: u32, slots: u32, is_located: bool) -> UpdateMethod {
        if let Some(method) = self.forced {
            return method;
        }
        let locate = if is_located { 0.0 } else { self.locate_ns * f64::from(slots) };
        let apply = self.launch_ns + self.apply_ns * f64::from(moved) + locate / LOCATED_UPDATES;
        let rebuild = self.launch_ns + self.rebuild_ns * f64::from(slots);
        if apply <= rebuild { UpdateMethod::Apply } else { UpdateMethod::Rebuild }
    }

    /// Records the time of a method for a number of units.
    pub(crate) fn learn(&mut self, method: UpdateMethod, units: u32, took_ms: f32) {
        // With few units, the launches take nearly all of the time.
        if units < 1 << 16 {
            return;
        }
        let each = (f64::from(took_ms) * 1e6 - self.launch_ns).max(0.0) / f64::from(units);
        let estimate = match method {
            UpdateMethod::Apply => &mut self.apply_ns,
            UpdateMethod::Rebuild => &mut self.rebuild_ns,
        };
        *estimate += (each.min(NEWEST_MAX * *estimate) - *estimate) * NEWEST;
    }

    /// Records that `units` could not be applied, so that all `slots` were rebuilt.
    pub(crate) fn learn_failure(&mut self, units: u32, slots: u32) {
        let rebuild_ns = self.rebuild_ns * f64::from(slots);
        self.learn(
            UpdateMethod::Apply,
            units,
            ((self.apply_ns * f64::from(units) + rebuild_ns) / 1e6) as f32,
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_moves_are_applied_and_many_rebuilt() {
        let cost = Cost::new(None);
        assert_eq!(cost.cheaper(100_000, 10_000_000, true), UpdateMethod::Apply);
        assert_eq!(cost.cheaper(8_000_000, 10_000_000, true), UpdateMethod::Rebuild);
        for is_located in [true, false] {
            assert_eq!(cost.cheaper(8_000_000, 100_000_000, is_located), UpdateMethod::Apply);
        }
    }

    #[test]
    fn what_fails_is_tried_less() {
        let mut cost = Cost::new(None);
        assert_eq!(cost.cheaper(1_000_000, 10_000_000, true), UpdateMethod::Apply);
        for _ in 0..10 {
            cost.learn_failure(1_000_000, 10_000_000);
        }
        assert_eq!(cost.cheaper(1_000_000, 10_000_000, true), UpdateMethod::Rebuild);
    }

    #[test]
    fn measurements_change_the_choice() {
        let mut cost = Cost::new(None);
        for _ in 0..100 {
            cost.learn(UpdateMethod::Rebuild, 1 << 20, 0.05);
        }
        assert_eq!(cost.cheaper(1_000_000, 10_000_000, true), UpdateMethod::Rebuild);
    }

    #[test]
    fn one_slow_measurement_changes_nothing_and_many_do() {
        let mut cost = Cost::new(None);
        for times in [1, 20] {
            for _ in 0..times {
                cost.learn(UpdateMethod::Rebuild, 10_000_000, 30.0);
            }
            let expected = if times == 1 { UpdateMethod::Rebuild } else { UpdateMethod::Apply };
            assert_eq!(cost.cheaper(8_000_000, 10_000_000, true), expected, "{times} times");
        }
    }

    #[test]
    fn a_forced_way_is_taken_whatever_it_costs() {
        for method in [UpdateMethod::Apply, UpdateMethod::Rebuild] {
            let mut cost = Cost::new(Some(method));
            cost.learn(method, 1 << 20, 1e6);
            assert_eq!(cost.cheaper(8_000_000, 10_000_000, false), method);
            assert_eq!(cost.cheaper(1, 10_000_000, true), method);
        }
    }
}
