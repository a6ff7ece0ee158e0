//! A raster against its polygon: random polygons, and points where rounding or a shared vertex
//! would show.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::sync::Arc;

use std::f64::consts::TAU;

use shoal_testkit::Random;

use super::*;
use crate::region::{Region, Ring};
use crate::space::Space;

/// A ring in a square of 2 by 2 around the origin.
fn ring(random: &mut Random) -> Ring {
    let count = {
        let most = 1 << random.below(8);
        3 + random.below(most) as usize
    };
    let part = |at: usize| at as f64 / count as f64;
    let polar = |turns: f64, reach: f64| ((TAU * turns).cos() * reach, (TAU * turns).sin() * reach);
    match random.below(5) {
        0 => (0..count).map(|at| polar(part(at), [1.0, 0.3][at % 2])).collect(),
        1 => {
            let teeth = (0..count).map(|at| (part(at) * 2.0 - 1.0, [-0.9, 1.0][at / 2 % 2]));
            [(1.0, -1.0), (-1.0, -1.0)].into_iter().chain(teeth).collect()
        }
        2 => {
            let arm = |at: usize, wide: f64| polar(4.0 * part(at), wide * part(at));
            (0..count)
                .map(|at| arm(at, 1.0))
                .chain((1..count).rev().map(|at| arm(at, 0.8)))
                .collect()
        }
        3 => (0..count)
            .map(|_| [-1.0, 0.0, 0.5, 1.0])
            .map(|at| (at[random.below(4) as usize], at[random.below(4) as usize]))
            .collect(),
        _ => (0..count).map(|_| (random.unit() * 2.0 - 1.0, random.unit() * 2.0 - 1.0)).collect(),
    }
}

/// A random polygon in a random space, from a few quanta wide to as large as the space. It is often
/// centred on a corner of the space and clamped to the borders.
fn polygon(random: &mut Random) -> Arc<Polygon> {
    let planar = |quanta: f64| Space::planar(quanta, quanta, 1.0).unwrap();
    let spaces = [Space::geographic(), planar(2_147_483_647.0), planar(3_000.0)];
    let space = spaces[random.below(3) as usize];
    // Vertices may lie outside a plane.
    let (east, north) = match space.to_api(space.bounds().x_max, space.bounds().y_max) {
        _ if space.is_geographic() => (180.0, 90.0),
        far => far,
    };
    let (west, south) = (-east, -north);
    loop {
        let size = 10_f64.powf(-8.0 * random.unit() * random.unit());
        let middle = [random.unit(), 0.5, 1.0, 0.0][random.below(4) as usize];
        let mut place = |(x, y): (f64, f64)| {
            let at = |low: f64, high: f64, value: f64| {
                ((low + high) / 2.0 + (high - low) * (middle - 0.5 + value * size / 2.0))
                    .clamp(low, high)
            };
            (at(west, east, x), at(south, north, y))
        };
        let parts = 1 + random.below(4) * random.below(2);
        let parts: Vec<Vec<Ring>> = (0..parts)
            .map(|_| {
                (0..=random.below(2))
                    .map(|_| ring(random).into_iter().map(&mut place).collect())
                    .collect()
            })
            .collect();
        if let Ok(Region::Polygon(polygon)) = Region::multi_polygon(&space, &parts) {
            return polygon;
        }
    }
}

/// A point at a vertex, on an edge, at a line of the raster or anywhere, and near one.
fn point(random: &mut Random, raster: &Raster<'_>) -> (i32, i32) {
    let QuantaRect { x_min, y_min, x_max, y_max } = raster.slabs.extent;
    let edges: Vec<&Edge> = distinct(&raster.slabs).collect();
    let [x_low, y_low, x_high, y_high] = edges[random.below(edges.len() as u64) as usize].ends();
    let line = |random: &mut Random, min: i32, max: i32, shift: u32| {
        let lines = u64::from(max.abs_diff(min) >> shift) + 2;
        i64::from(min) + ((random.below(lines) as i64) << shift)
    };
    let between = |a: i32, b: i32, part: f64| f64::from(a) + (f64::from(b) - f64::from(a)) * part;
    let (mut x, mut y) =
        (i64::from(random.quanta(x_min, x_max)), i64::from(random.quanta(y_min, y_max)));
    match random.below(6) {
        0 => (x, y) = (x_low.into(), y_low.into()),
        1 => (x, y) = (x_high.into(), y_high.into()),
        2 => {
            let part = [0.5, 0.25, random.unit()][random.below(3) as usize];
            (x, y) = (between(x_low, x_high, part) as i64, between(y_low, y_high, part) as i64);
        }
        3 => x = line(random, x_min, x_max, raster.shifts.0),
        4 => y = line(random, y_min, y_max, raster.shifts.1),
        _ => {}
    }
    if random.below(4) == 0 {
        y = if random.below(2) == 0 { y_low.into() } else { y_high.into() };
    }
    let near = |random: &mut Random| [0, 0, 0, -1, 1][random.below(5) as usize];
    let clamp = |value: i64| value.clamp(i32::MIN.into(), i32::MAX.into()) as i32;
    (clamp(x + near(random)), clamp(y + near(random)))
}

