//! The conformance suite on the CUDA backend.

#![cfg(feature = "cuda")]

use shoal_engine::{Backend, EngineOptions};
use shoal_gpu::{CudaBackend, Gpu};

fn cuda(options: EngineOptions) -> Box<dyn Backend> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    Box::new(CudaBackend::new(&gpu, options).unwrap_or_else(|error| panic!("{error}")))
}

shoal_engine::conformance_suite!(cuda, #[ignore = "needs an NVIDIA GPU"]);
