//! Long random programs with crashes, input/output errors and full disks at random.

use shoal_position_log::{Fault, SimulatedDisk};
use shoal_testkit::Random;

use crate::scale::seeds;
use crate::world::{World, program};

fn plan_fault(chance: &mut Random, disk: &SimulatedDisk, one_in: usize) {
    if chance.below(one_in) == 0 {
        let fault = match chance.below(6) {
            0 => Fault::InputOutput,
            1 => Fault::NoSpace,
            _ => Fault::Crash,
        };
        disk.inject(disk.operations() + chance.below(25) as u64, fault);
    }
}

fn run(seed: u64) {
    let mut chance = Random::new(seed);
    let mut world = World::new(seed);
    let length = 20 + chance.below(60);
    let steps = program(&mut chance, length);
    world.start_after_faults(|disk, attempt| {
        if attempt < 3 {
            plan_fault(&mut chance, disk, 4);
        }
    });
    for step in steps {
        plan_fault(&mut chance, &world.disk, 12);
        if world.step(step).is_ok() {
            continue;
        }
        world.check_stopped();
        if world.disk.has_crashed() || chance.below(3) == 0 {
            world.disk.restart();
            world.start_after_faults(|disk, attempt| {
                if attempt < 3 {
                    plan_fault(&mut chance, disk, 3);
                }
            });
        }
    }
    world.disk.restart();
    world.start_after_faults(|_, _| {});
}

#[test]
fn long_programs_lose_nothing_that_was_synced() {
    let threads = 2;
    std::thread::scope(|scope| {
        for first in 0..threads {
            scope.spawn(move || {
                for seed in seeds(10_000).skip(first).step_by(threads) {
                    let done = std::panic::catch_unwind(|| run(seed));
                    done.unwrap_or_else(|_| panic!("seed {seed}"));
                }
            });
        }
    });
}
