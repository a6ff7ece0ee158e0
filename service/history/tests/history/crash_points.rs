//! A crash or an error at every operation of short programs. Exactly what was sealed must be there
//! afterwards.

use shoal_position_log::Fault;

use crate::scale::seeds;
use crate::world::{Shape, Step, World};

const PROGRAM: [Step; 9] = [
    Step::Seal,
    Step::Seal,
    Step::Work,
    Step::Seal,
    Step::Erase,
    Step::Seal,
    Step::Retain,
    Step::Restart,
    Step::Work,
];

/// What a run of the program met.
struct Met {
    /// The disk came to the operation that has the fault.
    is_reached: bool,
    has_failed: bool,
}

/// Runs the program with a fault at this operation of the disk.
fn run(seed: u64, fault_at: u64, fault: Fault) -> Met {
    let name = format!("seed {seed} {fault:?} at {fault_at}");
    let mut world = World::new(seed, Shape { objects: 6, batch_rows: 50, partitions: 2 });
    world.disk.inject(fault_at, fault);
    let mut has_failed = world.open().is_err();
    if has_failed {
        world.disk.restart();
        world.open().unwrap_or_else(|error| panic!("{name}: {error}"));
        world.check_all(&name);
    }
    for step in PROGRAM {
        let mut other = world.model.clone();
        let (epoch, disk) = (world.epoch, world.disk.clone());
        if let Err(error) = attempt(&mut world, step, &mut other) {
            assert!(!has_failed, "{name}: {step:?} fails without a fault: {error}");
            has_failed = true;
            disk.restart();
            // The next start removes files that an error of the disk left.
            world.open().unwrap_or_else(|error| panic!("{name}: {step:?}: {error}"));
            settle(&mut world, step, other, epoch);
            world.check_all(&format!("{name} {step:?}"));
        }
    }
    world.disk.restart();
    world.open().unwrap_or_else(|error| panic!("{name}: {error}"));
    world.check_all(&name);
    Met { is_reached: world.disk.operations() > fault_at, has_failed }
}

/// A step; `other` becomes the model that holds if the step has taken effect.
fn attempt(
    world: &mut World,
    step: Step,
    other: &mut shoal_testkit::NaivePast,
) -> Result<(), shoal_history::HistoryError> {
    match step {
        Step::Seal => {
            let (mut batch, model) = world.batch();
            *other = model.clone();
            let watermark = world.watermark(world.epoch + 1);
            world.writer().seal(&mut batch, watermark)?;
            (world.model, world.epoch) = (model, world.epoch + 1);
            Ok(())
        }
        Step::Erase => {
            other.erase(1);
            world.writer().begin_erase(&[1])?;
            world.model.erase(1);
            while world.writer().is_erasing() {
                world.work(1)?;
            }
            Ok(())
        }
        Step::Retain => {
            let from_ms = crate::world::START_MS + crate::world::PARTITION_MS;
            world.writer().retain(Some(from_ms), None)?;
            world.drop_what_is_not_kept();
            assert!(world.version().kept_from_ms() <= Some(from_ms));
            Ok(())
        }
        other => world.step(other),
    }
}

/// After a crash within a step, either the state before or that after holds.
fn settle(world: &mut World, step: Step, other: shoal_testkit::NaivePast, epoch: u64) {
    match step {
        Step::Seal if world.writer().watermark().position.epoch > epoch => {
            (world.model, world.epoch) = (other, epoch + 1);
        }
        Step::Erase if world.writer().is_erasing() => {
            world.model = other;
            while world.writer().is_erasing() {
                world.work(1).unwrap();
            }
        }
        Step::Retain => world.drop_what_is_not_kept(),
        _ => {}
    }
}

fn check_every_operation(fault: Fault, seed_count: u64) {
    for seed in seeds(seed_count) {
        // A removal that is tried at best, and operations that take no space, hide faults.
        let met = (0..).map(|fault_at| run(seed, fault_at, fault)).take_while(|met| met.is_reached);
        let points = met.filter(|met| met.has_failed).count();
        assert!(points > 20, "seed {seed} {fault:?}: {points} points");
    }
}

#[test]
fn every_operation_may_be_the_last() {
    check_every_operation(Fault::Crash, 2);
}

#[test]
fn every_operation_may_fail() {
    check_every_operation(Fault::InputOutput, 1);
}

#[test]
fn every_operation_may_find_the_disk_full() {
    check_every_operation(Fault::NoSpace, 1);
}
