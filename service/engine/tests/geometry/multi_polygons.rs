//! A multipolygon is the union of its polygons, whether they overlap, touch or are apart.
//!
//! Random parts against the same parts one by one. Every failure prints its seed.

use shoal_engine::limits::POLYGON_VERTICES_MAX;
use shoal_engine::{QuantaRect, Region, Ring, Space};
use shoal_testkit::Random;

const HALF: i32 = 1_800_000_000;

fn spaces() -> [Space; 3] {
    [
        Space::geographic(),
        Space::planar(20.0, 30.0, 1.0).unwrap(),
        Space::planar(2_147_483_647.0, 2_147_483_647.0, 1.0).unwrap(),
    ]
}

fn anywhere(random: &mut Random, space: &Space) -> (i32, i32) {
    let bounds = space.bounds();
    (random.quanta(bounds.x_min, bounds.x_max), random.quanta(bounds.y_min, bounds.y_max))
}

/// A point within some quanta of another, in the space.
fn around(random: &mut Random, space: &Space, middle: (i32, i32), reach: i64) -> (i32, i32) {
    let bounds = space.bounds();
    let mut side = |middle: i32, min: i32, max: i32| {
        let value = i64::from(middle) + random.between(-reach, reach);
        value.clamp(min.into(), max.into()) as i32
    };
    let x = side(middle.0, bounds.x_min, bounds.x_max);
    (x, side(middle.1, bounds.y_min, bounds.y_max))
}

fn ring(random: &mut Random, space: &Space, middle: (i32, i32), reach: i64) -> Ring {
    let count = 3 + random.below(6);
    let vertex = |_| {
        let (x, y) = around(random, space, middle, reach);
        let (x_api, y_api) = space.to_api(x, y);
        let at_180 = space.is_geographic() && x > HALF - 200 && random.once_in(2);
        (if at_180 { 180.0 } else { x_api }, y_api)
    };
    (0..count).map(vertex).collect()
}

/// Polygons in a few places: some overlap, some are on both sides of the antimeridian.
fn polygons(random: &mut Random, space: &Space) -> Vec<Vec<Ring>> {
    let reach = *random.pick(&[3, 100, 1_000_000, 500_000_000]);
    let bounds = space.bounds();
    let mut places = vec![anywhere(random, space), anywhere(random, space)];
    if random.once_in(2) {
        places = vec![(bounds.x_max, places[0].1), (bounds.x_min, places[1].1)];
    }
    let mut polygon = |_| {
        let middle = *random.pick(&places);
        let rings = 1 + random.below(2);
        (0..rings).map(|_| ring(random, space, middle, reach)).collect()
    };
    let count = 1 + (reach as u64 % 7);
    (0..count).map(&mut polygon).collect()
}

/// A multipolygon and its parts.
fn regions(seed: u64) -> Option<(Random, Space, Region, Vec<Region>)> {
    let mut random = Random::new(seed);
    let space = *random.pick(&spaces());
    let polygons = polygons(&mut random, &space);
    let parts: Result<Vec<Region>, _> =
        polygons.iter().map(|rings| Region::polygon(&space, rings)).collect();
    let whole = Region::multi_polygon(&space, &polygons);
    assert_eq!(whole.is_ok(), parts.is_ok(), "seed {seed}");
    Some((random, space, whole.ok()?, parts.ok()?))
}

/// A point of the space, mostly in or next to one of the boxes of a part.
fn near(random: &mut Random, space: &Space, parts: &[Region]) -> (i32, i32) {
    let cover = random.pick(parts).cover();
    if cover.as_slice().is_empty() || random.once_in(6) {
        return anywhere(random, space);
    }
    let rect = random.pick(cover.as_slice());
    let point = (random.quanta(rect.x_min, rect.x_max), random.quanta(rect.y_min, rect.y_max));
    around(random, space, point, 2)
}

