//! States of ranges: queries of a past moment read them instead of partitions, and they are dropped
//! if fixes arrive or objects are erased later.

use std::ops::Range;

use shoal_codec::{FixColumns, FixRow};
use shoal_history::{
    AsOf, AsOfQuery, Batch, Everywhere, HistoryError, QueryBudget, Watermark, Work,
};
use shoal_position_log::Storage;
use shoal_testkit::NaivePast;

use crate::scale::seeds;
use crate::world::{FOLDER, PARTITION_MS, START_MS, Shape, Step, World, rows};

const OBJECTS: u64 = 20;
const FIXES: i64 = 10;
/// The longest range that has a state.
const LONGEST_MS: i64 = 512 * PARTITION_MS;

/// Partitions from the start of a longest range on, each with fixes of all objects.
struct Past {
    world: World,
    model: NaivePast,
    first_ms: i64,
    clock_ms: i64,
    epoch: u64,
}

impl Past {
    fn new(partitions: i64) -> Self {
        let mut world = World::new(1, Shape { objects: 1, batch_rows: 1, partitions: 1 });
        world.coarser_rows_max = 10;
        world.open().unwrap();
        let first_ms = START_MS.div_euclid(LONGEST_MS) * LONGEST_MS;
        let clock_ms = first_ms + partitions * PARTITION_MS;
        let mut past = Self { world, model: NaivePast::new(), first_ms, clock_ms, epoch: 0 };
        past.seal_partitions(0..partitions);
        past
    }

    fn seal_partitions(&mut self, partitions: Range<i64>) {
        let first_ms = self.first_ms;
        let fixes = (partitions.start * FIXES..partitions.end * FIXES).flat_map(|at| {
            let time_ms = first_ms + at * PARTITION_MS / FIXES;
            (0..OBJECTS).map(move |object| FixRow::new(object, time_ms, at as i32, 8))
        });
        self.seal(fixes, |_, _| ());
    }

    fn seal(
        &mut self,
        fixes: impl Iterator<Item = FixRow>,
        end: impl FnOnce(&mut Batch, &mut NaivePast),
    ) {
        let mut batch = Batch::default();
        for fix in fixes {
            batch.fix(fix);
            self.model.fix(fix);
        }
        end(&mut batch, &mut self.model);
        self.epoch += 1;
        let clock_ms = self.clock_ms;
        let watermark = Watermark { clock_ms, ..self.world.watermark(self.epoch) };
        self.world.writer().seal(&mut batch, watermark).unwrap();
    }

    fn files(&self) -> usize {
        let names = self.world.disk.list(FOLDER).unwrap();
        names.iter().filter(|name| name.ends_with(".run")).count()
    }

    /// The work on the next state, when the merges before it are done.
    fn next_state(&mut self) -> Work {
        loop {
            let mut work = self.world.writer().next_work().unwrap().unwrap();
            if !work.is_merge() {
                return work;
            }
            assert!(!self.world.writer().give_up(&work), "a merge is needed");
            while !work.step(1_000).unwrap() {}
            self.world.writer().finish(work).unwrap();
        }
    }

    /// Works until nothing is left to do. Returns the number of states.
    fn work(&mut self) -> usize {
        self.world.work(1 << 20).unwrap();
        self.world.version().states()
    }

    fn as_of(&self, time_ms: i64, tiles_max: u64) -> Result<Vec<FixRow>, HistoryError> {
        let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
        let budget = QueryBudget::new(tiles_max, 1_000, std::sync::Arc::default());
        let mut states = AsOf::new(self.world.version(), query, Everywhere, budget);
        let mut out = FixColumns::new();
        while states.next(&mut out)? {}
        Ok(rows(&out))
    }

    /// Compares moments of the whole past with the model.
    fn check(&self, name: &str) {
        for at in (0..self.clock_ms - self.first_ms + PARTITION_MS).step_by(777_777) {
            let time_ms = self.first_ms + at;
            let expected = self.model.as_of(time_ms, None, |_| true);
            assert_eq!(self.as_of(time_ms, u64::MAX).unwrap(), expected, "{name} at {at}");
        }
    }
}

