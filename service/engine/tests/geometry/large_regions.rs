//! Regions that hold a large part of many objects, against a test of every position.

#![cfg(feature = "cpu")]

use std::f64::consts::TAU;

use shoal_codec::{FixColumns, FixRow};
use shoal_engine::cpu::CpuBackend;
use shoal_engine::{
    Backend, CycleInput, EngineOptions, Projection, Query, QueryKind, Region, Request, Space,
};
use shoal_testkit::Random;

const OBJECTS: usize = 50_000;
const TIME_MS: i64 = 1_704_067_200_000;

fn star(space: &Space, vertices: usize) -> Region {
    let ring = (0..vertices).map(|at| {
        let (angle, reach) = (TAU * at as f64 / vertices as f64, [0.9, 0.4][at % 2]);
        (180.0 * reach * angle.cos(), 90.0 * reach * angle.sin())
    });
    Region::polygon(space, &[ring.collect()]).unwrap()
}

#[test]
fn answers_equal_a_test_of_every_position() {
    let space = Space::geographic();
    let mut engine = CpuBackend::new(EngineOptions::new(space));
    let mut random = Random::new(1);
    let mut positions = Vec::new();
    // Three rounds, so that objects move between cells.
    for time_ms in TIME_MS..TIME_MS + 3 {
        positions = (0..OBJECTS)
            .map(|_| {
                let x = random.quanta(-1_800_000_000, 1_799_999_999);
                (x, random.quanta(-900_000_000, 900_000_000))
            })
            .collect();
        let mut columns = FixColumns::with_capacity(OBJECTS);
        for ((x, y), object) in positions.iter().zip(0..) {
            columns.push_row(FixRow::new(object, time_ms, *x, *y));
        }
        let requests = vec![Request::Fixes(columns)].into();
        let input = CycleInput { time_max_ms: i64::MAX, requests, ..CycleInput::default() };
        engine.run(input).unwrap();
    }
    let regions = [
        Region::rectangle(&space, -180.0, -90.0, 180.0, 90.0).unwrap(),
        Region::rectangle(&space, -120.0, -60.0, 60.0, 40.0).unwrap(),
        Region::circle(&space, 10.0, 20.0, 9_000_000.0).unwrap(),
        star(&space, 4096),
        star(&space, 64),
        star(&space, 8),
    ];
    for region in regions {
        let expected: Vec<u64> = (0..)
            .zip(&positions)
            .filter(|(_, (x, y))| region.contains(*x, *y))
            .map(|(object, _)| object)
            .collect();
        assert!(expected.len() > OBJECTS / 10, "{region:?}");
        for projection in [Projection::Count, Projection::Ids] {
            let kind = QueryKind::Range(region.clone());
            let query = Query { kind, filter: None, projection, limit: None };
            let input = CycleInput { queries: vec![query], ..CycleInput::default() };
            let output = engine.run(input).unwrap();
            let answer = output.answers.get(0);
            assert_eq!(answer.total, expected.len() as u64);
            if projection == Projection::Ids {
                assert_eq!(answer.objects, expected);
            }
        }
    }
}
