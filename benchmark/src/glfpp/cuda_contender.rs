//! The engine on the first NVIDIA GPU as a contender, with the settings of the case.
//!
//! As many cycles are under way as it overlaps. Rows lie in page-locked memory, unless the flags
//! say otherwise.

use shoal_codec::{Block, Budget};
use shoal_engine::EngineOptions;
use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_gpu::{CudaBackend, Gpu, Tuning, UpdateMethod};

use super::contender::{Contender, Settings};
use super::engine_contender::EngineContender;
use super::options::{Options, UpdateWay};
use super::prepared::Prepared;
use super::timeline::{Recorder, Recording, Span};
use crate::error::BenchmarkError;

/// The contender for a case; why there is none otherwise.
pub(super) fn cuda(prepared: &Prepared, options: &Options) -> Result<Box<dyn Contender>, String> {
    let gpu = Gpu::open(Gpu::FIRST).map_err(|cause| cause.to_string())?;
    let tuning = Tuning {
        side: prepared.case.side.or(options.cuda_side),
        update_method: options.cuda_way.map(|way| match way {
            UpdateWay::Apply => UpdateMethod::Apply,
            UpdateWay::Rebuild => UpdateMethod::Rebuild,
        }),
        resident_threads: prepared.case.launch_threads,
    };
    let engine = EngineOptions::new(prepared.space);
    let budget_bytes = CudaBackend::usual_budget_bytes(&gpu);
    let backend = CudaBackend::with_tuning(&gpu, engine, budget_bytes, tuning);
    let backend = Box::new(backend.map_err(|fault| fault.to_string())?);
    let recorder = options.timeline.then(|| Box::new(backend.recorder()) as Box<dyn Recorder>);
    let settings = Settings {
        cells: tuning.side.map_or(0, |side| u64::from(side).pow(2)),
        launch_threads: tuning.resident_threads.unwrap_or(0),
        update_way: options.cuda_way.map_or("cheaper", UpdateWay::name),
        query_way: "rows",
        ..Settings::default()
    };
    let pageable = options.pageable;
    let place = Box::new(move |block: &Block| {
        if pageable {
            return Ok(block.clone());
        }
        Ok(Block::parse(gpu.pinned_bytes(block.bytes())?, &Budget::default())?)
    });
    let contender = EngineContender::new(backend, CYCLES_IN_FLIGHT_MAX, place);
    Ok(Box::new(contender.recorded_by(recorder).set_to(settings)))
}

impl Recorder for shoal_gpu::Recorder {
    fn start(&self) -> Result<(), BenchmarkError> {
        Ok(Self::start(self)?)
    }

    fn stop(&self) -> Result<Recording, BenchmarkError> {
        let shoal_gpu::Recording { spans, in_bytes, out_bytes } = Self::stop(self)?;
        let spans = spans.into_iter().map(|span| Span {
            epoch: span.epoch,
            stage: span.stage,
            begin_ms: span.begin_ms.into(),
            end_ms: span.end_ms.into(),
        });
        Ok(Recording { spans: spans.collect(), in_bytes, out_bytes })
    }
}