fn squares(polygon: &Polygon, side: u32) -> SquareSize {
    SquareSize { shifts: shifts(&polygon.slabs(), side) }
}

#[test]
fn a_raster_answers_as_its_polygon() {
    let (mut held, mut uniform, mut beyond, mut parts) = ([0; 2], [0; 2], 0, 0);
    for seed in 0..3_000 {
        let random = &mut Random::new(seed);
        let polygon = polygon(random);
        let side = 2 + random.below(7) as u32;
        let raster = Raster::new(&polygon, squares(&polygon, side)).unwrap();
        beyond += raster.entries.iter().filter(|entry| **entry & ENDS_BEYOND != 0).count();
        parts += raster.entries.iter().filter(|entry| **entry & PART_BEGINS != 0).count();
        for _ in 0..300 {
            let (x, y) = point(random, &raster);
            let expected = polygon.contains(x, y);
            held[usize::from(expected)] += 1;
            assert_eq!(raster.contains(x, y), expected, "seed {seed}: {x} {y}");
        }
        for _ in 0..20 {
            let (a, b) = (point(random, &raster), point(random, &raster));
            let rect = QuantaRect {
                x_min: a.0.min(b.0),
                y_min: a.1.min(b.1),
                x_max: a.0.max(b.0),
                y_max: a.1.max(b.1),
            };
            let (covers, misses) = (raster.covers(&rect), raster.misses(&rect));
            uniform[0] += usize::from(misses);
            uniform[1] += usize::from(covers);
            for _ in 0..20 {
                let (x, y) =
                    (random.quanta(rect.x_min, rect.x_max), random.quanta(rect.y_min, rect.y_max));
                let holds = polygon.contains(x, y);
                assert!(!(covers && !holds || misses && holds), "seed {seed}: {x} {y} {rect:?}");
            }
        }
    }
    let least = held.into_iter().chain(uniform).chain([beyond, parts]).min();
    assert!(least > Some(500), "too few: {held:?} {uniform:?} {beyond} {parts}");
}

#[test]
fn a_raster_is_built_where_it_pays_and_within_its_bounds() {
    let space = Space::geographic();
    let polygon = |ring: Ring| match Region::polygon(&space, &[ring]).unwrap() {
        Region::Polygon(polygon) => polygon,
        other => panic!("{other:?} is no polygon"),
    };
    let star = (0..4096).map(|at| {
        let (turn, reach) = (TAU * f64::from(at) / 4096.0, [90.0, 40.0][at as usize % 2]);
        (turn.cos() * reach, turn.sin() * reach)
    });
    let star = polygon(star.collect());
    let raster =
        Raster::new(&star, Raster::size_for(&star, 1_000_000, usize::MAX).unwrap()).unwrap();
    assert!(raster.squares.len() <= (1 << 18) + 1 && raster.entries.len() <= ENTRIES_MAX);
    let bytes = |raster: &Raster<'_>| 4 * raster.squares.len() + 2 * raster.entries.len();
    let small = Raster::new(&star, Raster::size_for(&star, 1_000_000, 400_000).unwrap()).unwrap();
    assert!(bytes(&small) < 500_000 && bytes(&raster) > 1_000_000);
    let has_size = |polygon, tests, bytes| Raster::size_for(polygon, tests, bytes).is_some();
    assert!(!has_size(&star, 10, usize::MAX) && !has_size(&star, 1_000_000, 100));
    let triangle = polygon(vec![(0.0, 0.0), (9.0, 0.0), (0.0, 9.0)]);
    assert!(!has_size(&triangle, 1 << 20, usize::MAX));
    // Every edge crosses the whole box.
    let zigzag = polygon(
        (0..4096).map(|at| (f64::from(at % 2) * 90.0, f64::from(at / 2 % 2) * 90.0)).collect(),
    );
    assert!(Raster::new(&zigzag, squares(&zigzag, 9)).is_none());
}
