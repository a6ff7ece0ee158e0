//! Does the CPU backend keep the contract?
//!
//! The whole suite: hand-made cases and ten seeds of both random parts.

#![cfg(feature = "cpu")]

use shoal_engine::cpu::CpuBackend;
use shoal_engine::{Backend, EngineOptions};

fn cpu(options: EngineOptions) -> Box<dyn Backend> {
    Box::new(CpuBackend::new(options))
}

shoal_engine::conformance_suite!(cpu);
shoal_engine::conformance_subscriptions!(cpu);
shoal_engine::conformance_standing!(cpu);
