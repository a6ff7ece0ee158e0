//! What takes part in the experiments, and what is known of its run.
//!
//! A contender prepares its own form of the rows, loads the objects, runs one cycle to warm up,
//! then the clock starts. At rest it answers the last cycle's queries once more: that hash must be
//! the same for every contender, whatever it answered while things moved.

use super::engine_contender::EngineContender;
use super::options::{BackendName, Options};
use super::pgrid_contender::PgridContender;
use super::prepared::Prepared;
use crate::cycle_times::CycleTimes;
use crate::error::BenchmarkError;
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};

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
    /// Bytes of the state.
    pub(super) memory_bytes: u64,
    /// Cells and bucket length, where the contender has them fixed.
    pub(super) layout: Option<(u64, usize)>,
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
) -> Result<Box<dyn Contender>, &'static str> {
    match name {
        BackendName::Pgrid => Ok(Box::new(PgridContender::new(prepared, options)?)),
        BackendName::Cpu => Ok(Box::new(EngineContender::new(cpu(prepared)?, 1))),
    }
}

/// The engine on the CPU; its `submit` does all the work, so one cycle is under way at a time.
fn cpu(prepared: &Prepared) -> Result<Box<dyn Backend>, &'static str> {
    if prepared.case.side.is_some() {
        return Err("it chooses its cells itself");
    }
    Ok(Box::new(CpuBackend::new(EngineOptions::new(prepared.space))))
}
