//! Properties of regions, covers and boxes.
//!
//! Random regions and points against independent references: wide integers for polygons, haversine
//! for circles. Every failure prints its seed; borders are hit on purpose.

use shoal_engine::sphere::EARTH_RADIUS_M;
use shoal_engine::{Circle, QuantaRect, Ranker, Region, Space};
use shoal_testkit::Random;

const HALF: i32 = 1_800_000_000;

fn spaces() -> [Space; 4] {
    [
        Space::geographic(),
        Space::planar(0.2, 0.3, 0.01).unwrap(),
        Space::planar(100_000.0, 50_000.0, 0.01).unwrap(),
        Space::planar(2_147_483_647.0, 2_147_483_647.0, 1.0).unwrap(),
    ]
}

/// A point that often lies on a border, a pole or the antimeridian.
fn point(random: &mut Random, space: &Space) -> (i32, i32) {
    let bounds = space.bounds();
    let side = |random: &mut Random, min: i32, max: i32| match random.below(8) {
        0 => min,
        1 => max,
        2 => min + random.quanta(0, 3),
        _ => random.quanta(min, max),
    };
    (side(random, bounds.x_min, bounds.x_max), side(random, bounds.y_min, bounds.y_max))
}

fn region(random: &mut Random, space: &Space) -> Region {
    let (ax, ay) = point(random, space);
    let (bx, by) = point(random, space);
    let (a, b) = (space.to_api(ax, ay), space.to_api(bx, by));
    match random.below(3) {
        0 => {
            let (west, east) =
                if space.is_geographic() { (a.0, b.0) } else { (a.0.min(b.0), a.0.max(b.0)) };
            Region::rectangle(space, west, a.1.min(b.1), east, a.1.max(b.1)).unwrap()
        }
        1 => Region::circle(space, a.0, a.1, radius_m(random, space)).unwrap(),
        _ => loop {
            let parts = *random.pick(&[1, 1, 2, 3]);
            let ring = |_| {
                let count = 3 + random.below(9);
                (0..count).map(|_| api_vertex(random, space)).collect()
            };
            let parts: Vec<Vec<_>> = (0..parts).map(ring).map(|ring| vec![ring]).collect();
            if let Ok(polygon) = Region::multi_polygon(space, &parts) {
                break polygon;
            }
        },
    }
}

fn api_vertex(random: &mut Random, space: &Space) -> (f64, f64) {
    let (x, y) = point(random, space);
    let (lon, lat) = space.to_api(x, y);
    if space.is_geographic() && random.once_in(6) { (180.0, lat) } else { (lon, lat) }
}

/// Radii of every magnitude, from 0 to the whole space.
fn radius_m(random: &mut Random, space: &Space) -> f64 {
    let bounds = space.bounds();
    let longest = if space.is_geographic() {
        std::f64::consts::PI * EARTH_RADIUS_M
    } else {
        f64::from(bounds.x_max.max(bounds.y_max)) * space.quantum()
    };
    let scale = 10.0_f64.powi(-(random.below(8)));
    if random.once_in(20) { 0.0 } else { longest * random.unit() * scale }
}

/// A point near the region's cover, so that both sides of the border occur.
fn near(random: &mut Random, space: &Space, region: &Region) -> (i32, i32) {
    let cover = region.cover();
    if cover.as_slice().is_empty() || random.once_in(4) {
        return point(random, space);
    }
    let rect = random.pick(cover.as_slice());
    let bounds = space.bounds();
    let jitter = |random: &mut Random| {
        if random.once_in(2) { 0 } else { random.between(-2, 2) }
    };
    let x = i64::from(random.quanta(rect.x_min, rect.x_max)) + jitter(random);
    let y = i64::from(random.quanta(rect.y_min, rect.y_max)) + jitter(random);
    (
        x.clamp(bounds.x_min.into(), bounds.x_max.into()) as i32,
        y.clamp(bounds.y_min.into(), bounds.y_max.into()) as i32,
    )
}

