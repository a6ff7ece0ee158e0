//! The error of the metres of a rank.
//!
//! The references are well conditioned where they are used: differences of integers near a point
//! and near its antipode, cross and dot product elsewhere.

use std::f64::consts::PI;

use shoal_engine::sphere::EARTH_RADIUS_M;
use shoal_engine::{Ranker, Space};
use shoal_testkit::Random;

const HALF: i64 = 1_800_000_000;
const RADIANS: f64 = PI / 1.8e9;

type Point = (i64, i64);

/// Haversine: relative error of some 1e-15 where points are near each other.
fn near_m(a: Point, b: Point) -> f64 {
    let sine = |difference: i64| (difference as f64 * RADIANS / 2.0).sin();
    let cosine = |latitude: i64| (latitude as f64 * RADIANS).cos();
    let apart = (a.0 - b.0 + 3 * HALF).rem_euclid(2 * HALF) - HALF;
    let squared = sine(a.1 - b.1).powi(2) + cosine(a.1) * cosine(b.1) * sine(apart).powi(2);
    2.0 * EARTH_RADIUS_M * squared.sqrt().asin()
}

/// By the angle between unit vectors, from their cross and dot product.
fn between_m(a: Point, b: Point) -> f64 {
    let (sin_a, cos_a) = (a.1 as f64 * RADIANS).sin_cos();
    let (sin_b, cos_b) = (b.1 as f64 * RADIANS).sin_cos();
    let (sin_l, cos_l) = ((b.0 - a.0) as f64 * RADIANS).sin_cos();
    let cross = (cos_b * sin_l).hypot(cos_a * sin_b - sin_a * cos_b * cos_l);
    EARTH_RADIUS_M * cross.atan2(sin_a * sin_b + cos_a * cos_b * cos_l)
}

fn antipode(of: Point) -> Point {
    ((of.0 + 2 * HALF).rem_euclid(2 * HALF) - HALF, -of.1)
}

/// A random point of the space, at most `reach` quanta away on each axis.
fn beside(random: &mut Random, (x, y): Point, reach: i64) -> Point {
    let x = x + random.between(-reach, reach);
    let y = y + random.between(-reach, reach);
    ((x + HALF).rem_euclid(2 * HALF) - HALF, y.clamp(-HALF / 2, HALF / 2))
}

#[test]
fn metres_of_a_rank_are_exact_to_their_bound() {
    let space = Space::geographic();
    let mut random = Random::new(5);
    let mut is_tight = false;
    for _ in 0..2_000_000 {
        let a = (random.between(-HALF, HALF - 1), random.between(-HALF / 2, HALF / 2));
        let reach = 10_i64.pow(random.below(10) as u32);
        let middle = if random.once_in(4) { a } else { antipode(a) };
        let b = beside(&mut random, middle, reach);
        let (near, far) = (near_m(a, b), near_m(antipode(a), b));
        let right = if near < 1e6 {
            near
        } else if far < 1e6 {
            PI * EARTH_RADIUS_M - far
        } else {
            between_m(a, b)
        };
        let rank = Ranker::new(&space, a.0 as i32, a.1 as i32).rank(b.0 as i32, b.1 as i32);
        let error = (space.distance_m(rank) - right).abs();
        let from_antipode = (PI * EARTH_RADIUS_M - right).max(0.0);
        let bound = (0.12 / from_antipode).min(0.35) + 1e-8;
        assert!(error <= bound, "{error} m, {from_antipode} m from the antipode of {a:?}: {b:?}");
        is_tight |= error > 0.25;
    }
    assert!(is_tight, "the bound at the antipode is too loose");
}
