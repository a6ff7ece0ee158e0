//! A query concurrent with updates reports every object that is inside during the whole query, none
//! that is outside during the whole query, and each once.
//!
//! Threads record the start and end of each update and query on one counter. Afterwards every
//! answer is compared with the states that its query could observe. The space is small, so that
//! workers collide; a failing seed can be repeated, but not its schedule.

use std::sync::atomic::AtomicU64;
use std::sync::atomic::Ordering::SeqCst;
use std::thread;

use shoal_engine::QuantaRect;
use shoal_testkit::Random;

use super::{bounds, point, window};
use crate::pgrid::worker::Worker;
use crate::pgrid::{Layout, PGrid, Stream, Update, Workers};

const THREADS: usize = 4;
const OBJECTS: u32 = 240;
const STEPS: u32 = 4_000;

/// An update or a query between two ticks of the counter.
struct Event<T> {
    begin: u64,
    end: u64,
    what: T,
}

type Moved = Event<Update>;
type Queried = Event<(QuantaRect, Vec<u64>)>;

fn timed<T>(counter: &AtomicU64, act: impl FnOnce() -> T) -> Event<T> {
    let begin = counter.fetch_add(1, SeqCst);
    let what = act();
    Event { begin, end: counter.fetch_add(1, SeqCst), what }
}

/// One thread: moves its objects and runs queries between updates.
fn wander(
    grid: &PGrid,
    number: usize,
    seed: u64,
    counter: &AtomicU64,
) -> (Vec<Moved>, Vec<Queried>) {
    let mut random = Random::new(seed.wrapping_mul(31).wrapping_add(number as u64));
    let mut worker = Worker::new(grid, number);
    let (mut moved, mut queried) = (Vec::new(), Vec::new());
    for step in 1..=STEPS {
        let own = random.below(OBJECTS / THREADS as u32);
        let object = own * THREADS as u32 + number as u32;
        let (x, y) = point(&mut random);
        let update = Update { object, time_ms: step, x, y };
        moved.push(timed(counter, || {
            worker.apply(&[update]);
            update
        }));
        if random.below(3) == 0 {
            let window = window(&mut random);
            queried.push(timed(counter, || {
                let mut found = Vec::new();
                worker.query(&window, &mut found);
                (window, found)
            }));
        }
        if random.below(8) == 0 {
            worker.pass();
        }
    }
    (moved, queried)
}

/// Checks an answer for one object against that object's moves in order.
fn check(queried: &Queried, object: u32, moves: &[&Moved], seed: u64) {
    let (window, found) = &queried.what;
    // The last move that ended before the query, and all that overlap it.
    let before = moves.partition_point(|moved| moved.end < queried.begin);
    let until = moves.partition_point(|moved| moved.begin < queried.end);
    let seen = &moves[before.saturating_sub(1)..until];
    let is_found = found.binary_search(&object.into()).is_ok();
    let is_inside = |moved: &&Moved| window.contains(moved.what.x, moved.what.y);
    if before > 0 && seen.iter().all(is_inside) {
        assert!(is_found, "seed {seed}: object {object} was inside all the while, {window:?}");
    }
    if !seen.iter().any(is_inside) {
        assert!(!is_found, "seed {seed}: object {object} was outside all the while, {window:?}");
    }
}

fn run(seed: u64, layout: Layout) -> (usize, usize) {
    let mut grid = PGrid::new(bounds(), OBJECTS, Workers::Alike(THREADS), layout);
    let counter = AtomicU64::new(0);
    let logs: Vec<_> = thread::scope(|scope| {
        let (grid, counter) = (&grid, &counter);
        let start = |number| scope.spawn(move || wander(grid, number, seed, counter));
        let threads: Vec<_> = (0..THREADS).map(start).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let mut moves: Vec<Vec<&Moved>> = vec![Vec::new(); OBJECTS as usize];
    for moved in logs.iter().flat_map(|(moved, _)| moved) {
        moves[moved.what.object as usize].push(moved);
    }
    let (mut overlaps, mut found) = (0, 0);
    for queried in logs.iter().flat_map(|(_, queried)| queried) {
        assert!(queried.what.1.is_sorted_by(|a, b| a < b), "seed {seed}: twice or out of order");
        overlaps += usize::from(queried.end > queried.begin + 1);
        found += queried.what.1.len();
        for (object, moves) in moves.iter().enumerate() {
            check(queried, object as u32, moves, seed);
        }
    }
    grid.settle();
    let (_, answers) = grid.run(&Stream { windows: vec![bounds()], ..Stream::default() });
    let everyone = moves.iter().filter(|moves| !moves.is_empty()).count();
    assert_eq!(answers.iter().next().map(<[u64]>::len), Some(everyone), "seed {seed}");
    (overlaps, found)
}

#[test]
fn queries_report_objects_inside_during_the_whole_query() {
    let layouts = [(2, 1), (4, 1), (4, 2), (10, 1), (30, 4)];
    let (mut overlaps, mut found) = (0, 0);
    for seed in 0..6 {
        for (side, bucket_lines) in layouts {
            let (more_overlaps, more_found) = run(seed, Layout { side, bucket_lines });
            overlaps += more_overlaps;
            found += more_found;
        }
    }
    assert!(overlaps > 100, "only {overlaps} queries ran beside others");
    assert!(found > 100_000, "only {found} objects were found");
}

#[test]
fn the_newest_report_wins_across_workers() {
    let layout = Layout { side: 3, bucket_lines: 1 };
    for seed in 0..20 {
        let grid = PGrid::new(bounds(), 8, Workers::Alike(THREADS), layout);
        let last: Vec<Vec<Update>> = thread::scope(|scope| {
            let bring = |number: usize| {
                let mut random = Random::new(seed * 100 + number as u64);
                let mut worker = Worker::new(&grid, number);
                let mut last = Vec::new();
                for step in 0..3_000_u32 {
                    let (x, y) = point(&mut random);
                    let time_ms = step * THREADS as u32 + number as u32;
                    let update = Update { object: random.below(8), time_ms, x, y };
                    worker.apply(&[update]);
                    last.push(update);
                    if step % 16 == 0 {
                        worker.pass();
                    }
                }
                last
            };
            let threads: Vec<_> =
                (0..THREADS).map(|number| scope.spawn(move || bring(number))).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        for object in 0..8 {
            let own = last.iter().flatten().filter(|update| update.object == object);
            let newest = own.max_by_key(|update| update.time_ms).unwrap();
            let (x, y) = (newest.x, newest.y);
            let windows = vec![QuantaRect { x_min: x, y_min: y, x_max: x, y_max: y }];
            let (_, answers) = grid.run(&Stream { windows, ..Stream::default() });
            let answer = answers.iter().next().unwrap();
            assert!(answer.contains(&object.into()), "seed {seed}: {newest:?}");
        }
        let (_, answers) = grid.run(&Stream { windows: vec![bounds()], ..Stream::default() });
        assert_eq!(answers.iter().next().unwrap(), (0..8).collect::<Vec<u64>>(), "seed {seed}");
    }
}
