//! The `uniform` workload: objects cross the space in straight lines and bounce off its borders.
//!
//! This is the workload of the G-LFPP experiment: a 100 km square, uniform positions and
//! directions, speeds of 1 to 1,000 m/s by default. Objects have no state. A position is a closed
//! form of (seed, object, time), a triangle wave in each coordinate, so a core makes tens of
//! millions of fixes per second for any number of objects. Each object reports once per round, at
//! its phase; the objects report in ascending order.

use crate::direction::east_north;
use crate::limits::START_MS;
use crate::random::{Domain, key, lane, unit_of};
use crate::shard::Shard;
use crate::window::PlanarWindows;
use crate::{Fix, Params, SpeedRange, Window, Workload, WorkloadSpace};

/// Side of the space in metres.
pub(crate) const SPACE_M: f64 = 100_000.0;

/// The `uniform` workload.
#[derive(Debug)]
pub(crate) struct Uniform {
    shard: Shard,
    seed: u64,
    step_ms: i64,
    speed_range: SpeedRange,
    round: i64,
    next_local: u64,
    windows: PlanarWindows,
}

impl Uniform {
    /// The workload of checked parameters.
    pub(crate) fn new(params: &Params) -> Self {
        Self {
            shard: Shard::new(params),
            seed: params.seed,
            step_ms: params.step_ms,
            speed_range: params.speed_range,
            round: 0,
            next_local: 0,
            windows: PlanarWindows::new(params, (SPACE_M, SPACE_M)),
        }
    }

    /// The fix of an object at a time.
    fn fix(&self, object: u64, time_ms: i64) -> Fix {
        let key = key(self.seed, Domain::Objects, object);
        let SpeedRange { min_m_s, max_m_s } = self.speed_range;
        let speed_mps = min_m_s + (max_m_s - min_m_s) * unit_of(lane(key, 2));
        let turns = unit_of(lane(key, 3));
        let (east, north) = east_north(turns);
        let travelled_m = speed_mps * ((time_ms - START_MS) as f64 / 1_000.0);
        let (x, x_back) = bounce(unit_of(lane(key, 0)) * SPACE_M + travelled_m * east);
        let (y, y_back) = bounce(unit_of(lane(key, 1)) * SPACE_M + travelled_m * north);
        Fix {
            object,
            time_ms,
            x,
            y,
            speed_mps: Some(speed_mps),
            heading_deg: Some(360.0 * reflected(turns, x_back, y_back)),
        }
    }
}

/// Folds a coordinate into `[0, SPACE_M]`; true if the object moves against its first direction.
fn bounce(free_m: f64) -> (f64, bool) {
    let crossings = free_m / SPACE_M;
    // Rounds towards minus infinity; the baseline x86-64 target has no instruction for it.
    let truncated = crossings as i64;
    let whole = truncated - i64::from(crossings < truncated as f64);
    let rest = crossings - whole as f64;
    if whole & 1 == 0 { (rest * SPACE_M, false) } else { ((1.0 - rest) * SPACE_M, true) }
}

/// A compass direction, mirrored in either axis, in `[0, 1)`.
fn reflected(turns: f64, x_back: bool, y_back: bool) -> f64 {
    let turns = if x_back { 1.0 - turns } else { turns };
    let turns = if y_back { 1.5 - turns } else { turns };
    if turns >= 1.0 { turns - 1.0 } else { turns }
}

impl Workload for Uniform {
    fn space(&self) -> WorkloadSpace {
        WorkloadSpace::Planar { width_m: SPACE_M, height_m: SPACE_M }
    }

    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
        let owned = self.shard.owned();
        if owned == 0 {
            return 0;
        }
        out.reserve(rows);
        for _ in 0..rows {
            let object = self.shard.object(self.next_local);
            let round_ms = START_MS + self.round * self.step_ms;
            out.push(self.fix(object, round_ms + self.shard.phase_ms(object)));
            self.next_local += 1;
            if self.next_local == owned {
                self.next_local = 0;
                self.round += 1;
            }
        }
        rows
    }

    fn window(&mut self) -> Window {
        self.windows.anywhere()
    }
}
