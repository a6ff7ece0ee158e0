//! What takes part in the experiments, and what is known of its run.
//!
//! A contender prepares its own form of the rows, loads the objects, runs one cycle to warm up,
//! then the clock starts. At rest it answers the last cycle's queries once more: that hash must be
//! the same for every contender, whatever it answered while things moved.

#[cfg(feature = "cuda")]
use super::cuda_contender::cuda;
use super::engine_contender::EngineContender;
use super::options::{BackendName, Experiment, Options};
use super::pgrid_contender::PgridContender;
use super::prepared::Prepared;
use super::timeline::Recording;
use crate::cycle_times::CycleTimes;
use crate::error::BenchmarkError;
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};

/// Why backends on the CPU have no part in the experiment over threads of a device.
pub(super) const NO_WIDTH: &str = "it has no threads on a device";

/// One run, measured.
pub(super) struct Measured {
    /// From the first row given to the last answer readable.
    pub(super) seconds: f64,
    /// From a cycle's submission to its answers; see [`Measured::cycle_updates`].
    pub(super) times: CycleTimes,
    /// Updates of what `times` counts: a cycle, or what a worker takes at a time.
    pub(super) cycle_updates: usize,
    /// How many epochs answers were behind the changes of their own cycle.
    pub(super) epochs_behind: u64,
    /// Objects in all answers.
    pub(super) results: u64,
    /// Of the answers given while the clock ran.
    pub(super) run_hash: String,
    /// Of the last cycle's queries, asked again at rest.
    pub(super) answer_hash: String,
    /// When stages ran, where that was asked for and can be told.
    pub(super) recording: Option<Recording>,
    /// Bytes of the state.
    pub(super) memory_bytes: u64,
    pub(super) settings: Settings,
}

/// What a contender ran with, 0 or empty where it has no such thing or chooses it as it runs.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Settings {
    pub(super) cells: u64,
    pub(super) bucket_objects: usize,
    /// Threads of its kernels on the device at a time, 0 for as many as fit.
    pub(super) launch_threads: u32,
    pub(super) update_way: &'static str,
    pub(super) query_way: &'static str,
}

/// Anything that can run a case.
pub(super) trait Contender {
    /// Runs a case that was made for it.
    fn run(self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError>;
}

/// The contender of a name for a case; why there is none otherwise.
pub(super) fn contender(
    name: BackendName,
    prepared: &Prepared,
    options: &Options,
) -> Result<Box<dyn Contender>, String> {
    match name {
        BackendName::Pgrid => Ok(Box::new(PgridContender::new(prepared, options)?)),
        BackendName::Cpu => Ok(Box::new(EngineContender::new(
            cpu(prepared)?,
            1,
            Box::new(|block| Ok(block.clone())),
        ))),
        BackendName::Cuda => cuda(prepared, options),
    }
}

/// The engine on the CPU; its `submit` does all the work, so one cycle is under way at a time.
fn cpu(prepared: &Prepared) -> Result<Box<dyn Backend>, String> {
    if prepared.case.experiment == Experiment::Threads {
        return Err(NO_WIDTH.to_owned());
    }
    if prepared.case.side.is_some() {
        return Err("it chooses its cells itself".to_owned());
    }
    Ok(Box::new(CpuBackend::new(EngineOptions::new(prepared.space))))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_prepared: &Prepared, _options: &Options) -> Result<Box<dyn Contender>, String> {
    Err(shoal_gpu::Unavailable::NotBuilt.to_string())
}
