//! Parameters of workloads.
//!
//! One flat set with the defaults of the published experiments; each generator reads its own.
//! [`Params::check`] checks all ranges.

use crate::limits::*;
use crate::{SpeedRange, SpeedUnit, WorkloadError};

/// Parameters of [`open`](crate::open).
///
/// A generator's objects are `0..objects`; shard `s` of `n` owns those with `object % n == s`. How
/// an object moves depends on the seed and `objects`, never on the number of shards.
#[derive(Clone, Debug, PartialEq)]
pub struct Params {
    /// Number of objects of all shards together (generators only), 1 to [`OBJECTS_MAX`].
    pub objects: u64,
    /// Seed of everything random.
    pub seed: u64,
    /// Length in ms of a round of `uniform` and of a time step (ts) of `gauss` and `network`; also
    /// the time over which the first reports of all objects are spread. 1 ms to [`STEP_MS_MAX`].
    pub step_ms: i64,
    /// `uniform`: range of the speeds of objects, within 0 to [`SPEED_MAX_M_S`].
    pub speed_range: SpeedRange,
    /// Side of a query window as a share of the side of the space, in `(0, 1]`.
    pub window: f64,
    /// Index of the shard, below `shards`.
    pub shard: u32,
    /// Number of shards (connections), 1 to [`SHARDS_MAX`].
    pub shards: u32,
    /// `gauss`: number of hot-spots H, 1 to [`HOTSPOTS_MAX`].
    pub hotspots: u32,
    /// `gauss`, `network`: number of speeds S, and of rings around a hot-spot, 1 to [`SPEEDS_MAX`].
    pub speeds: u32,
    /// `gauss`, `network`: highest speed V, metres per step, above 0 and at most
    /// [`SPEED_MAX_M_PER_STEP`].
    pub speed_max_m_per_step: f64,
    /// `gauss`: maximum update interval T, 1 to [`SILENCE_STEPS_MAX`] steps.
    pub silence_max_steps: u32,
    /// `gauss`: query windows gather around the hot-spots as objects do. With H = 10, a query then
    /// returns about sixteen times as many rows.
    pub windows_follow: bool,
    /// `hub`: number of destinations ND, 2 to [`DESTINATIONS_MAX`].
    pub destinations: u32,
    /// `hub`: mean update interval UI in ms, 1,000 to [`UPDATE_INTERVAL_MS_MAX`].
    pub update_interval_ms: i64,
    /// `replay`: unit of the file's speeds.
    pub speed_unit: SpeedUnit,
    /// `replay`: copies of the fleet, shifted in space and time, 1 (the file alone) to
    /// [`FAN_OUT_MAX`].
    pub fan_out: u32,
}

impl Default for Params {
    fn default() -> Self {
        Self {
            objects: 100_000,
            seed: 1,
            step_ms: 1_000,
            speed_range: SpeedRange::default(),
            window: 0.001,
            shard: 0,
            shards: 1,
            hotspots: 10,
            speeds: 10,
            speed_max_m_per_step: 100.0,
            silence_max_steps: 120,
            windows_follow: false,
            destinations: 20,
            update_interval_ms: 3_600_000,
            speed_unit: SpeedUnit::MetresPerSecond,
            fan_out: 1,
        }
    }
}

impl Params {
    /// Checks the ranges.
    ///
    /// # Errors
    /// [`WorkloadError::Parameter`] for the first one outside its range.
    pub fn check(&self) -> Result<(), WorkloadError> {
        within("objects", self.objects, 1, OBJECTS_MAX)?;
        within("step_ms", self.step_ms, 1, STEP_MS_MAX)?;
        within("shards", self.shards, 1, SHARDS_MAX)?;
        within("shard", self.shard, 0, self.shards - 1)?;
        within("hotspots", self.hotspots, 1, HOTSPOTS_MAX)?;
        within("speeds", self.speeds, 1, SPEEDS_MAX)?;
        within("silence_max_steps", self.silence_max_steps, 1, SILENCE_STEPS_MAX)?;
        within("destinations", self.destinations, 2, DESTINATIONS_MAX)?;
        within("update_interval_ms", self.update_interval_ms, 1_000, UPDATE_INTERVAL_MS_MAX)?;
        within("fan_out", self.fan_out, 1, FAN_OUT_MAX)?;
        self.speed_range.check()?;
        above_zero("window", self.window, 1.0)?;
        above_zero("speed_max_m_per_step", self.speed_max_m_per_step, SPEED_MAX_M_PER_STEP)
    }
}

/// Checks that a value is in a closed range; NaN is not.
pub(crate) fn within<T: PartialOrd + std::fmt::Display + Copy>(
    parameter: &'static str,
    value: T,
    least: T,
    most: T,
) -> Result<(), WorkloadError> {
    if value >= least && value <= most {
        return Ok(());
    }
    let range = format!("{least} to {most}");
    Err(WorkloadError::Parameter { parameter, value: value.to_string(), range })
}

/// Checks that a value is above 0 and at most `most`; NaN is not.
fn above_zero(parameter: &'static str, value: f64, most: f64) -> Result<(), WorkloadError> {
    if value > 0.0 && value <= most {
        return Ok(());
    }
    let range = format!("above 0 and at most {most}");
    Err(WorkloadError::Parameter { parameter, value: value.to_string(), range })
}