#[test]
fn a_multipolygon_is_the_union_of_its_polygons() {
    let (mut inside, mut splits) = (0, 0);
    for seed in 0..20_000 {
        let Some((mut random, space, whole, parts)) = regions(seed) else { continue };
        let cover = whole.cover();
        splits += u32::from(cover.as_slice().len() > 1);
        for (at, rect) in cover.as_slice().iter().enumerate() {
            assert_eq!(rect.intersection(&space.bounds()), Some(*rect), "seed {seed}");
            let mut others = cover.as_slice()[..at].iter();
            assert!(others.all(|other| other.intersection(rect).is_none()), "seed {seed}");
        }
        for _ in 0..60 {
            let (x, y) = near(&mut random, &space, &parts);
            let expected = parts.iter().any(|part| part.contains(x, y));
            assert_eq!(whole.contains(x, y), expected, "seed {seed}: {x} {y} of {whole:?}");
            assert!(!expected || cover.contains(x, y), "seed {seed}: {x} {y} is not covered");
            inside += u32::from(expected);
        }
    }
    assert!(inside > 100_000 && splits > 1_000, "{inside} inside, {splits} split");
}

#[test]
fn boxes_wholly_inside_and_outside_are_so() {
    let mut found = [0_u32; 2];
    for seed in 0..20_000 {
        let Some((mut random, space, whole, parts)) = regions(seed) else { continue };
        for _ in 0..8 {
            let (x, y) = near(&mut random, &space, &parts);
            let size = 10_i64.pow(random.below(9) as u32);
            let far = around(&mut random, &space, (x, y), size);
            let rect = QuantaRect {
                x_min: x.min(far.0),
                y_min: y.min(far.1),
                x_max: x.max(far.0),
                y_max: y.max(far.1),
            };
            let (covers, misses) = (whole.covers(&rect), whole.misses(&rect));
            assert!(!(covers && misses), "seed {seed}: {rect:?}");
            found[0] += u32::from(covers);
            found[1] += u32::from(misses);
            for _ in 0..30 {
                let x = random.quanta(rect.x_min, rect.x_max);
                let y = random.quanta(rect.y_min, rect.y_max);
                for (x, y) in [(x, y), (x, rect.y_min), (rect.x_max, y)] {
                    let is_inside = whole.contains(x, y);
                    assert!(!covers || is_inside, "seed {seed}: {x} {y} in {rect:?}");
                    assert!(!misses || !is_inside, "seed {seed}: {x} {y} in {rect:?}");
                }
            }
        }
    }
    assert!(found.iter().all(|count| *count > 2_000), "inside, outside: {found:?}");
}

#[test]
fn segments_cut_a_multipolygon_where_they_cut_a_polygon() {
    let mut found = [0_u32; 2];
    for seed in 0..20_000 {
        let Some((mut random, space, whole, parts)) = regions(seed) else { continue };
        for _ in 0..20 {
            let from = near(&mut random, &space, &parts);
            let to = near(&mut random, &space, &parts);
            if whole.contains(from.0, from.1) || whole.contains(to.0, to.1) {
                continue;
            }
            let expected = parts.iter().any(|part| part.is_cut(&space, from, to));
            let is_cut = whole.is_cut(&space, from, to);
            assert_eq!(is_cut, expected, "seed {seed}: {from:?} to {to:?} of {whole:?}");
            found[usize::from(is_cut)] += 1;
        }
    }
    assert!(found.iter().all(|count| *count > 5_000), "passed, cut: {found:?}");
}

fn square(min: f64, max: f64) -> Ring {
    vec![(min, min), (max, min), (max, max), (min, max), (min, min)]
}

#[test]
fn overlaps_are_inside_a_multipolygon_and_outside_a_polygon() {
    let space = Space::planar(100.0, 100.0, 1.0).unwrap();
    let rings = [square(0.0, 20.0), square(10.0, 30.0)];
    let one = Region::polygon(&space, &rings).unwrap();
    let both = Region::multi_polygon(&space, &rings.clone().map(|ring| vec![ring])).unwrap();
    assert!(!one.contains(15, 15) && both.contains(15, 15));
    assert!(one.contains(5, 5) && both.contains(5, 5) && !both.contains(25, 5));
    let hole = Region::multi_polygon(&space, &[rings.to_vec(), vec![square(14.0, 16.0)]]).unwrap();
    assert!(hole.contains(15, 15) && !hole.contains(18, 18), "an island in a hole");
    let single = Region::multi_polygon(&space, &[rings.to_vec()]).unwrap();
    assert_eq!(single, one, "a single polygon is stored as one");
}