#[test]
fn covers_hold_every_point() {
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let region = region(random, &space);
        let cover = region.cover();
        let rects = cover.as_slice();
        for (index, rect) in rects.iter().enumerate() {
            assert!(rect.x_min <= rect.x_max && rect.y_min <= rect.y_max, "seed {seed}");
            assert_eq!(rect.intersection(&space.bounds()), Some(*rect), "seed {seed}");
            for other in &rects[..index] {
                assert_eq!(rect.intersection(other), None, "seed {seed}: {rects:?}");
            }
        }
        for _ in 0..50 {
            let (x, y) = near(random, &space, &region);
            let (inside, covered) = (region.contains(x, y), cover.contains(x, y));
            assert!(!inside || covered, "seed {seed}: {x} {y} of {region:?}");
            assert!(!region.is_cover() || inside == covered, "seed {seed}: {x} {y}");
        }
    }
}

#[test]
fn circles_reach_to_their_border() {
    // Points at 0.999999 of the radius in every direction lie in the cover.
    let space = Space::geographic();
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let (x, y) = point(random, &space);
        let radius = radius_m(random, &space);
        let circle = Circle::within(&space, &Ranker::new(&space, x, y), radius);
        let (lon, lat) = (f64::from(x) / 1e7, f64::from(y) / 1e7);
        for step in 0..32 {
            let bearing = f64::from(step) / 16.0 * std::f64::consts::PI;
            let (x, y) = destination(lon, lat, bearing, radius * 0.999_999);
            if circle.contains(x, y) {
                assert!(circle.cover().contains(x, y), "seed {seed} step {step}");
            } else {
                assert!(radius < 1e5, "seed {seed} step {step}: {x} {y} is not inside");
            }
        }
    }
}

/// The point a distance away along a bearing.
fn destination(lon_deg: f64, lat_deg: f64, bearing: f64, distance_m: f64) -> (i32, i32) {
    let (lon, lat, angle) =
        (lon_deg.to_radians(), lat_deg.to_radians(), distance_m / EARTH_RADIUS_M);
    let sin_lat = lat.sin() * angle.cos() + lat.cos() * angle.sin() * bearing.cos();
    let y = bearing.sin() * angle.sin() * lat.cos();
    let x = angle.cos() - lat.sin() * sin_lat;
    let degrees = (lon + y.atan2(x)).to_degrees();
    let wrapped = (degrees + 540.0).rem_euclid(360.0) - 180.0;
    let latitude = sin_lat.clamp(-1.0, 1.0).asin().to_degrees();
    Space::geographic().quantise(wrapped, latitude).unwrap()
}

#[test]
fn wholly_inside_means_inside() {
    let mut found = [0_u32; 3];
    for seed in 0..60_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let region = region(random, &space);
        let (x, y) = near(random, &space, &region);
        let size = 10_i64.pow(random.below(9) as u32);
        let (dx, dy) = (random.between(0, size), random.between(0, size));
        let rect = QuantaRect {
            x_min: x,
            y_min: y,
            x_max: (i64::from(x) + dx).min(i32::MAX.into()) as i32,
            y_max: (i64::from(y) + dy).min(i32::MAX.into()) as i32,
        };
        if !region.covers(&rect) {
            continue;
        }
        found[match region {
            Region::Rectangle(_) => 0,
            Region::Circle(_) => 1,
            Region::Polygon(_) => 2,
        }] += 1;
        let Some(rect) = rect.intersection(&space.bounds()) else {
            continue;
        };
        for _ in 0..64 {
            let x = random.quanta(rect.x_min, rect.x_max);
            let y = random.quanta(rect.y_min, rect.y_max);
            for (x, y) in [(x, y), (x, rect.y_min), (rect.x_max, y), (rect.x_min, rect.y_max)] {
                assert!(region.contains(x, y), "seed {seed}: {x} {y} in {rect:?} of {region:?}");
            }
        }
    }
    assert!(found.iter().all(|count| *count > 200), "too few wholly inside: {found:?}");
}

