//! The conformance suite on the CPU backend.

#![cfg(feature = "cpu")]

use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};

fn cpu(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(options))
}

shoal_engine::conformance_suite!(cpu);