#[test]
fn a_moment_reads_few_states_instead_of_many_partitions() {
    let mut past = Past::new(600);
    // An object without later fixes makes a query read all partitions.
    past.seal([FixRow::new(99, past.first_ms + 1, 5, 6)].into_iter(), |_, _| ());
    let last_ms = past.clock_ms - 1;
    assert!(matches!(past.as_of(last_ms, 500), Err(HistoryError::Budget { unit: "tiles", .. })));
    assert_eq!(past.work(), 600 / 8 + 600 / 64 + 1);
    assert_eq!(past.as_of(last_ms, 60).unwrap().len(), OBJECTS as usize + 1);
    assert!(past.as_of(past.first_ms + LONGEST_MS - 1, 20).is_ok());
    past.check("with states");
    past.world.open().unwrap();
    past.check("after a restart");
    // A query with a TTL reads no state that reaches further back.
    let query = AsOfQuery { time_ms: last_ms, ttl_ms: Some(1), objects: None };
    let budget = QueryBudget::new(4, 1_000, std::sync::Arc::default());
    let mut states = AsOf::new(past.world.version(), query, Everywhere, budget);
    assert!(states.next(&mut FixColumns::new()).is_ok());
}

#[test]
fn late_fixes_end_the_states_of_their_ranges_for_a_while() {
    let mut past = Past::new(600);
    let all = past.work();
    let late = FixRow::new(3, past.first_ms + 5 * PARTITION_MS + 7, -5, -6);
    past.seal([late].into_iter(), |_, _| ());
    assert_eq!(past.world.version().states(), all - 3);
    past.check("behind a late fix");
    // Where some fixes are late, more may follow.
    assert_eq!(past.work(), all - 3);
    past.clock_ms += PARTITION_MS;
    past.seal([FixRow::new(3, past.clock_ms - 1, 1, 1)].into_iter(), |_, _| ());
    assert_eq!(past.work(), all);
    past.check("written again");
    // A fix arrives while a state is written.
    past.clock_ms = past.first_ms + 608 * PARTITION_MS;
    past.seal_partitions(601..608);
    let mut work = past.next_state();
    while !work.step(1).unwrap() {}
    let late = FixRow::new(4, past.first_ms + 603 * PARTITION_MS, -5, -6);
    past.seal([late].into_iter(), |_, _| ());
    assert!(!past.world.writer().finish(work).unwrap());
    past.check("behind a fix that came meanwhile");
}

#[test]
fn a_state_of_a_range_that_is_no_longer_kept_as_a_whole_leaves_no_file() {
    let mut past = Past::new(0);
    past.clock_ms = past.first_ms + 16 * PARTITION_MS;
    past.seal_partitions(3..16);
    let mut work = past.next_state();
    while !work.step(1).unwrap() {}
    past.world.writer().retain(Some(past.first_ms + PARTITION_MS), None).unwrap();
    assert!(!past.world.writer().finish(work).unwrap());
    // The other range gets a state.
    assert_eq!(past.work(), 1);
    assert_eq!(past.files(), past.world.version().runs() + 1);
    past.check("kept from within a range");
}

#[test]
fn a_state_whose_runs_cannot_be_read_is_given_up() {
    let mut past = Past::new(16);
    let mut work = past.next_state();
    for name in past.world.disk.list(FOLDER).unwrap() {
        if name.ends_with(".run") {
            past.world.disk.flip(&format!("{FOLDER}/{name}"), 8 * 100);
        }
    }
    assert!(work.step(1).is_err());
    assert!(past.world.writer().give_up(&work));
    // That of the other range fails as well; then nothing is tried again.
    let mut other = past.world.writer().next_work().unwrap().unwrap();
    assert!(other.step(1).is_err() && past.world.writer().give_up(&other));
    let mut whole = past.world.writer().next_work().unwrap();
    if let Some(whole) = &mut whole {
        assert!(whole.step(1).is_err() && past.world.writer().give_up(whole));
    }
    assert!(past.world.writer().next_work().unwrap().is_none());
}

