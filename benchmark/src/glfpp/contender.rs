//! What takes part in the experiments, and what is known of its run.
//!
//! A contender prepares its own form of the rows, loads the objects, runs one cycle to warm up,
//! then the clock starts. At rest it answers the last cycle's queries once more: that hash must be
//! the same for every contender, whatever it answered while things moved.

use super::engine_contender::EngineContender;
use super::options::{BackendName, Options};
use super::pgrid_contender::PgridContender;
use super::prepared::Prepared;
use super::timeline::Span;
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
    /// When stages ran, where that was asked for and can be told.
    pub(super) spans: Vec<Span>,
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
) -> Result<Box<dyn Contender>, String> {
    match name {
        BackendName::Pgrid => Ok(Box::new(PgridContender::new(prepared, options)?)),
        BackendName::Cpu => Ok(Box::new(EngineContender::new(
            cpu(prepared)?,
            1,
            Box::new(|block| Ok(block.clone())),
            None,
        ))),
        BackendName::Cuda => cuda(prepared, options),
    }
}

/// The engine on the CPU; its `submit` does all the work, so one cycle is under way at a time.
fn cpu(prepared: &Prepared) -> Result<Box<dyn Backend>, String> {
    chooses_cells(prepared)?;
    Ok(Box::new(CpuBackend::new(EngineOptions::new(prepared.space))))
}

/// The engine on the first device, with as many cycles under way as it overlaps. Rows lie in
/// page-locked memory, unless the flags say otherwise.
#[cfg(feature = "cuda")]
fn cuda(prepared: &Prepared, options: &Options) -> Result<Box<dyn Contender>, String> {
    use shoal_codec::{Block, Budget};
    use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;

    use super::timeline::Recorder;

    chooses_cells(prepared)?;
    let gpu = shoal_gpu::Gpu::open().map_err(|cause| cause.to_string())?;
    let backend = shoal_gpu::CudaBackend::new(&gpu, EngineOptions::new(prepared.space));
    let backend = Box::new(backend.map_err(|fault| fault.to_string())?);
    let recorder = options.timeline.then(|| Box::new(backend.recorder()) as Box<dyn Recorder>);
    let pageable = options.pageable;
    let place = move |block: &Block| {
        if pageable {
            return Ok(block.clone());
        }
        Ok(Block::parse(gpu.pinned_bytes(block.bytes())?, &Budget::default())?)
    };
    Ok(Box::new(EngineContender::new(backend, CYCLES_IN_FLIGHT_MAX, Box::new(place), recorder)))
}

#[cfg(not(feature = "cuda"))]
fn cuda(_prepared: &Prepared, _options: &Options) -> Result<Box<dyn Contender>, String> {
    Err(shoal_gpu::Unavailable::NotBuilt.to_string())
}

/// Refuses cases that fix the cells, which the engine does itself.
fn chooses_cells(prepared: &Prepared) -> Result<(), String> {
    match prepared.case.side {
        Some(_) => Err("it chooses its cells itself".to_owned()),
        None => Ok(()),
    }
}

#[cfg(feature = "cuda")]
impl super::timeline::Recorder for shoal_gpu::Recorder {
    fn start(&self) -> Result<(), BenchmarkError> {
        Ok(Self::start(self)?)
    }

    fn stop(&self) -> Result<Vec<Span>, BenchmarkError> {
        let spans = Self::stop(self)?.into_iter().map(|span| Span {
            epoch: span.epoch,
            stage: span.stage,
            begin_ms: span.begin_ms.into(),
            end_ms: span.end_ms.into(),
        });
        Ok(spans.collect())
    }
}
