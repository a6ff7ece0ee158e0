//! Borders: points on region borders, at the corners of spaces, poles and the antimeridian.
//!
//! Each case places objects where an off-by-one or a wrap would lose them, and queries regions
//! whose border passes through them.

use super::*;

/// The largest plane that can be built.
fn largest_plane() -> Space {
    let side = f64::from(i32::MAX);
    Space::planar(side, side, 1.0).expect("the largest plane exists")
}

fn rectangle(trial: &mut Trial, sides: [f64; 4]) -> Vec<u64> {
    let [west, south, east, north] = sides;
    let region = Region::rectangle(&trial.space(), west, south, east, north);
    trial.ids(QueryKind::Range(region.expect("the rectangle is right")))
}

fn circle(trial: &mut Trial, x: f64, y: f64, radius_m: f64) -> Vec<u64> {
    let region = Region::circle(&trial.space(), x, y, radius_m);
    trial.ids(QueryKind::Range(region.expect("the circle is right")))
}

fn polygon(trial: &mut Trial, ring: &[(f64, f64)]) -> Vec<u64> {
    let region = Region::polygon(&trial.space(), &[ring.to_vec()]);
    trial.ids(QueryKind::Range(region.expect("the polygon is right")))
}

fn place(trial: &mut Trial, points: &[(i32, i32)]) {
    let rows: Vec<FixRow> =
        (1..).zip(points).map(|(object, (x, y))| fix(object, 0, *x, *y)).collect();
    assert_eq!(trial.send_one(fixes(&rows)).applied, rows.len() as u64);
}

/// Corners of the largest plane: extreme quanta, extreme distances.
pub fn corners_of_the_largest_plane(make: Make) {
    let mut trial = Trial::new(make, EngineOptions::new(largest_plane()), "largest plane");
    let (max, side) = (i32::MAX, f64::from(i32::MAX));
    place(&mut trial, &[(0, 0), (max, 0), (0, max), (max, max), (max - 1, max - 1), (1, 1)]);
    assert_eq!(rectangle(&mut trial, [0.0, 0.0, 0.0, 0.0]), [1]);
    assert_eq!(rectangle(&mut trial, [side, side, side, side]), [4]);
    assert_eq!(rectangle(&mut trial, [side - 1.0, 0.0, side, side]), [2, 4, 5]);
    assert_eq!(rectangle(&mut trial, [-1e18, -1e18, 1e18, 1e18]).len(), 6);
    assert_eq!(circle(&mut trial, 0.0, 0.0, 0.0), [1]);
    assert_eq!(circle(&mut trial, side, side, 2.0), [4, 5]);
    assert_eq!(circle(&mut trial, 0.0, 0.0, side), [1, 2, 3, 6]);
    assert_eq!(circle(&mut trial, 0.0, 0.0, side - 1.0), [1, 6]);
    let diagonal = (2.0 * side * side).sqrt();
    assert_eq!(circle(&mut trial, 0.0, 0.0, diagonal.floor()), [1, 2, 3, 5, 6]);
    assert_eq!(circle(&mut trial, 0.0, 0.0, diagonal.ceil()).len(), 6);
    assert_eq!(circle(&mut trial, 0.0, 0.0, 1e300).len(), 6);
    let triangle = [(0.0, 0.0), (side, side), (0.0, side)];
    assert_eq!(polygon(&mut trial, &triangle), [1, 3, 4, 5, 6]);
    let nearest = QueryKind::nearest(max, max, 6);
    assert_eq!(trial.ids(nearest), [4, 5, 2, 3, 6, 1]);
    // Everything moves to the opposite corner.
    let rows: Vec<FixRow> = (1..=6).map(|object| fix(object, 1, max, max)).collect();
    trial.send_one(fixes(&rows));
    assert_eq!(rectangle(&mut trial, [0.0, 0.0, side - 1.0, side]), []);
    assert_eq!(trial.ids(QueryKind::nearest(0, 0, 3)), [1, 2, 3]);
}

