//! Hazard: regions depend on the run, the time steps or the number of shards.

use std::collections::{BTreeMap, BTreeSet};

use shoal_workload::{Fix, Params, RegionParams, RegionStep, Regions, START_MS, open};

const SEED: u64 = 20_261_121;
const REGIONS: u64 = 300;

fn params() -> Params {
    Params { objects: REGIONS, seed: SEED, ..Params::default() }
}

fn region_params() -> RegionParams {
    RegionParams { regions: REGIONS, radius_m: 500.0, churn: 0.0, follows: false }
}

fn opened(name: &str, regions: RegionParams) -> Regions {
    Regions::new(name, &params(), regions).unwrap()
}

/// Applies changes to the circles by number; panics on a repeated addition or an unknown number.
fn apply(circles: &mut BTreeMap<u64, (f64, f64)>, changes: impl IntoIterator<Item = RegionStep>) {
    for change in changes {
        match change {
            RegionStep::Add { region, x, y } => {
                assert!(circles.insert(region, (x, y)).is_none(), "{region} was there");
            }
            RegionStep::Move { region, x, y } => *circles.get_mut(&region).unwrap() = (x, y),
            RegionStep::Remove { region } => {
                circles.remove(&region).unwrap();
            }
        }
    }
}

#[test]
fn centres_are_the_centres_of_windows() {
    for name in ["uniform", "gauss", "network", "hub"] {
        let regions = opened(name, region_params());
        let mut workload = open(name, &params()).unwrap();
        for (number, change) in (0..).zip(regions.live()) {
            let window = workload.window();
            let (x, y) = ((window.west + window.east) / 2.0, (window.south + window.north) / 2.0);
            assert_eq!(change, RegionStep::Add { region: number, x, y }, "{name}");
        }
        assert_eq!(regions.live().len(), 300, "{name}");
        assert!((regions.radius_m() - 500.0).abs() < 1e-12);
    }
}

#[test]
fn without_churn_and_motion_nothing_changes() {
    let mut regions = opened("uniform", region_params());
    let mut changes = Vec::new();
    regions.advance(1e9, &mut changes);
    assert_eq!(changes, []);
}

#[test]
fn churn_replaces_its_share_per_second_and_never_reuses_numbers() {
    let mut regions = opened("gauss", RegionParams { churn: 0.1, ..region_params() });
    let mut circles = BTreeMap::new();
    apply(&mut circles, regions.live());
    let mut seen: BTreeSet<u64> = circles.keys().copied().collect();
    for second in 1..=20 {
        let mut changes = Vec::new();
        regions.advance(f64::from(second) * 1_000.0, &mut changes);
        assert_eq!(changes.len(), 60, "30 of 300 are replaced, seed {SEED}");
        for change in &changes {
            if let RegionStep::Add { region, .. } = change {
                assert!(seen.insert(*region), "{region} is used twice");
            }
        }
        apply(&mut circles, changes);
        assert_eq!(circles.len(), 300);
    }
    let mut live = BTreeMap::new();
    apply(&mut live, regions.live());
    assert_eq!(circles, live);
}

#[test]
fn regions_follow_the_objects_of_the_same_seed() {
    let follows = RegionParams { follows: true, ..region_params() };
    for name in ["uniform", "gauss", "network", "hub"] {
        let mut regions = opened(name, follows);
        let mut circles = BTreeMap::new();
        apply(&mut circles, regions.live());
        let mut workload = open(name, &params()).unwrap();
        let mut fixes = Vec::new();
        while fixes.last().is_none_or(|fix: &Fix| fix.time_ms < START_MS + 31_000) {
            workload.fill(100, &mut fixes);
        }
        for second in 0..30 {
            let mut changes = Vec::new();
            regions.advance(f64::from(second) * 1_000.0, &mut changes);
            apply(&mut circles, changes);
            let end_ms = START_MS + i64::from(second) * 1_000;
            // The first rows report every object once; regions start at these positions.
            let reported =
                (0_u64..).zip(&fixes).filter(|(row, fix)| *row < REGIONS || fix.time_ms <= end_ms);
            let last: BTreeMap<u64, (f64, f64)> =
                reported.map(|(_, fix)| (fix.object, (fix.x, fix.y))).collect();
            assert_eq!(circles, last, "{name} in second {second}, seed {SEED}");
        }
    }
}

#[test]
fn time_steps_do_not_change_regions() {
    let all = RegionParams { churn: 0.3, follows: true, ..region_params() };
    let mut whole = Vec::new();
    opened("uniform", all).advance(5_000.0, &mut whole);
    let mut parts = Vec::new();
    let mut regions = opened("uniform", all);
    for step in 0..=500 {
        regions.advance(f64::from(step) * 10.0, &mut parts);
    }
    assert_eq!(whole, parts, "seed {SEED}");
    assert!(whole.iter().any(|change| matches!(change, RegionStep::Move { .. })));
    let other = Params { seed: SEED + 1, ..params() };
    let mut others = Vec::new();
    Regions::new("uniform", &other, all).unwrap().advance(5_000.0, &mut others);
    assert_ne!(whole, others);
}

#[test]
fn shards_divide_the_regions() {
    let churning = RegionParams { regions: 100, churn: 1.0, ..region_params() };
    let mut seen = BTreeSet::new();
    let mut live = 0;
    for shard in 0..7 {
        let params = Params { shard, shards: 7, ..params() };
        let mut regions = Regions::new("uniform", &params, churning).unwrap();
        let mut changes: Vec<RegionStep> = regions.live().collect();
        live += changes.len();
        regions.advance(3_000.0, &mut changes);
        for change in changes {
            if let RegionStep::Add { region, .. } = change {
                assert_eq!(region % 7, u64::from(shard));
                assert!(seen.insert(region), "{region} twice");
            }
        }
    }
    assert_eq!(live, 100);
}

#[test]
fn regions_without_a_leader_do_not_move() {
    let sample = concat!(env!("CARGO_MANIFEST_DIR"), "/../../sample/bus_austin.csv.gz");
    let follows = RegionParams { regions: 5_000, follows: true, ..region_params() };
    let mut regions = opened(&format!("replay:{sample}"), follows);
    let mut changes = Vec::new();
    regions.advance(86_400_000.0, &mut changes);
    let moved: BTreeSet<u64> = changes
        .iter()
        .map(|change| match change {
            RegionStep::Move { region, .. } => *region,
            other => panic!("{other:?}"),
        })
        .collect();
    assert!(!moved.is_empty() && moved.len() < 5_000, "{} buses", moved.len());
}

#[test]
fn parameters_out_of_range_are_named() {
    for (regions, name) in [
        (RegionParams { regions: u64::MAX, ..region_params() }, "regions"),
        (RegionParams { radius_m: 0.0, ..region_params() }, "radius_m"),
        (RegionParams { radius_m: f64::NAN, ..region_params() }, "radius_m"),
        (RegionParams { churn: -0.1, ..region_params() }, "churn"),
    ] {
        let refusal = Regions::new("uniform", &params(), regions).err().unwrap().to_string();
        assert!(refusal.starts_with(&format!("parameter {name} is ")), "{refusal}");
    }
    let none = opened("uniform", RegionParams { regions: 0, churn: 1.0, ..region_params() });
    assert_eq!(none.live().len(), 0);
}
