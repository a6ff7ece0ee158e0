//! Whole histories whose runs the device searches give the same answers as their model. They have
//! late fixes, removals, retention, erasure, merges, restarts, and more runs than fit the memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use shoal_gpu::{DeviceRuns, Gpu, OffloadThresholds};

use crate::world::{Shape, Step, World};

/// Thresholds with which every run is loaded.
const ALL: OffloadThresholds =
    OffloadThresholds { rows_min: 1, questions_min: 1, tiles_min: 1, objects_min: 1 };

fn runs(budget_bytes: u64, faults: &Arc<AtomicUsize>) -> Arc<DeviceRuns> {
    let gpu = Gpu::open(Gpu::FIRST).unwrap_or_else(|error| panic!("{error}"));
    let faults = faults.clone();
    let report = move |fault: &str| {
        eprintln!("{fault}");
        faults.fetch_add(1, Ordering::Relaxed);
    };
    Arc::new(DeviceRuns::new(&gpu, budget_bytes, ALL, report).unwrap())
}

fn random_step(world: &mut World) -> Step {
    match world.below(40) {
        0..=19 => Step::Seal,
        20..=34 => Step::Work,
        35..=36 => Step::Restart,
        37..=38 => Step::Erase,
        _ => Step::Retain,
    }
}

fn compare_pasts(seeds: std::ops::Range<u64>, device: &Arc<DeviceRuns>) {
    for seed in seeds {
        let objects = [3, 40, 400, 3_000][seed as usize % 4];
        let batch_rows = [60, 3_000, 9_000][seed as usize % 3];
        let mut world =
            World::new(seed, Shape { objects, batch_rows, partitions: [4, 30][seed as usize % 2] });
        world.device = Some(device.clone());
        world.open().unwrap();
        for number in 0..40 {
            let step = random_step(&mut world);
            world.step(step).unwrap();
            let rows_max = [1, 17, 1_000, 1 << 20][world.below(4)];
            let rows_max = rows_max.max(world.model.fixes.len() / 5);
            for _ in 0..3 {
                world.compare(&format!("seed {seed} step {number} {step:?}"), rows_max);
            }
        }
        world.check_all(&format!("seed {seed}"));
    }
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn histories_on_the_device_equal_the_model() {
    let faults = Arc::new(AtomicUsize::new(0));
    let device = runs(2 << 30, &faults);
    compare_pasts(0..10, &device);
    assert!(device.resident() > 0, "the last history is there");
    assert_eq!(faults.load(Ordering::Relaxed), 0);
}

#[test]
#[ignore = "needs an NVIDIA GPU"]
fn runs_that_do_not_fit_together_are_evicted() {
    let faults = Arc::new(AtomicUsize::new(0));
    // Enough memory for a few runs in addition to the buffers that the device always needs.
    let device = runs(12 << 20, &faults);
    compare_pasts(20..26, &device);
    assert_eq!(faults.load(Ordering::Relaxed), 0);
}
