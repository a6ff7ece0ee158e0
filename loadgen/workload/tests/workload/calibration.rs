//! Hazard: a generator deviates from the figures of its paper.
//!
//! Each test compares a seeded run with published distributions or figures. Bounds are several
//! standard errors wide.

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
fn uniform_remains_uniform_in_position_speed_and_direction() {
    let params = Params { objects: 100_000, seed: SEED, ..Params::default() };
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
            assert!((mean_m - 50_000.0).abs() < 500.0, "round {round}: {mean_m}, seed {SEED}");
            assert!((deviation_m - side_deviation_m).abs() < 300.0, "{deviation_m}, seed {SEED}");
        }
        let (speed_mps, _) = moments(fixes.iter().filter_map(|fix| fix.speed_mps));
        assert!((speed_mps - 500.5).abs() < 5.0, "{speed_mps}, seed {SEED}");
        let (heading_deg, spread_deg) = moments(fixes.iter().filter_map(|fix| fix.heading_deg));
        assert!((heading_deg - 180.0).abs() < 2.0, "{heading_deg}, seed {SEED}");
        assert!((spread_deg - 360.0 / 12.0_f64.sqrt()).abs() < 1.0, "{spread_deg}, seed {SEED}");
    }
}

#[test]
fn uniform_moves_each_object_along_its_heading_at_its_speed() {
    let params = Params { objects: 1_000, seed: SEED, step_ms: 10, ..Params::default() };
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
        let moved_m = from.speed_mps.unwrap() * 0.01;
        assert!((to.x - from.x - moved_m * heading.sin()).abs() < 1e-6, "{from:?} {to:?}");
        assert!((to.y - from.y - moved_m * heading.cos()).abs() < 1e-6, "{from:?} {to:?}");
    }
    assert!(straight > 990, "{straight} of 1,000 met no border, seed {SEED}");
    assert!(fixes.iter().all(|fix| fix.time_ms >= START_MS));
}

/// Mean interval in steps and mean speed in metres a step of all reports within `STEPS`, but each
/// object's first (its interval is cut), over several places of the hot-spots.
///
/// The published figures are from runs that start from the hot-spot distribution; all four agree
/// best at 510 steps. They are not a steady state, because steps that the reach limits drift
/// inwards. At H = 10 this continues for thousands of steps (interval 113, speed 10 in the end).
fn gauss_figures(hotspots: u32) -> (f64, f64) {
    const OBJECTS: usize = 2_000;
    const SEEDS: u64 = 40;
    const STEPS: i64 = 510;
    let (mut intervals, mut speeds, mut updates) = (0.0, 0.0, 0.0);
    for seed in SEED..SEED + SEEDS {
        let params = Params { objects: OBJECTS as u64, seed, hotspots, ..Params::default() };
        let mut workload = open("gauss", &params).expect("the parameters are legal");
        let mut last: Vec<Option<Fix>> = vec![None; OBJECTS];
        let mut fixes: Vec<Fix> = Vec::new();
        let end_ms = START_MS + STEPS * params.step_ms;
        while fixes.last().is_none_or(|fix| fix.time_ms < end_ms + 121 * params.step_ms) {
            fixes.clear();
            workload.fill(1_000, &mut fixes);
            for fix in &fixes {
                let before = last[fix.object as usize].replace(*fix);
                let Some(before) = before else { continue };
                let steps = (fix.time_ms - before.time_ms) as f64 / params.step_ms as f64;
                assert!(steps <= 120.0, "{steps} steps of silence, seed {seed}");
                assert_leads_to(&before, fix);
                if (START_MS + params.step_ms..end_ms).contains(&before.time_ms) {
                    intervals += steps;
                    speeds += before.speed_mps.expect("gauss knows speeds");
                    updates += 1.0;
                }
            }
        }
    }
    (intervals / updates, speeds / updates)
}

