//! The settings for experiments change no answer.
//!
//! Runs random operations against the model with each setting alone and with all settings together.
//! Some settings make the grid far too coarse or far too fine.
//! Needs an NVIDIA GPU, as the conformance suite does.

use shoal_engine::conformance::{Make, many_objects, random_operations};
use shoal_engine::{Backend, EngineError, EngineOptions, Space};
use shoal_gpu::{CudaBackend, Gpu, Tuning, UpdateMethod};

const NONE: Tuning = Tuning { side: None, update_method: None, resident_threads: None };

fn open(options: EngineOptions, tuning: Tuning) -> Result<CudaBackend, EngineError> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    CudaBackend::with_tuning(&gpu, options, CudaBackend::usual_budget_bytes(&gpu), tuning)
}

fn tuned(options: EngineOptions, tuning: Tuning) -> Box<dyn Backend> {
    Box::new(open(options, tuning).unwrap_or_else(|error| panic!("{error}")))
}

/// Runs random operations in planar and geographic spaces, with and without a TTL, and cycles in
/// which many objects gather and disperse.
fn check(make: Make) {
    for seed in [1, 2, 4] {
        random_operations(make, seed, 20_000);
    }
    for seed in [0, 5] {
        many_objects(make, seed, 400_000);
    }
}

macro_rules! tunings {
    ($($name:ident: $tuning:expr;)+) => {
        $(
            #[test]
            #[ignore = "needs an NVIDIA GPU"]
            fn $name() {
                check(|options| tuned(options, $tuning));
            }
        )+
    };
}

tunings! {
    one_cell: Tuning { side: Some(1), ..NONE };
    few_cells: Tuning { side: Some(16), ..NONE };
    many_cells: Tuning { side: Some(2_048), ..NONE };
    always_applied: Tuning { update_method: Some(UpdateMethod::Apply), ..NONE };
    always_rebuilt: Tuning { update_method: Some(UpdateMethod::Rebuild), ..NONE };
    one_warp_on_each_multiprocessor: Tuning { resident_threads: Some(1), ..NONE };
    three_warps_on_each_multiprocessor: Tuning { resident_threads: Some(132 * 96), ..NONE };
    two_blocks_on_each_multiprocessor: Tuning { resident_threads: Some(132 * 512), ..NONE };
    all_at_once: Tuning {
        side: Some(256),
        update_method: Some(UpdateMethod::Apply),
        resident_threads: Some(132 * 1_024),
    };
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn a_grid_that_cannot_be_is_refused() {
    let options = EngineOptions::new(Space::geographic());
    let error = open(options, Tuning { side: Some(100_000), ..NONE }).map(drop).unwrap_err();
    assert!(matches!(error, EngineError::Limit { value: 100_000, .. }), "{error}");
}
