//! Hazard: a generator that bears a paper's name but not its numbers.
//!
//! Each test compares a seeded run with the distributions or figures that workloads.md states.
//! Bounds are several standard errors wide, so they fail on a wrong model, not on luck.

use shoal_workload::{Fix, Params, START_MS, open};

const SEED: u64 = 4_242;

/// Mean and standard deviation.
fn moments(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (mut count, mut sum, mut squares) = (0.0, 0.0, 0.0);
    for value in values {
        count += 1.0;
        sum += value;
        squares += value * value;
    }
    let mean = sum / count;
    (mean, (squares / count - mean * mean).sqrt())
}

#[test]
fn uniform_stays_uniform_in_place_speed_and_direction() {
    let params = Params {
        objects: 100_000,
        seed: SEED,
        ..Params::default()
    };
    let mut workload = open("uniform", &params).unwrap();
    let mut fixes = Vec::new();
    for round in 0..300 {
        fixes.clear();
        workload.fill(100_000, &mut fixes);
        if round % 100 != 0 {
            continue;
        }
        let side_deviation_m = 100_000.0 / 12.0_f64.sqrt();
        for coordinate in [|fix: &Fix| fix.x, |fix: &Fix| fix.y] {
            let (mean_m, deviation_m) = moments(fixes.iter().map(coordinate));
            assert!(
                (mean_m - 50_000.0).abs() < 500.0,
                "round {round}: {mean_m}, seed {SEED}"
            );
            assert!(
                (deviation_m - side_deviation_m).abs() < 300.0,
                "{deviation_m}, seed {SEED}"
            );
        }
        let (speed_m_s, _) = moments(fixes.iter().filter_map(|fix| fix.speed_m_s));
        assert!((speed_m_s - 500.5).abs() < 5.0, "{speed_m_s}, seed {SEED}");
        let (heading_deg, spread_deg) = moments(fixes.iter().filter_map(|fix| fix.heading_deg));
        assert!(
            (heading_deg - 180.0).abs() < 2.0,
            "{heading_deg}, seed {SEED}"
        );
        assert!(
            (spread_deg - 360.0 / 12.0_f64.sqrt()).abs() < 1.0,
            "{spread_deg}, seed {SEED}"
        );
    }
}

#[test]
fn uniform_moves_each_object_along_its_heading_at_its_speed() {
    let params = Params {
        objects: 1_000,
        seed: SEED,
        step_ms: 10,
        ..Params::default()
    };
    let mut workload = open("uniform", &params).unwrap();
    let mut fixes = Vec::new();
    workload.fill(2_000, &mut fixes);
    let (before, after) = fixes.split_at(1_000);
    let mut straight = 0;
    for (from, to) in before.iter().zip(after) {
        assert_eq!(from.object, to.object);
        assert_eq!(to.time_ms - from.time_ms, 10);
        if from.heading_deg != to.heading_deg {
            continue;
        }
        straight += 1;
        let heading = from.heading_deg.unwrap().to_radians();
        let way_m = from.speed_m_s.unwrap() * 0.01;
        assert!(
            (to.x - from.x - way_m * heading.sin()).abs() < 1e-6,
            "{from:?} {to:?}"
        );
        assert!(
            (to.y - from.y - way_m * heading.cos()).abs() < 1e-6,
            "{from:?} {to:?}"
        );
    }
    assert!(
        straight > 990,
        "{straight} of 1,000 met no border, seed {SEED}"
    );
    assert!(fixes.iter().all(|fix| fix.time_ms >= START_MS));
}
