//! Answers equal the model's after random pasts: late fixes, equal times, removals, clears,
//! retention, erasure, merges and restarts.

use std::sync::Arc;

use shoal_history::RunDevice;

use crate::host_device::HostDevice;
use crate::scale::seeds;
use crate::world::{Shape, Step, World};

/// Ten seeds in a usual run; `scale.rs` has the settings for more.
const SEEDS: u64 = 10;

fn random_step(world: &mut World) -> Step {
    match world.below(40) {
        0..=19 => Step::Seal,
        20..=34 => Step::Work,
        35..=36 => Step::Restart,
        37..=38 => Step::Erase,
        _ => Step::Retain,
    }
}

/// Compares answers with the model in random pasts; `device` searches runs, if there is one.
pub(crate) fn compare_pasts(count: u64, device: Option<&Arc<dyn RunDevice>>) {
    for seed in seeds(count) {
        let objects = [3, 40, 400, 3_000][seed as usize % 4];
        let batch_rows = [60, 3_000, 9_000][seed as usize % 3];
        let mut world =
            World::new(seed, Shape { objects, batch_rows, partitions: [4, 30][seed as usize % 2] });
        world.device = device.cloned();
        world.open().unwrap();
        for number in 0..60 {
            let step = random_step(&mut world);
            let name = format!("seed {seed} step {number} {step:?}");
            world.step(step).unwrap_or_else(|error| panic!("{name}: {error}"));
            let rows_max = [1, 17, 1_000, 1 << 20][world.below(4)];
            // A budget of few rows scans a partition very often.
            let rows_max = rows_max.max(world.model.fixes.len() / 5);
            for _ in 0..2 {
                world.compare(&name, rows_max);
            }
        }
        world.check_all(&format!("seed {seed}"));
    }
}

#[test]
fn answers_equal_the_model_after_random_pasts() {
    compare_pasts(SEEDS, None);
}

#[test]
fn answers_with_a_device_equal_the_model() {
    let device = Arc::new(HostDevice::default());
    let shared: Arc<dyn RunDevice> = device.clone();
    compare_pasts(SEEDS, Some(&shared));
    assert!(device.calls() > 1_000, "only {} calls", device.calls());
}

#[test]
fn merging_ends_and_leaves_few_runs() {
    let mut world = World::new(77, Shape { objects: 50, batch_rows: 400, partitions: 4 });
    world.open().unwrap();
    for _ in 0..40 {
        world.step(Step::Seal).unwrap();
        world.work(100).unwrap();
        // Four partitions, and a number of runs in each that is logarithmic in their rows.
        assert!(world.version().runs() <= 4 * 8, "{} runs", world.version().runs());
    }
    assert!(world.writer().next_work().unwrap().is_none());
    world.check_all("merged");
}