/// A plane of one quantum: every point is a corner.
pub fn the_smallest_plane(make: Make) {
    let space = Space::planar(1.0, 1.0, 1.0).expect("the plane exists");
    let mut trial = Trial::new(make, EngineOptions::new(space), "smallest plane");
    place(&mut trial, &[(0, 0), (1, 0), (0, 1), (1, 1)]);
    assert_eq!(rectangle(&mut trial, [0.0, 0.0, 1.0, 0.0]), [1, 2]);
    assert_eq!(circle(&mut trial, 0.0, 0.0, 1.0), [1, 2, 3]);
    assert_eq!(trial.ids(QueryKind::nearest(1, 1, 4)), [4, 2, 3, 1]);
}

/// Objects at the corners of longitude and latitude.
pub fn corners_of_the_world(make: Make) {
    let mut trial = Trial::geographic(make);
    let (west, east) = (-HALF_TURN, HALF_TURN - 1);
    let (south, north) = (-QUARTER_TURN, QUARTER_TURN);
    place(&mut trial, &[(west, south), (east, south), (west, north), (east, north), (0, 0)]);
    assert_eq!(rectangle(&mut trial, [-180.0, -90.0, 180.0, 90.0]), [1, 2, 3, 4, 5]);
    assert_eq!(rectangle(&mut trial, [-180.0, -90.0, -180.0, 90.0]), [1, 3]);
    assert_eq!(rectangle(&mut trial, [180.0, -90.0, 180.0, 90.0]), [1, 3]);
    assert_eq!(rectangle(&mut trial, [179.9, 90.0, -179.9, 90.0]), [3, 4]);
    assert_eq!(rectangle(&mut trial, [-180.0, -90.0, 179.9, 90.0]), [1, 3, 5]);
    assert_eq!(circle(&mut trial, 12.0, 90.0, 0.0), [3, 4]);
    assert_eq!(circle(&mut trial, 0.0, -90.0, 1.0), [1, 2]);
    let quarter_m = std::f64::consts::FRAC_PI_2 * crate::sphere::EARTH_RADIUS_M;
    assert_eq!(circle(&mut trial, 0.0, 90.0, quarter_m + 1.0), [3, 4, 5]);
    assert_eq!(circle(&mut trial, 0.0, 90.0, quarter_m - 1.0), [3, 4]);
    assert_eq!(circle(&mut trial, 0.0, 0.0, f64::INFINITY).len(), 5);
    assert_eq!(circle(&mut trial, 0.0, 90.0, 2.0 * quarter_m + 1.0).len(), 5);
    // Every longitude of a pole is one point.
    let answer = trial.answer(&query(QueryKind::nearest(77, north, 2)));
    assert_eq!((answer.objects, answer.ranks), (vec![3, 4], vec![0, 0]));
}

/// Neighbours on both sides of the antimeridian are near each other.
pub fn the_antimeridian_does_not_part(make: Make) {
    let mut trial = Trial::geographic(make);
    let (west, east) = (-HALF_TURN, HALF_TURN - 1);
    place(&mut trial, &[(west, 0), (east, 0), (west + 9, 0), (east - 9, 0), (0, 0)]);
    assert_eq!(rectangle(&mut trial, [179.0, -1.0, -179.0, 1.0]), [1, 2, 3, 4]);
    assert_eq!(rectangle(&mut trial, [179.0, -1.0, 180.0, 1.0]), [1, 2, 4]);
    assert_eq!(rectangle(&mut trial, [-180.0, -1.0, -179.0, 1.0]), [1, 3]);
    assert_eq!(rectangle(&mut trial, [-179.0, -1.0, 179.0, 1.0]), [5]);
    for longitude in [180.0, -180.0, 179.999_999_9] {
        assert_eq!(circle(&mut trial, longitude, 0.0, 1.0), [1, 2, 3, 4]);
    }
    assert_eq!(circle(&mut trial, 180.0, 0.0, 0.02), [1, 2]);
    assert_eq!(trial.ids(QueryKind::nearest(west, 0, 3)), [1, 2, 3]);
    assert_eq!(trial.ids(QueryKind::nearest(east, 0, 3)), [2, 1, 4]);
    let touching = [(170.0, -5.0), (180.0, -5.0), (180.0, 5.0), (170.0, 5.0)];
    assert_eq!(polygon(&mut trial, &touching), [1, 2, 4]);
    let on_the_other_side = [(-180.0, -5.0), (-170.0, -5.0), (-170.0, 5.0), (-180.0, 5.0)];
    assert_eq!(polygon(&mut trial, &on_the_other_side), [1, 3]);
    // An object that crosses is in one place only.
    trial.send_one(fixes(&[fix(2, 5, west, 0), fix(1, 5, east, 0)]));
    assert_eq!(rectangle(&mut trial, [-180.0, -1.0, -179.0, 1.0]), [2, 3]);
}

