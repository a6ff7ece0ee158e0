//! After updates by several workers, answers equal those of a map.

use std::collections::BTreeMap;

use shoal_engine::QuantaRect;
use shoal_testkit::Random;

use super::{SPACE, bounds, point, window};
use crate::pgrid::{Layout, PGrid, Roles, Sample, Stream, Update, Workers, tune};

/// The newest report of every object.
#[derive(Default)]
struct Naive(BTreeMap<u32, Update>);

impl Naive {
    fn apply(&mut self, update: Update) {
        let present = self.0.entry(update.object).or_insert(update);
        if update.time_ms >= present.time_ms {
            *present = update;
        }
    }

    fn query(&self, window: &QuantaRect) -> Vec<u64> {
        let inside = |update: &&Update| window.contains(update.x, update.y);
        self.0.values().filter(inside).map(|update| update.object.into()).collect()
    }
}

/// Reports of random objects at distinct times, slightly out of order.
fn updates(random: &mut Random, objects: u32, rows: usize, first_ms: u32) -> Vec<Update> {
    let mut updates: Vec<Update> = (0..rows as u32)
        .map(|row| {
            let (x, y) = point(random);
            Update { object: random.below(objects), time_ms: first_ms + row, x, y }
        })
        .collect();
    for at in 1..rows {
        if random.below(3) == 0 {
            updates.swap(at - 1, at);
        }
    }
    updates
}

fn assert_equal(grid: &PGrid, naive: &Naive, random: &mut Random, about: &str) {
    let mut windows: Vec<_> = (0..200).map(|_| window(random)).collect();
    windows.push(bounds());
    windows.push(QuantaRect { x_min: 0, y_min: 0, x_max: 0, y_max: SPACE });
    let stream = Stream { windows: windows.clone(), ..Stream::default() };
    let (_, answers) = grid.run(&stream);
    assert_eq!(answers.iter().count(), windows.len());
    for (answer, window) in answers.iter().zip(&windows) {
        assert_eq!(answer, naive.query(window), "{about}: {window:?}");
    }
    assert_eq!(grid.objects(), naive.0.len() as u64, "{about}");
}

#[test]
fn answers_at_rest_equal_a_map() {
    const LAYOUTS: [(u32, usize); 6] = [(1, 1), (3, 1), (8, 2), (17, 4), (64, 1), (5, 16)];
    for seed in 0..20 {
        for (side, bucket_lines) in LAYOUTS {
            let about = format!("seed {seed}, {side} cells, {bucket_lines} lines");
            let mut random = Random::new(seed);
            let objects = 50 + random.below(400);
            let layout = Layout { side, bucket_lines };
            let divided = Workers::Divided(Roles { updates: 1, queries: 2 });
            let workers = if seed % 2 == 1 { divided } else { Workers::Alike(3) };
            let mut grid = PGrid::new(bounds(), objects, workers, layout);
            let mut naive = Naive::default();
            for round in 0..4 {
                let updates = updates(&mut random, objects, 5_000, round * 5_000);
                updates.iter().for_each(|update| naive.apply(*update));
                let windows = (0..20).map(|_| window(&mut random)).collect();
                grid.run(&Stream { updates, windows });
                assert_equal(&grid, &naive, &mut random, &about);
            }
            grid.settle();
            assert_equal(&grid, &naive, &mut random, &about);
        }
    }
}

#[test]
fn buckets_of_a_dispersed_crowd_are_reused() {
    let layout = Layout { side: 4, bucket_lines: 1 };
    let mut grid = PGrid::new(bounds(), 3_000, Workers::Alike(2), layout);
    let crowd = |x: i32, time_ms: u32| Stream {
        updates: (0..3_000).map(|object| Update { object, time_ms, x, y: 0 }).collect(),
        windows: Vec::new(),
    };
    grid.run(&crowd(0, 1));
    grid.settle();
    grid.run(&crowd(SPACE, 2));
    grid.settle();
    let bytes = grid.memory_bytes();
    for time_ms in 3..40 {
        grid.run(&crowd(if time_ms % 2 == 0 { SPACE } else { 0 }, time_ms));
        grid.settle();
    }
    // Contention for the shared list may leave some buckets unused, hence twice the bytes. Without
    // reuse, 37 crowds would take 19 times the bytes.
    let now = grid.memory_bytes();
    assert!(now <= 2 * bytes, "buckets are lost: {now} bytes after {bytes}");
    assert_eq!(grid.objects(), 3_000);
}

#[test]
fn an_older_report_has_no_effect_at_any_position() {
    let layout = Layout { side: 10, bucket_lines: 1 };
    let grid = PGrid::new(bounds(), 1, Workers::Alike(1), layout);
    let update = |time_ms, x, y| Update { object: 0, time_ms, x, y };
    let updates = vec![update(5, 500, 500), update(4, 501, 501), update(3, 0, 0)];
    grid.run(&Stream { updates, windows: Vec::new() });
    let point = |x, y| QuantaRect { x_min: x, y_min: y, x_max: x, y_max: y };
    let windows = vec![point(500, 500), point(501, 501), point(0, 0)];
    let (_, answers) = grid.run(&Stream { updates: Vec::new(), windows });
    let answers: Vec<_> = answers.iter().map(<[u64]>::len).collect();
    assert_eq!(answers, [1, 0, 0]);
}

#[test]
fn tuning_tries_neighbours_and_lists_the_best_first() {
    let mut random = Random::new(1);
    let first = Stream { updates: updates(&mut random, 2_000, 4_000, 0), ..Stream::default() };
    let windows = (0..100).map(|_| window(&mut random)).collect();
    let next = Stream { updates: updates(&mut random, 2_000, 4_000, 4_000), windows };
    let (first, next) = (&first, &next);
    let trials =
        tune(&Sample { bounds: bounds(), objects: 2_000, workers: Workers::Alike(2), first, next });
    assert!(trials.len() >= 3, "{trials:?}");
    assert!(trials.is_sorted_by(|a, b| a.operations_per_s >= b.operations_per_s));
    for (at, trial) in trials.iter().enumerate() {
        let repeated = trials[..at].iter().any(|other| other.layout == trial.layout);
        assert!(!repeated, "{trials:?}");
        assert!(trial.layout.heads_bytes() <= 64 << 20, "few objects need no large grid");
    }
}
