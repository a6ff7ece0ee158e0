//! The interface of all sources of fixes and query windows. The caller paces the rows.

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

/// A seeded stream of fixes, endless except for a replay, and one of query windows.
pub trait Workload: Send {
    /// The space of all positions and windows.
    fn space(&self) -> WorkloadSpace;

    /// Appends up to `rows` fixes in time order to `out` and returns their number; fewer only if a
    /// replay has ended or the shard owns no object.
    ///
    /// The fixes do not depend on how they are divided over calls. A replay gives rows in the order
    /// of its file.
    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize;

    /// The next query window, with `Params::window` times the sides of the space (replay: of the
    /// box of the data). Windows have their own random stream and never change the fixes.
    fn window(&mut self) -> Window;

    /// Rows of a replay that could not be read so far.
    fn unreadable_rows(&self) -> u64 {
        0
    }

    /// The error that ended the workload before its last row, such as a truncated file.
    fn failure(&self) -> Option<&WorkloadError> {
        None
    }
}