#[test]
fn no_point_of_a_missed_rectangle_is_inside() {
    let (mut missed, mut far) = ([0; 3], 0);
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let region = region(random, &space);
        let (a, b) = (point(random, &space), point(random, &space));
        let rect = QuantaRect {
            x_min: a.0.min(b.0),
            y_min: a.1.min(b.1),
            x_max: a.0.max(b.0),
            y_max: a.1.max(b.1),
        };
        if !region.misses(&rect) {
            continue;
        }
        missed[match &region {
            Region::Rectangle(_) => 0,
            Region::Circle(circle) => {
                // A quarter of a turn away and more, where the cover holds all longitudes.
                let is_far = circle.ranker().centre().0.abs_diff(rect.x_min) > HALF as u32 / 2;
                let is_wide = circle.cover().as_slice().iter().any(|own| own.x_min == -HALF);
                far += i32::from(is_far && is_wide);
                1
            }
            Region::Polygon(_) => 2,
        }] += 1;
        for _ in 0..64 {
            let x = random.quanta(rect.x_min, rect.x_max);
            let y = random.quanta(rect.y_min, rect.y_max);
            for (x, y) in [(x, y), (x, rect.y_min), (rect.x_max, y), (rect.x_min, rect.y_max)] {
                assert!(!region.contains(x, y), "seed {seed}: {x} {y} in {rect:?} of {region:?}");
            }
        }
    }
    assert!(missed.iter().all(|count| *count > 200) && far > 50, "too few: {missed:?} {far}");
}

/// Border or odd parity of edges above the point, in wide integers with a vertical ray.
fn in_rings(rings: &[Vec<(i64, i64)>], x: i64, y: i64) -> bool {
    let (x, y) = (i128::from(x), i128::from(y));
    let mut odd = false;
    for ring in rings {
        for (at, a) in ring.iter().enumerate() {
            let b = ring[(at + 1) % ring.len()];
            let (ax, ay) = (i128::from(a.0), i128::from(a.1));
            let (bx, by) = (i128::from(b.0), i128::from(b.1));
            let cross = (bx - ax) * (y - ay) - (by - ay) * (x - ax);
            let in_box = ax.min(bx) <= x && x <= ax.max(bx) && ay.min(by) <= y && y <= ay.max(by);
            if cross == 0 && in_box {
                return true;
            }
            // Half open in x; the edge passes above the point where the sign says so.
            if (ax <= x) != (bx <= x) && (cross < 0) == (bx > ax) {
                odd = !odd;
            }
        }
    }
    odd
}

#[test]
fn polygons_agree_with_wide_integers() {
    for seed in 0..30_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let vertices = if random.once_in(50) { 300 } else { 12 };
        let quanta_rings: Vec<Vec<(i64, i64)>> = (0..1 + random.below(3))
            .map(|_| {
                let mut ring = Vec::new();
                for _ in 0..3 + random.below(vertices) {
                    ring.push(vertex(random, &space, ring.last()));
                }
                if random.once_in(3) {
                    ring.push(ring[0]);
                }
                ring
            })
            .collect();
        let per_quantum = |value: i64| value as f64 * space.quantum();
        let rings: Vec<Vec<(f64, f64)>> = quanta_rings
            .iter()
            .map(|ring| ring.iter().map(|v| (per_quantum(v.0), per_quantum(v.1))).collect())
            .collect();
        let Ok(region) = Region::polygon(&space, &rings) else {
            continue;
        };
        for _ in 0..60 {
            let (x, y) = match random.below(3) {
                0 => point(random, &space),
                1 => near(random, &space, &region),
                _ => on_an_edge(random, &space, &quanta_rings),
            };
            let mut expected = in_rings(&quanta_rings, x.into(), y.into());
            if space.is_geographic() && x == -HALF {
                expected |= in_rings(&quanta_rings, HALF.into(), y.into());
            }
            assert_eq!(region.contains(x, y), expected, "seed {seed}: {x} {y} of {rings:?}");
        }
    }
}

