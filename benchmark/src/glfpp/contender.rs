//! The contenders of a case, and the result of a run.
//!
//! A contender converts the rows, loads the objects and warms up; then the clock starts. After the
//! run, at rest, it answers the last cycle's queries again. The hash of these answers is equal for
//! all contenders, even if their answers during updates differ.

use shoal_engine::{EngineOptions, GridUpdates};

use super::engine::EngineContender;
use super::options::{Experiment, Options};
use super::pgrid::PgridContender;
use super::prepared::Prepared;
use super::timeline::Recording;
use crate::error::BenchmarkError;
use crate::harness::{BackendName, CycleTimes, Driver, Totals};

/// The reason why `threads` leaves out CPU backends.
pub(super) const NO_DEVICE_THREADS: &str = "it has no threads on a device";

/// The result of a run.
pub(super) struct Measured {
    /// From the first submitted row to the last readable answer.
    pub(super) seconds: f64,
    /// Times from submission to answers, each for [`Measured::cycle_updates`] updates.
    pub(super) times: CycleTimes,
    /// Updates of one measured time: of a cycle, or of a worker's portion.
    pub(super) cycle_updates: usize,
    /// Epochs between the state of the answers and their own cycle.
    pub(super) epochs_behind: u64,
    /// The totals of the answers while the clock ran.
    pub(super) totals: Totals,
    /// Hash of the answers to the last cycle's queries, repeated at rest.
    pub(super) answer_hash: String,
    /// When stages ran, if recorded.
    pub(super) recording: Option<Recording>,
    /// Bytes of the state.
    pub(super) memory_bytes: u64,
    /// How the cycles updated the grid; nothing for a contender without cycles.
    pub(super) grid_updates: GridUpdates,
    pub(super) settings: Settings,
}

/// The settings of a run. A setting is 0 or empty if a contender does not have it or chooses it at
/// run time.
#[derive(Clone, Debug, Default)]
pub(super) struct Settings {
    /// Threads, if their number is not that of the options.
    pub(super) threads: Option<usize>,
    pub(super) pgrid_roles: String,
    pub(super) cells: u64,
    pub(super) bucket_objects: usize,
    /// Resident threads of kernels on the device, 0 = as many as fit.
    pub(super) launch_threads: u32,
    /// The method by which a grid on a device is updated.
    pub(super) update_choice: &'static str,
}

/// A system that runs a case.
pub(super) trait Contender {
    /// Runs its case.
    fn run(self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError>;
}

/// The contender of a name for a case, or the reason for its absence.
pub(super) fn contender(
    name: BackendName,
    prepared: &Prepared,
    options: &Options,
) -> Result<Box<dyn Contender>, String> {
    match name {
        BackendName::Pgrid => Ok(Box::new(PgridContender::new(prepared, options)?)),
        BackendName::Cpu => Ok(Box::new(EngineContender::new(cpu(prepared)?))),
        BackendName::Cuda => Ok(Box::new(EngineContender::cuda(prepared, options)?)),
    }
}

/// Refuses a case with a method for grids on a device.
pub(super) fn check_method(prepared: &Prepared) -> Result<(), String> {
    match prepared.case.update_method {
        Some(_) => Err("it has one method of updating its grid".to_owned()),
        None => Ok(()),
    }
}

fn cpu(prepared: &Prepared) -> Result<Driver, String> {
    if prepared.case.experiment == Experiment::Threads {
        return Err(NO_DEVICE_THREADS.to_owned());
    }
    if prepared.case.side.is_some() {
        return Err("it chooses its cells itself".to_owned());
    }
    check_method(prepared)?;
    Driver::open(BackendName::Cpu, EngineOptions::new(prepared.space))
}
