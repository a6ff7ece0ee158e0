//! What does every source of fixes and query windows offer?
//!
//! One trait, so that the load generator and the benchmark run any workload the same way. It makes
//! no promise about wall-clock time: the caller paces the rows.

use crate::{Fix, Window, WorkloadError};

/// The space that a workload moves in; the fleet is created with it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum WorkloadSpace {
    /// WGS 84: x is longitude, y latitude, in degrees.
    Geographic,
    /// Metres from the lower left corner; positions lie in `[0, width_m]` x `[0, height_m]`.
    Planar {
        /// Width of the space in metres.
        width_m: f64,
        /// Height of the space in metres.
        height_m: f64,
    },
}

/// A seeded, endless (replay: finite) stream of fixes, and a stream of query windows beside it.
pub trait Workload: Send {
    /// The name by which [`open`](crate::open) knows it.
    fn name(&self) -> &'static str;

    /// The space of all positions and windows.
    fn space(&self) -> WorkloadSpace;

    /// Appends up to `rows` fixes in time order to `out` and returns how many; fewer only when the
    /// workload has ended (a replay), or when its shard owns no object.
    ///
    /// Deterministic: how the rows are divided over calls changes nothing. A replay gives rows in
    /// the order of its file, which is time order if the file is in time order.
    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize;

    /// The next query window: its sides are `Params::window` times those of the space (real data:
    /// of the box of the data). Drawn from a stream of its own, so asking never changes the fixes.
    fn window(&mut self) -> Window;

    /// Rows of real data that could not be read and were left out so far; 0 for a generator.
    fn unreadable_rows(&self) -> u64 {
        0
    }

    /// Why the workload ended before its data did, for instance a truncated file.
    fn failure(&self) -> Option<&WorkloadError> {
        None
    }
}