/// A vertex in or a little outside of the space, at times level with the one before.
fn vertex(random: &mut Random, space: &Space, last: Option<&(i64, i64)>) -> (i64, i64) {
    let (x, y) = point(random, space);
    let (mut x, mut y) = (i64::from(x), i64::from(y));
    if space.is_geographic() {
        if random.once_in(8) {
            x = HALF.into();
        }
    } else if space.bounds().x_max < i32::MAX {
        (x, y) = (x + random.between(-3, 3), y + random.between(-3, 3));
    }
    match last {
        Some(last) if random.once_in(6) => (last.0, y),
        Some(last) if random.once_in(6) => (x, last.1),
        Some(last) if random.once_in(20) => *last,
        _ => (x, y),
    }
}

/// A point of the space at or next to the middle of an edge, or at a vertex.
fn on_an_edge(random: &mut Random, space: &Space, rings: &[Vec<(i64, i64)>]) -> (i32, i32) {
    let ring = random.pick(rings);
    let at = random.below(ring.len() as u64) as usize;
    let (a, b) = (ring[at], ring[(at + 1) % ring.len()]);
    let (x, y) = if random.once_in(2) { a } else { ((a.0 + b.0) / 2, (a.1 + b.1) / 2) };
    let bounds = space.bounds();
    (
        x.clamp(bounds.x_min.into(), bounds.x_max.into()) as i32,
        y.clamp(bounds.y_min.into(), bounds.y_max.into()) as i32,
    )
}

#[test]
fn circles_agree_with_haversine() {
    let space = Space::geographic();
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let (x, y) = point(random, &space);
        let radius = radius_m(random, &space);
        let (lon, lat) = space.to_api(x, y);
        let circle = Region::circle(&space, lon, lat, radius).unwrap();
        for _ in 0..50 {
            let (px, py) = near(random, &space, &circle);
            let (plon, plat) = space.to_api(px, py);
            let distance = haversine_m(lon, lat, plon, plat);
            // Haversine loses its digits towards the antipode.
            let tolerance = if distance > 1.99e7 { 1.0 } else { 1e-6 + distance * 1e-11 };
            if (distance - radius).abs() > tolerance {
                let inside = circle.contains(px, py);
                assert_eq!(inside, distance < radius, "seed {seed}: {distance} {radius}");
            }
        }
    }
}

fn haversine_m(lon_a: f64, lat_a: f64, lon_b: f64, lat_b: f64) -> f64 {
    let (phi_a, phi_b) = (lat_a.to_radians(), lat_b.to_radians());
    let half_phi = (lat_b - lat_a).to_radians() / 2.0;
    let half_lambda = (lon_b - lon_a).to_radians() / 2.0;
    let h = half_phi.sin().powi(2) + phi_a.cos() * phi_b.cos() * half_lambda.sin().powi(2);
    2.0 * EARTH_RADIUS_M * h.min(1.0).sqrt().asin()
}

#[test]
fn a_circle_reaching_a_rank_is_that_rank() {
    for seed in 0..20_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let (x, y) = point(random, &space);
        let ranker = Ranker::new(&space, x, y);
        let (px, py) = point(random, &space);
        let rank = ranker.rank(px, py);
        let circle = Circle::reaching(&space, &ranker, rank);
        assert!(circle.contains(px, py) && circle.cover().contains(px, py), "seed {seed}");
        assert!(rank == 0 || !Circle::reaching(&space, &ranker, rank - 1).contains(px, py));
    }
}

#[test]
fn quanta_come_back_from_degrees_and_metres() {
    for seed in 0..200_000 {
        let random = &mut Random::new(seed);
        let space = *random.pick(&spaces());
        let (x, y) = point(random, &space);
        let (api_x, api_y) = space.to_api(x, y);
        assert_eq!(space.quantise(api_x, api_y), Ok((x, y)), "seed {seed}");
    }
}
