//! The engine on the first NVIDIA GPU, as many cycles under way as it overlaps, rows in page-locked
//! memory.

use shoal_codec::{Block, Budget};
use shoal_engine::EngineOptions;
use shoal_engine::limits::CYCLES_IN_FLIGHT_MAX;
use shoal_gpu::{CudaBackend, Gpu};

use super::contender::Contender;

/// The contender of a fleet; why there is none otherwise.
pub(super) fn cuda(options: EngineOptions) -> Result<Contender, String> {
    let gpu = Gpu::open(Gpu::FIRST).map_err(|cause| cause.to_string())?;
    let backend = CudaBackend::new(&gpu, options);
    let backend = Box::new(backend.map_err(|fault| fault.to_string())?);
    let place = Box::new(move |block: &Block| {
        Ok(Block::parse(gpu.pinned_bytes(block.bytes())?, &Budget::default())?)
    });
    Ok(Contender { backend, in_flight: CYCLES_IN_FLIGHT_MAX, place })
}
