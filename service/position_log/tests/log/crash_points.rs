//! A crash at every operation of short programs, and again while recovering from it.

use shoal_position_log::{Fault, SimulatedDisk};
use shoal_testkit::Random;

use crate::scale::seeds;
use crate::world::{Step, World, program, recycling_program};

/// Runs a program with a crash at this operation of the disk; returns the operations of a run that
/// meets no crash.
fn run(seed: u64, steps: &[Step], crash_at: u64, again: Option<u64>) -> Option<u64> {
    run_in(&mut World::new(seed), steps, crash_at, again)
}

fn run_in(world: &mut World, steps: &[Step], crash_at: u64, again: Option<u64>) -> Option<u64> {
    world.disk.inject(crash_at, Fault::Crash);
    let mut was_restarted = false;
    let mut recover = |world: &mut World| {
        assert!(!was_restarted && world.disk.has_crashed(), "an error without a crash");
        was_restarted = true;
        world.disk.restart();
        world.start_after_faults(|disk, attempt| {
            if let Some(after) = again.filter(|_| attempt == 0) {
                disk.inject(disk.operations() + after, Fault::Crash);
            }
        });
        world.disk.clear_faults();
    };
    if world.start().is_err() {
        recover(world);
    }
    for step in steps {
        if world.step(*step).is_err() {
            recover(world);
        }
    }
    let operations = world.disk.operations();
    // The end is a crash too: what was synced after the recovery must be there.
    world.disk.restart();
    world.start_after_faults(|_, _| {});
    (!was_restarted).then_some(operations)
}

#[test]
fn every_operation_of_short_programs_may_be_the_last() {
    let mut points = 0;
    for seed in seeds(200) {
        let mut chance = Random::new(seed);
        let length = 3 + chance.below(8);
        let steps = program(&mut chance, length);
        for crash_at in 0.. {
            let again = (chance.below(2) == 0).then(|| chance.below(40) as u64);
            let name = format!("seed {seed} crash {crash_at} again {again:?} {steps:?}");
            let point = std::panic::catch_unwind(|| run(seed, &steps, crash_at, again));
            points += 1;
            match point.unwrap_or_else(|_| panic!("{name}")) {
                Some(operations) => {
                    assert!(operations <= crash_at, "{name}: the crash did not happen");
                    break;
                }
                None => continue,
            }
        }
    }
    println!("{points} crash points");
}

#[test]
fn every_operation_of_a_recovery_may_be_the_last() {
    for seed in seeds(8) {
        let mut chance = Random::new(1_000 + seed);
        let steps = program(&mut chance, 12);
        for _ in 0..12 {
            let crash_at = 10 + chance.below(120) as u64;
            for again in 0..45 {
                let name = format!("seed {seed} crash {crash_at} again {again} {steps:?}");
                let point = std::panic::catch_unwind(|| run(seed, &steps, crash_at, Some(again)));
                point.unwrap_or_else(|_| panic!("{name}"));
            }
        }
    }
}

#[test]
fn every_operation_of_programs_that_recycle_may_be_the_last() {
    /// What a crash leaves of unsynced writes, at each operation.
    const OUTCOMES: u64 = 3;
    let (mut points, mut programs) = (0, 0);
    for seed in seeds(6) {
        let mut chance = Random::new(3_000 + seed);
        let steps = recycling_program(&mut chance);
        let mut world = World::new(seed);
        let Some(operations) = run_in(&mut world, &steps, u64::MAX, None) else {
            panic!("seed {seed}: a crash without a fault");
        };
        programs += u64::from(world.retired > 0 && world.recycled > 0);
        for (crash_at, outcome) in
            (0..operations).flat_map(|at| (0..OUTCOMES).map(move |outcome| (at, outcome)))
        {
            let again = (chance.below(2) == 0).then(|| chance.below(40) as u64);
            let point = std::panic::catch_unwind(|| {
                let disk = SimulatedDisk::new(seed * 1_000_000 + crash_at * OUTCOMES + outcome);
                run_in(&mut World::on(seed, disk), &steps, crash_at, again)
            });
            let name = format!("seed {seed} crash {crash_at}, {outcome} again {again:?} {steps:?}");
            point.unwrap_or_else(|_| panic!("{name}"));
            points += 1;
        }
    }
    println!("{points} crash points in {programs} programs that recycle");
    assert!(programs > 0);
}
