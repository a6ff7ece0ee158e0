//! One fault at every operation of a program: input/output errors, a full disk, writes that are
//! lost or that land elsewhere although the disk reports success.

use shoal_position_log::{Fault, LogError};
use shoal_testkit::Random;

use crate::scale::seeds;
use crate::world::{Step, World, program};

/// Runs a program with one error at operation `at`. Returns false if the program ends before it.
fn run_with_error(seed: u64, steps: &[Step], at: u64, fault: Fault) -> bool {
    let mut world = World::new(seed);
    world.disk.inject(at, fault);
    world.start_after_faults(|_, _| {});
    let mut errors = 0;
    for step in steps {
        let Err(error) = world.step(*step) else { continue };
        errors += 1;
        assert!(errors == 1, "a second error: {error}");
        if error.is_recoverable() {
            // The same step succeeds when there is space again.
            assert!(world.step(*step).is_ok(), "{error}");
        }
        world.check_stopped();
    }
    let was_reached = world.disk.operations() > at;
    world.disk.restart();
    world.start_after_faults(|_, _| {});
    was_reached
}

#[test]
fn every_operation_may_fail_or_find_the_disk_full() {
    for seed in seeds(40) {
        let mut chance = Random::new(7_000 + seed);
        let steps = program(&mut chance, 12);
        for fault in [Fault::InputOutput, Fault::NoSpace] {
            for at in 0.. {
                let run = || run_with_error(seed, &steps, at, fault);
                let done = std::panic::catch_unwind(run);
                if !done.unwrap_or_else(|_| panic!("seed {seed} {fault:?} at {at}: {steps:?}")) {
                    break;
                }
            }
        }
    }
}

/// Runs a program with one silent fault; none of the assertions of [`World`] on content may fail.
/// Returns whether the program went that far, and whether the fault was found.
fn run_with_lie(seed: u64, steps: &[Step], at: u64, fault: Fault) -> (bool, bool) {
    let mut world = World::new(seed);
    world.lie(at, fault);
    let mut run = || {
        world.start()?;
        steps.iter().try_for_each(|step| world.step(*step))?;
        world.disk.restart();
        world.start()
    };
    match run() {
        Ok(()) => (world.was_deceived(), false),
        Err(error) if is_damage(&error) => (true, true),
        Err(error) => panic!("{error}"),
    }
}

fn is_damage(error: &LogError) -> bool {
    matches!(error, LogError::Corrupt { .. } | LogError::Behind { .. } | LogError::Damaged { .. })
}

#[test]
fn every_write_may_vanish_or_land_elsewhere() {
    let mut found = 0;
    for seed in seeds(60) {
        let mut chance = Random::new(8_000 + seed);
        let steps: Vec<Step> = program(&mut chance, 14);
        for fault in [Fault::Phantom, Fault::Misdirected] {
            for at in 0.. {
                let run = || run_with_lie(seed, &steps, at, fault);
                let done = std::panic::catch_unwind(run);
                let done = done.unwrap_or_else(|_| panic!("seed {seed} {fault:?} at {at}"));
                found += u32::from(done.1);
                if !done.0 {
                    break;
                }
            }
        }
    }
    println!("{found} found");
    assert!(found > 0);
}