/// Confirms that a report's velocity leads to the next report.
fn assert_leads_to(before: &Fix, after: &Fix) {
    let moved_m = before.speed_mps.unwrap_or(0.0) * (after.time_ms - before.time_ms) as f64 / 1e3;
    let heading = before.heading_deg.unwrap_or(0.0).to_radians();
    let x = before.x + moved_m * heading.sin();
    let y = before.y + moved_m * heading.cos();
    assert!((x - after.x).abs() < 1e-3 && (y - after.y).abs() < 1e-3, "{before:?} {after:?}");
}

#[test]
fn gauss_has_the_published_intervals_and_speeds() {
    for (hotspots, interval_steps, speed_m_per_step) in
        [(1, 52.6, 44.0), (10, 52.9, 44.1), (100, 69.8, 32.8), (1_000, 64.4, 25.0)]
    {
        let (interval, speed) = gauss_figures(hotspots);
        println!("H = {hotspots}: every {interval:.1} steps at {speed:.1} m a step, seed {SEED}");
        assert!((interval / interval_steps - 1.0).abs() < 0.04, "H = {hotspots}: {interval}");
        assert!((speed / speed_m_per_step - 1.0).abs() < 0.04, "H = {hotspots}: {speed}");
    }
}

#[test]
fn hub_has_the_published_update_rate() {
    // 100,000 objects, UI = 60 min and 600 min make about 1 M updates; a tenth of them here.
    let params = Params { objects: 10_000, seed: SEED, ..Params::default() };
    let mut workload = open("hub", &params).expect("the parameters are legal");
    let end_ms = START_MS + 600 * 60_000;
    let mut fixes: Vec<Fix> = Vec::new();
    while fixes.last().is_none_or(|fix| fix.time_ms < end_ms) {
        workload.fill(10_000, &mut fixes);
    }
    // The first report of each object is its insertion.
    let updates = fixes[10_000..].iter().filter(|fix| fix.time_ms < end_ms).count();
    println!("hub: {updates} updates of 10,000 objects in 600 minutes, seed {SEED}");
    assert!(updates.abs_diff(100_000) < 6_000, "{updates} updates, seed {SEED}");

    let mut groups = [0_u32; 3];
    let mut fastest_m_s = vec![0.0_f64; 10_000];
    for fix in &fixes {
        let speed_mps = fix.speed_mps.expect("hub knows speeds");
        let fastest = &mut fastest_m_s[fix.object as usize];
        *fastest = fastest.max(speed_mps);
    }
    for speed_mps in fastest_m_s {
        assert!(speed_mps <= 50.0, "{speed_mps}");
        groups[usize::from(speed_mps > 12.5) + usize::from(speed_mps > 25.0)] += 1;
    }
    // Reports fall on ramps, so a few vehicles were never seen above the speed of the group below.
    assert!(groups.iter().all(|count| count.abs_diff(3_333) < 600), "{groups:?}, seed {SEED}");
}

#[test]
fn network_objects_report_at_each_crossing_and_keep_their_speed() {
    let params = Params { objects: 500, seed: SEED, ..Params::default() };
    let mut workload = open("network", &params).expect("the parameters are legal");
    let mut last: Vec<Option<Fix>> = vec![None; 500];
    let mut fixes = Vec::new();
    workload.fill(20_000, &mut fixes);
    let mut classes = [0_u32; 10];
    for fix in &fixes {
        let before = last[fix.object as usize].replace(*fix);
        let Some(before) = before else { continue };
        assert_leads_to(&before, fix);
        if before.time_ms < START_MS + params.step_ms {
            continue;
        }
        // V (k + 1) / S, but for the rounding of times to milliseconds.
        let class = fix.speed_mps.expect("network knows speeds") / 10.0;
        assert!((class - class.round()).abs() < 0.02 && class > 0.9 && class < 10.1, "{fix:?}");
        classes[class.round() as usize - 1] += 1;
        let held = before.speed_mps.expect("network knows speeds") / 10.0;
        assert!((class - held).abs() < 0.04, "{before:?} {fix:?}, seed {SEED}");
    }
    assert!(classes.is_sorted(), "the faster, the more crossings: {classes:?}, seed {SEED}");
}
