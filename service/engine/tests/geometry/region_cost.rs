//! What a query for a large region costs with a million objects: printed, not asserted.
//!
//! Run with `RAYON_NUM_THREADS=1 cargo test --release -p shoal-engine --test geometry region_cost
//! -- --ignored --nocapture`. What is asserted are the answers, against a test of every position.

#![cfg(feature = "cpu")]

use std::f64::consts::TAU;
use std::time::Instant;

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    Backend, CycleInput, EngineOptions, Projection, Query, QueryKind, Region, Request, Space,
};

const OBJECTS: u64 = 1_000_000;
const TIME_MS: i64 = 1_704_067_200_000;
/// Runs of each query; the fastest is printed.
const RUNS: usize = 5;

/// Positions all over the earth, evenly in longitude and latitude.
fn position(object: u64, cycle: u64) -> (i32, i32) {
    let mut word = object.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ cycle << 56;
    word = (word ^ word >> 31).wrapping_mul(0xD6E8_FEB8_6659_FD93);
    word ^= word >> 32;
    let part = |bits: u64, whole: u64| ((bits * whole) >> 32) as i64 - whole as i64 / 2;
    (part(word & 0xFFFF_FFFF, 3_600_000_000) as i32, part(word >> 32, 1_800_000_000) as i32)
}

fn star(space: &Space, vertices: usize) -> Region {
    let ring = (0..vertices).map(|at| {
        let (angle, reach) = (TAU * at as f64 / vertices as f64, [0.9, 0.4][at % 2]);
        (180.0 * reach * angle.cos(), 90.0 * reach * angle.sin())
    });
    Region::polygon(space, &[ring.collect()]).unwrap()
}

#[test]
#[ignore = "measures; takes seconds"]
fn large_regions_over_a_million_objects() {
    let space = Space::geographic();
    let mut engine = CpuBackend::new(EngineOptions::new(space));
    for cycle in 0..4 {
        let mut columns = FixColumns::with_capacity(OBJECTS as usize);
        for object in 0..OBJECTS {
            let (x, y) = position(object, cycle);
            columns.push_row(FixRow::new(object, TIME_MS + cycle as i64, x, y));
        }
        let requests = vec![Request::Fixes(columns)].into();
        let begun = Instant::now();
        let input = CycleInput { time_max_ms: i64::MAX, requests, ..CycleInput::default() };
        engine.run(input).unwrap();
        println!("cycle {cycle}: {:.1} ms for {OBJECTS} fixes", ms(begun));
    }
    let regions = [
        ("world rectangle", Region::rectangle(&space, -180.0, -90.0, 180.0, 90.0).unwrap()),
        ("half of it", Region::rectangle(&space, -120.0, -60.0, 60.0, 40.0).unwrap()),
        ("9,000 km circle", Region::circle(&space, 10.0, 20.0, 9_000_000.0).unwrap()),
        ("star of 4,096 vertices", star(&space, 4096)),
        ("star of 64 vertices", star(&space, 64)),
        ("star of 8 vertices", star(&space, 8)),
    ];
    for (name, region) in regions {
        let positions = (0..OBJECTS).map(|object| position(object, 3));
        let begun = Instant::now();
        let expected = positions.filter(|(x, y)| region.contains(*x, *y)).count() as u64;
        let each = ms(begun);
        let mut taken = Vec::new();
        for projection in [Projection::Count, Projection::Ids] {
            let fastest = (0..RUNS).map(|_| {
                let kind = QueryKind::Range(region.clone());
                let query = Query { kind, filter: None, projection, limit: None };
                let input = CycleInput { queries: vec![query], ..CycleInput::default() };
                let begun = Instant::now();
                let output = engine.run(input).unwrap();
                let taken = ms(begun);
                assert_eq!(output.answers.get(0).total, expected, "{name}");
                taken
            });
            taken.push(fastest.fold(f64::INFINITY, f64::min));
        }
        println!(
            "{name}: {expected} objects, COUNT {:.3} ms, ids {:.3} ms; each position {each:.1} ms",
            taken[0], taken[1]
        );
    }
}

fn ms(begun: Instant) -> f64 {
    begun.elapsed().as_secs_f64() * 1e3
}