/// Circles that contain a pole reach across it.
pub fn circles_reach_over_the_pole(make: Make) {
    let mut trial = Trial::geographic(make);
    let points: Vec<(i32, i32)> =
        (-180..180).step_by(15).map(|degrees| (degrees * 10_000_000, 890_000_000)).collect();
    place(&mut trial, &points);
    let degree_m = crate::sphere::EARTH_RADIUS_M * 1_f64.to_radians();
    assert_eq!(circle(&mut trial, 3.0, 90.0, degree_m + 1.0).len(), 24);
    assert_eq!(circle(&mut trial, 3.0, 90.0, degree_m - 1.0).len(), 0);
    assert_eq!(circle(&mut trial, 0.0, 89.0, 2.0 * degree_m + 1.0).len(), 24);
    assert_eq!(circle(&mut trial, 0.0, 89.0, 2.0 * degree_m - 1.0).len(), 23);
    let nearest = QueryKind::nearest(0, 890_000_000, 24);
    let ids = trial.ids(nearest);
    assert_eq!((ids[0], ids[23]), (13, 1));
}

/// Borders are inside; one quantum further is outside.
pub fn borders_belong_to_regions(make: Make) {
    let mut trial = Trial::planar(make);
    let points: Vec<(i32, i32)> =
        (0..=10).flat_map(|x| (0..=10).map(move |y| (495 + x, 495 + y))).collect();
    place(&mut trial, &points);
    assert_eq!(rectangle(&mut trial, [497.0, 497.0, 503.0, 503.0]).len(), 49);
    assert_eq!(rectangle(&mut trial, [496.6, 497.4, 503.4, 502.6]).len(), 49);
    assert_eq!(circle(&mut trial, 500.0, 500.0, 5.0).len(), 81);
    assert_eq!(circle(&mut trial, 500.0, 500.0, 4.0).len(), 49);
    let square = [(497.0, 497.0), (503.0, 497.0), (503.0, 503.0), (497.0, 503.0)];
    assert_eq!(polygon(&mut trial, &square).len(), 49);
    let diamond = [(500.0, 495.0), (505.0, 500.0), (500.0, 505.0), (495.0, 500.0)];
    assert_eq!(polygon(&mut trial, &diamond).len(), 61);
    // Flat polygons are their border.
    let flat = [(495.0, 500.0), (505.0, 500.0), (500.0, 500.0)];
    assert_eq!(polygon(&mut trial, &flat).len(), 11);
    // A bow tie contains both wings and its crossing.
    let bow = [(495.0, 495.0), (505.0, 505.0), (505.0, 495.0), (495.0, 505.0)];
    assert_eq!(polygon(&mut trial, &bow).len(), 71);
}

/// Rings inside rings are holes, whose borders belong to the polygon.
pub fn holes_and_islands(make: Make) {
    let mut trial = Trial::planar(make);
    let points: Vec<(i32, i32)> = (0..=20).flat_map(|x| (0..=20).map(move |y| (x, y))).collect();
    place(&mut trial, &points);
    let ring = |min: f64, max: f64| vec![(min, min), (max, min), (max, max), (min, max)];
    let rings = [ring(0.0, 20.0), ring(5.0, 15.0), ring(8.0, 12.0)];
    let region = Region::polygon(&trial.space(), &rings).expect("the polygon is right");
    // 21 x 21 less the inside of the hole, 9 x 9, plus the island, 5 x 5.
    assert_eq!(trial.ids(QueryKind::Range(region)).len(), 441 - 81 + 25);
}

