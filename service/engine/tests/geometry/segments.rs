//! Segments that cut regions.
//!
//! Random segments on a small plane, where touches are common, against exact parameters for
//! rectangles and polygons and against distances for circles. Every failure prints its seed.

use shoal_engine::{Region, Space};
use shoal_testkit::Random;

type Point = (i32, i32);

fn point(random: &mut Random, side: i32) -> Point {
    (random.quanta(0, side), random.quanta(0, side))
}

fn wide((x, y): Point) -> (i128, i128) {
    (x.into(), y.into())
}

/// Whether two closed segments meet. If their lines meet, the parameters of that point decide. If
/// the lines are parallel, an end of one segment must lie on the other.
fn meet(a: (Point, Point), b: (Point, Point)) -> bool {
    let ((p, q), (r, s)) = ((wide(a.0), wide(a.1)), (wide(b.0), wide(b.1)));
    let (d, e, w) = ((q.0 - p.0, q.1 - p.1), (s.0 - r.0, s.1 - r.1), (r.0 - p.0, r.1 - p.1));
    let cross = |u: (i128, i128), v: (i128, i128)| u.0 * v.1 - u.1 * v.0;
    let below = cross(d, e);
    if below != 0 {
        let (t, u) = (cross(w, e) * below.signum(), cross(w, d) * below.signum());
        return (0..=below.abs()).contains(&t) && (0..=below.abs()).contains(&u);
    }
    let lies_on = |at: (i128, i128), (from, to): ((i128, i128), (i128, i128))| {
        let (along, out) = ((to.0 - from.0, to.1 - from.1), (at.0 - from.0, at.1 - from.1));
        let part = along.0 * out.0 + along.1 * out.1;
        let is_point = along == (0, 0) && out != (0, 0);
        !is_point
            && cross(along, out) == 0
            && (0..=along.0 * along.0 + along.1 * along.1).contains(&part)
    };
    lies_on(p, (r, s)) || lies_on(q, (r, s)) || lies_on(r, (p, q)) || lies_on(s, (p, q))
}

/// Compares segments with both ends outside a region with the sides of the region.
fn compare(seed: u64, space: &Space, region: &Region, sides: &[(Point, Point)], side: i32) {
    let mut random = Random::new(seed);
    for _ in 0..400 {
        let (from, to) = (point(&mut random, side), point(&mut random, side));
        if region.contains(from.0, from.1) || region.contains(to.0, to.1) {
            continue;
        }
        let expected = sides.iter().any(|other| meet((from, to), *other));
        for (a, b) in [(from, to), (to, from)] {
            let cut = region.is_cut(space, a, b);
            assert_eq!(cut, expected, "seed {seed}: {region:?} from {a:?} to {b:?}");
        }
    }
}

#[test]
fn rectangles_and_polygons_are_cut_at_their_sides() {
    for seed in 0..300 {
        let mut random = Random::new(seed);
        let side = *random.pick(&[6, 20, 1_000_000_000]);
        let space = Space::planar(f64::from(side), f64::from(side), 1.0).unwrap();
        let ring: Vec<Point> = (0..3 + random.below(5)).map(|_| point(&mut random, side)).collect();
        let closed = ring.iter().copied().zip(ring.iter().copied().cycle().skip(1));
        let api = ring.iter().map(|(x, y)| (f64::from(*x), f64::from(*y))).collect();
        if let Ok(region) = Region::polygon(&space, &[api]) {
            compare(seed, &space, &region, &closed.collect::<Vec<_>>(), side);
        }
        let ((ax, ay), (bx, by)) = (ring[0], ring[1]);
        let (west, east, south, north) = (ax.min(bx), ax.max(bx), ay.min(by), ay.max(by));
        let sides = [west, south, east, north].map(f64::from);
        let region = Region::rectangle(&space, sides[0], sides[1], sides[2], sides[3]).unwrap();
        let corners = [(west, south), (east, south), (east, north), (west, north)];
        let sides: Vec<_> = (0..4).map(|at| (corners[at], corners[(at + 1) % 4])).collect();
        compare(seed, &space, &region, &sides, side);
    }
}

#[test]
fn circles_are_cut_within_a_quantum() {
    let space = Space::planar(10_000.0, 10_000.0, 1.0).unwrap();
    let (mut cuts, mut passes) = (0, 0);
    for seed in 0..20_000 {
        let mut random = Random::new(seed);
        let (x, y) = point(&mut random, 10_000);
        let radius = f64::from(random.below(3_000));
        let region = Region::circle(&space, f64::from(x), f64::from(y), radius).unwrap();
        let (from, to) = (point(&mut random, 10_000), point(&mut random, 10_000));
        if region.contains(from.0, from.1) || region.contains(to.0, to.1) {
            continue;
        }
        let (dx, dy) = (f64::from(to.0 - from.0), f64::from(to.1 - from.1));
        let (px, py) = (f64::from(x - from.0), f64::from(y - from.1));
        let length = dx.hypot(dy);
        let part = ((px * dx + py * dy) / (length * length).max(1.0)).clamp(0.0, 1.0);
        let distance = (px - part * dx).hypot(py - part * dy);
        if region.is_cut(&space, from, to) {
            cuts += 1;
            assert!(distance <= radius + 0.71, "seed {seed}: {distance} of {radius}");
        } else {
            passes += 1;
            assert!(distance >= radius - 0.71, "seed {seed}: {distance} of {radius}");
        }
    }
    assert!(cuts > 1_000 && passes > 1_000, "{cuts} cut, {passes} passed");
}