#[test]
fn removals_count_behind_states_and_returns_prevent_them() {
    let mut past = Past::new(64);
    let all = past.work();
    assert_eq!(all, 9);
    let clock_ms = past.clock_ms;
    past.seal([].into_iter(), |batch, model| {
        batch.removal(7);
        batch.end_cycle(clock_ms);
        model.remove(Some(7), clock_ms);
    });
    assert_eq!(past.work(), all);
    past.check("behind a removal");
    assert_eq!(past.as_of(clock_ms, u64::MAX).unwrap().len(), OBJECTS as usize - 1);
    let back = FixRow::new(7, past.first_ms + 20 * PARTITION_MS + 9, -5, -6);
    past.seal([back].into_iter(), |_, _| ());
    past.clock_ms += 2 * PARTITION_MS;
    past.seal([FixRow::new(3, past.clock_ms - 1, 1, 1)].into_iter(), |_, _| ());
    assert_eq!(past.work(), all - 2);
    past.check("behind a return");
    assert_eq!(past.as_of(clock_ms, u64::MAX).unwrap()[7], back);
}

#[test]
fn erasure_and_retention_end_states() {
    let mut past = Past::new(600);
    let all = past.work();
    // Another object than those of the states.
    past.world.writer().begin_erase(&[1_000]).unwrap();
    assert_eq!(past.work(), all);
    past.world.writer().begin_erase(&[5]).unwrap();
    past.model.erase(5);
    past.check("erasing");
    assert!(past.world.writer().next_work().unwrap().is_some());
    assert_eq!(past.world.version().states(), 0, "states have the object");
    assert_eq!(past.work(), all);
    assert!(!past.world.writer().is_erasing());
    assert_eq!(past.files(), past.world.version().runs() + all);
    past.check("erased");

    let from_ms = past.first_ms + 100 * PARTITION_MS;
    past.world.writer().retain(Some(from_ms), None).unwrap();
    past.model.drop_before(from_ms);
    // 13 of the shortest, 2 of the next, 1 of the longest ranges begin before.
    assert_eq!(past.world.version().states(), all - 16);
    assert_eq!(past.work(), all - 16);
    assert_eq!(past.files(), past.world.version().runs() + all - 16);
    past.check("after retention");

    let bytes = past.world.version().bytes();
    past.world.writer().retain(None, Some(bytes / 3)).unwrap();
    let left = past.world.version().bytes();
    assert!(left <= bytes / 3 && left > bytes / 4, "{left} of {bytes}");
}

#[test]
fn states_that_spare_little_are_not_written() {
    let mut world = World::new(1, Shape { objects: 1, batch_rows: 1, partitions: 1 });
    world.coarser_rows_max = 10;
    world.open().unwrap();
    // Each partition has objects of its own.
    let fixes = (0..1_280).map(|at| FixRow::new(at / 20, START_MS + at as i64 * 3_000, 1, 1));
    let mut batch = Batch::default();
    fixes.for_each(|fix| batch.fix(fix));
    let watermark = Watermark { clock_ms: START_MS + LONGEST_MS, ..world.watermark(1) };
    world.writer().seal(&mut batch, watermark).unwrap();
    world.work(1 << 20).unwrap();
    assert_eq!((world.version().runs(), world.version().states()), (64, 0));
}

#[test]
fn random_pasts_with_states() {
    let mut seen = 0;
    for seed in seeds(6) {
        let objects = [5, 60][seed as usize % 2];
        let mut world = World::new(seed, Shape { objects, batch_rows: 1_500, partitions: 80 });
        world.coarser_rows_max = 20;
        world.removal_one_in = 8_000;
        world.open().unwrap();
        for number in 0..30 {
            let step = match world.below(20) {
                0..=11 => Step::Seal,
                12..=15 => Step::Work,
                16 => Step::Restart,
                17..=18 => Step::Erase,
                _ => Step::Retain,
            };
            let name = format!("seed {seed} step {number} {step:?}");
            world.step(step).unwrap_or_else(|error| panic!("{name}: {error}"));
            if step != Step::Seal {
                world.work(1_000).unwrap();
            }
            seen += world.version().states();
            let rows_max = [1, 17, 1_000][world.below(3)].max(world.model.fixes.len() / 5);
            for _ in 0..2 {
                world.compare(&name, rows_max);
            }
        }
    }
    assert!(seen > 100, "{seen} states");
}