/// Overlaps of polygons are inside a multipolygon; overlaps of the rings of one polygon are
/// outside. An island may lie in a hole of another polygon.
pub fn overlapping_polygons_are_one_region(make: Make) {
    let mut trial = Trial::planar(make);
    let points: Vec<(i32, i32)> = (0..=40).flat_map(|x| (0..=40).map(move |y| (x, y))).collect();
    place(&mut trial, &points);
    let ring = |min: f64, max: f64| vec![(min, min), (max, min), (max, max), (min, max)];
    let (a, b, c) = (ring(0.0, 20.0), ring(10.0, 30.0), ring(30.0, 40.0));
    let mut count = |region: Result<Region, _>| {
        trial.ids(QueryKind::Range(region.expect("the region is right"))).len()
    };
    let space = plane();
    // Two squares of 21 x 21 share 11 x 11, of which an even-odd polygon keeps the border.
    assert_eq!(count(Region::polygon(&space, &[a.clone(), b.clone()])), 2 * 441 - 121 - 81);
    let parts = [vec![a.clone()], vec![b], vec![c]];
    assert_eq!(count(Region::multi_polygon(&space, &parts)), 2 * 441 - 121 + 121 - 1);
    let island = [vec![a.clone(), ring(5.0, 15.0)], vec![ring(8.0, 12.0)]];
    assert_eq!(count(Region::multi_polygon(&space, &island)), 441 - 81 + 25);
    // Many copies of a polygon equal the polygon.
    assert_eq!(count(Region::multi_polygon(&space, &vec![vec![a]; 1_000])), 441);
}

/// A multipolygon that is split at the antimeridian is one region on both of its sides.
pub fn a_polygon_split_at_the_antimeridian(make: Make) {
    let mut trial = Trial::geographic(make);
    let degree = 10_000_000;
    let (west, east) = (-HALF_TURN, HALF_TURN - 1);
    let inner = (175 * degree, 0);
    place(&mut trial, &[(west, 0), (east, 0), (west + 5 * degree, degree), inner, (0, 0)]);
    let box_of =
        |west: f64, east: f64| vec![vec![(west, -5.0), (east, -5.0), (east, 5.0), (west, 5.0)]];
    let parts = [box_of(170.0, 180.0), box_of(-180.0, -170.0)];
    let region = Region::multi_polygon(&trial.space(), &parts).expect("the region is right");
    assert_eq!(trial.ids(QueryKind::Range(region)), [1, 2, 3, 4]);
    let shifted = [box_of(170.0, 180.0), vec![vec![(-180.0, 0.5), (-170.0, 0.5), (-170.0, 5.0)]]];
    let region = Region::multi_polygon(&trial.space(), &shifted).expect("the region is right");
    assert_eq!(trial.ids(QueryKind::Range(region)), [1, 2, 3, 4]);
}

/// Regions of everything, of nothing and of a single point.
pub fn whole_and_empty_regions(make: Make) {
    let mut trial = Trial::planar(make);
    assert_eq!(rectangle(&mut trial, [0.0, 0.0, 1_000.0, 1_000.0]), []);
    assert_eq!(circle(&mut trial, 0.0, 0.0, f64::INFINITY), []);
    let points: Vec<(i32, i32)> = (0..300).map(|at| (at * 3, 1_000 - at * 2)).collect();
    place(&mut trial, &points);
    let all: Vec<u64> = (1..=300).collect();
    assert_eq!(rectangle(&mut trial, [0.0, 0.0, 1_000.0, 1_000.0]), all);
    assert_eq!(rectangle(&mut trial, [-5.0, -5.0, 5_000.0, 5_000.0]), all);
    assert_eq!(circle(&mut trial, 1_000.0, 0.0, f64::INFINITY), all);
    assert_eq!(rectangle(&mut trial, [1_001.0, 0.0, 2_000.0, 1_000.0]), []);
    assert_eq!(rectangle(&mut trial, [-9.0, -9.0, -1.0, -1.0]), []);
    assert_eq!(rectangle(&mut trial, [3.0, 998.0, 3.0, 998.0]), [2]);
    assert_eq!(rectangle(&mut trial, [4.0, 998.0, 4.0, 998.0]), []);
    let outside = [(2_000.0, 0.0), (3_000.0, 0.0), (2_500.0, 900.0)];
    assert_eq!(polygon(&mut trial, &outside), []);
    let around = [(-5e6, -5e6), (5e6, -5e6), (0.0, 5e6)];
    assert_eq!(polygon(&mut trial, &around), all);
}
