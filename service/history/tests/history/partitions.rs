//! The number of partitions stays bounded, and retention drops old partitions.

use shoal_codec::{FixColumns, FixRow};
use shoal_history::{AsOf, AsOfQuery, Batch, Everywhere, QueryBudget, Sealed, Watermark};
use shoal_testkit::NaivePast;

use crate::world::{EVERYWHERE, PARTITION_MS, START_MS, Shape, World, rows, scan};

fn world(seed: u64) -> World {
    let mut world = World::new(seed, Shape { objects: 3, batch_rows: 1, partitions: 1 });
    world.open().unwrap();
    world
}

/// Seals one fix of object 1 for each of the times.
fn seal(world: &mut World, times_ms: impl Iterator<Item = i64>, clock_ms: i64) -> Sealed {
    let mut batch = Batch::default();
    times_ms.for_each(|time_ms| batch.fix(FixRow::new(1, time_ms, 5, 6)));
    let watermark = Watermark { clock_ms, ..world.watermark(1) };
    world.writer().seal(&mut batch, watermark).unwrap()
}

fn times(world: &World) -> Vec<i64> {
    let window = (i64::MIN / 4, i64::MAX / 4);
    let mut times: Vec<i64> =
        scan(world.version(), window, EVERYWHERE).iter().map(|row| row.time_ms).collect();
    times.sort_unstable();
    times
}

#[test]
fn old_and_sparse_fixes_get_longer_partitions() {
    let mut world = world(1);
    // More shortest partitions than runs that a history may have.
    const FIXES: i64 = 70_000;
    let time_ms = |index: i64| START_MS + index * PARTITION_MS + 7;
    let clock_ms = time_ms(FIXES);
    for first in 0..2 {
        let sealed = seal(&mut world, (first..FIXES).step_by(2).map(time_ms), clock_ms);
        assert_eq!((sealed.rows, sealed.dropped), (FIXES as u64 / 2, 0));
        assert!(sealed.runs <= FIXES as u64 / 512 + 30, "{sealed:?}");
    }
    assert_eq!(world.version().kept_from_ms(), None);
    assert!(times(&world).into_iter().eq((0..FIXES).map(time_ms)));
    world.work(1_000).unwrap();
    assert!(times(&world).into_iter().eq((0..FIXES).map(time_ms)));
    assert!(world.version().bytes() < 4 << 20, "{} bytes", world.version().bytes());
}

#[test]
fn dense_fixes_of_the_past_keep_short_partitions() {
    // Fixes in a partition of the shortest length, and the runs of five such partitions.
    for (density, runs) in [(60_000, 1..=2), (120_000, 5..=5)] {
        let mut world = world(2);
        let mut batch = Batch::default();
        for fix in 0..5 * density {
            let time_ms = START_MS + fix * PARTITION_MS / density;
            batch.fix(FixRow::new(fix as u64 % 3, time_ms, 5, 6));
        }
        let watermark = Watermark { clock_ms: START_MS + (1 << 40), ..world.watermark(1) };
        let sealed = world.writer().seal(&mut batch, watermark).unwrap();
        assert!(runs.contains(&sealed.runs), "{density}: {sealed:?}");
    }
}

#[test]
fn a_sparse_end_of_dense_fixes_does_not_reach_back() {
    for (density, parts) in [(70_000, 8), (3_000, 64), (300, 300)] {
        let mut world = world(6);
        let mut batch = Batch::default();
        for fix in 0..parts * density {
            batch.fix(FixRow::new(fix as u64 % 3, fix * PARTITION_MS / density, 5, 6));
        }
        batch.fix(FixRow::new(1, parts * PARTITION_MS + 1, 5, 6));
        let watermark = Watermark { clock_ms: START_MS, ..world.watermark(1) };
        world.writer().seal(&mut batch, watermark).unwrap();
        assert_eq!(times(&world).len() as i64, parts * density + 1);
        world.open().unwrap();
        world.work(100).unwrap();
        assert_eq!(times(&world).len() as i64, parts * density + 1);
        world.open().unwrap();
    }
}