#[test]
fn the_vertices_drawn_are_counted() {
    let space = Space::planar(1e6, 1e6, 1.0).unwrap();
    let vertices = |region: &Region| match region {
        Region::Polygon(polygon) => polygon.vertices(),
        _ => panic!("{region:?}"),
    };
    assert_eq!(vertices(&Region::polygon(&space, &[square(0.0, 1e5)]).unwrap()), 4);
    let two = [vec![square(0.0, 1e5), square(10.0, 20.0)], vec![square(0.0, 1e6)]];
    assert_eq!(vertices(&Region::multi_polygon(&space, &two).unwrap()), 12);
    let squares = |count: usize| vec![vec![square(0.0, 1e5)]; count];
    let most = Region::multi_polygon(&space, &squares(POLYGON_VERTICES_MAX / 4)).unwrap();
    assert_eq!(vertices(&most), POLYGON_VERTICES_MAX);
    let error = Region::multi_polygon(&space, &squares(POLYGON_VERTICES_MAX / 4 + 1)).unwrap_err();
    assert_eq!(error.field(), "polygons");
    assert_eq!(error.to_string(), "the region has more than 4096 polygon vertices");
}

#[test]
fn a_box_over_the_whole_world_contains_everything() {
    let world = Space::geographic();
    let around =
        |height: f64| vec![(-180.0, -height), (180.0, -height), (180.0, height), (-180.0, height)];
    let contains = |region: &Region, x: f64, y: f64| {
        let (x, y) = world.quantise(x, y).unwrap();
        region.contains(x, y)
    };
    let whole = Region::polygon(&world, &[around(90.0)]).unwrap();
    let ring = Region::polygon(&world, &[around(90.0), around(30.0)]).unwrap();
    for x in [-180.0, -179.9, -90.0, 0.0, 1e-7, 179.999_999_9, 180.0] {
        for y in [-90.0, -31.0, 31.0, 90.0] {
            assert!(contains(&whole, x, y) && contains(&ring, x, y), "({x}, {y})");
        }
        assert!(contains(&whole, x, 0.0) && contains(&ring, x, 30.0), "{x}");
    }
    assert!(!contains(&ring, 0.0, 0.0) && !contains(&ring, 90.0, 29.0));
    let slanted = vec![(-180.0, 0.0), (180.0, 1.0), (0.0, 2.0)];
    assert!(Region::polygon(&world, &[slanted]).is_err());
}

#[test]
fn wrong_rings_are_named() {
    let world = Space::geographic();
    let fault = |polygons: &[Vec<Ring>]| {
        let error = Region::multi_polygon(&world, polygons).unwrap_err();
        format!("{}: {error}", error.field())
    };
    let good = square(0.0, 1.0);
    assert_eq!(fault(&[]), "polygons: a multipolygon needs a polygon");
    assert_eq!(fault(&[vec![good.clone()], vec![]]), "polygons[1].rings: a polygon needs a ring");
    let short = vec![(0.0, 0.0), (1.0, 1.0), (0.0, 0.0)];
    let bad = fault(&[vec![good.clone(), short]]);
    assert_eq!(bad, "polygons[0].rings[1]: a ring needs 3 distinct vertices");
    let single = |ring: Ring| {
        let error = Region::polygon(&world, &[good.clone(), ring]).unwrap_err();
        format!("{}: {error}", error.field())
    };
    let bad = single(vec![(0.0, 0.0), (1.0, 0.0), (1.0, 1.0), (200.0, 0.0)]);
    assert_eq!(bad, "rings[1].x[3]: longitude 200 is outside -180 to 180");
    let bad = single(vec![(0.0, 0.0), (1.0, f64::NAN), (1.0, 1.0)]);
    assert_eq!(bad, "rings[1].y[1]: latitude must be a finite number");
    let bad = single(vec![(0.0, 0.0), (-91.0, 0.0), (91.0, 1.0)]);
    assert_eq!(
        bad,
        "rings[1]: the edge from vertex 1 to vertex 2 spans 182 degrees, the limit is 180: add a \
         vertex between them or split the polygon"
    );
    let many = vec![(0.0, 0.0); POLYGON_VERTICES_MAX + 2];
    assert_eq!(single(many), "rings[1]: the region has more than 4096 polygon vertices");
    let plane = Space::planar(10.0, 10.0, 0.01).unwrap();
    let far = vec![(0.0, 0.0), (1.0, 0.0), (3e7, 1.0)];
    let error = Region::polygon(&plane, &[far]).unwrap_err();
    assert_eq!(error.field(), "rings[0].x[2]");
    assert_eq!(error.to_string(), "x 30000000 m is outside -21474836.48 to 21474836.47 m");
}