/// A fix far ahead takes the removals after it into its partition, which stays.
#[test]
fn removals_behind_a_fix_far_ahead_do_not_grow_without_a_bound() {
    const OBJECTS: u64 = 50;
    let (mut world, mut model) = (world(8), NaivePast::new());
    let mut clock_ms = START_MS;
    let mut most = 0;
    for round in 0..30 {
        let mut batch = Batch::default();
        let fix = |batch: &mut Batch, model: &mut NaivePast, row: FixRow| {
            batch.fix(row);
            model.fix(row);
        };
        if round == 0 {
            fix(&mut batch, &mut model, FixRow::new(99, START_MS + (1 << 36), 1, 1));
        }
        for _ in 0..40 {
            clock_ms += PARTITION_MS / 10;
            for object in 0..OBJECTS {
                fix(&mut batch, &mut model, FixRow::new(object, clock_ms, 5, 6));
            }
            for object in 0..OBJECTS {
                batch.removal(object);
                model.remove(Some(object), clock_ms);
            }
            batch.end_cycle(clock_ms);
        }
        fix(&mut batch, &mut model, FixRow::new(7, clock_ms + 1, 5, 6));
        let watermark = Watermark { clock_ms, ..world.watermark(1) };
        world.writer().seal(&mut batch, watermark).unwrap();
        let floor_ms = clock_ms - 5 * PARTITION_MS;
        world.writer().retain(Some(floor_ms), None).unwrap();
        model.drop_before(world.version().kept_from_ms().unwrap());
        world.work(100).unwrap();
        most = most.max(world.version().removals());
        for time_ms in (floor_ms..clock_ms + 2_000).step_by(7_777) {
            let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
            let budget = QueryBudget::unlimited();
            let mut states = AsOf::new(world.version(), query, Everywhere, budget);
            let mut out = FixColumns::new();
            while states.next(&mut out).unwrap() {}
            assert_eq!(rows(&out), model.as_of(time_ms, None, |_| true), "{round} at {time_ms}");
        }
    }
    // Of 60,000 removals, those of the last minutes, one for each object, and those that are not
    // merged yet remain.
    assert!(most < 15_000, "{most} removals");
}

/// Retention may drop the empty head of a range while its partitions are joined.
#[test]
fn a_join_of_a_range_that_is_no_longer_kept_as_a_whole_is_dropped() {
    let mut world = world(3);
    let start_ms = START_MS.div_euclid(8 * PARTITION_MS) * 8 * PARTITION_MS;
    let clock_ms = start_ms + 9 * PARTITION_MS;
    for at in [5, 6, 8] {
        let at_ms = start_ms + at * PARTITION_MS;
        seal(&mut world, [at_ms, at_ms + 9].into_iter(), at_ms + 9);
    }
    seal(&mut world, [clock_ms].into_iter(), clock_ms);
    let before = times(&world);
    let mut work = world.writer().next_work().unwrap().unwrap();
    assert!(work.is_merge());
    while !work.step(100).unwrap() {}
    world.writer().retain(Some(start_ms + PARTITION_MS), None).unwrap();
    assert_eq!(world.version().kept_from_ms(), Some(start_ms + PARTITION_MS));
    assert!(!world.writer().finish(work).unwrap());
    assert_eq!(times(&world), before);
    world.work(100).unwrap();
    world.open().unwrap();
    assert_eq!(times(&world), before);
}

#[test]
fn retention_by_bytes_keeps_the_newest_partition() {
    let mut world = world(4);
    let time_ms = |index: i64| START_MS + index * PARTITION_MS / 4;
    for index in 0..20 {
        seal(&mut world, [time_ms(index)].into_iter(), time_ms(index));
        world.writer().retain(None, Some(1)).unwrap();
        let kept_from_ms = world.version().kept_from_ms().unwrap_or(i64::MIN);
        assert!(kept_from_ms <= time_ms(index), "{kept_from_ms}");
        assert_eq!(times(&world).last(), Some(&time_ms(index)));
    }
    assert!(times(&world).len() <= 4);
}

#[test]
fn neither_a_clock_nor_a_fix_far_ahead_ends_the_past() {
    const DAY_MS: i64 = 86_400_000;
    let mut world = world(5);
    let retain = |world: &mut World| {
        let from_ms = world.writer().reached_ms().map(|reached_ms| reached_ms - 3 * PARTITION_MS);
        world.writer().retain(from_ms, None).unwrap();
    };
    let time_ms = |index: i64| START_MS + index * 1_000;
    seal(&mut world, (0..100).map(time_ms), time_ms(100));
    retain(&mut world);
    // First the clock is far ahead, then one fix among others.
    seal(&mut world, (100..110).map(time_ms), time_ms(110) + 3 * DAY_MS);
    retain(&mut world);
    seal(&mut world, (110..120).map(time_ms).chain([time_ms(120) + DAY_MS]), time_ms(120));
    retain(&mut world);
    assert_eq!(times(&world).len(), 121);
    assert_eq!(world.writer().reached_ms(), Some(time_ms(119) + PARTITION_MS));
    world.open().unwrap();
    assert_eq!(world.writer().reached_ms(), Some(time_ms(119) + PARTITION_MS));
    // Once later fixes arrive, retention drops the old partitions.
    let sealed = seal(&mut world, (200..900).map(time_ms), time_ms(900));
    assert_eq!(sealed.dropped, 0);
    retain(&mut world);
    let kept_from_ms = world.version().kept_from_ms().unwrap();
    assert!(kept_from_ms > time_ms(600) && kept_from_ms <= time_ms(720), "{kept_from_ms}");
    let late = seal(&mut world, [time_ms(3), time_ms(901)].into_iter(), time_ms(901));
    assert_eq!((late.rows, late.dropped), (1, 1));
}
