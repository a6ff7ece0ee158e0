//! The region index against `Region::contains`, while regions are added and removed.
//!
//! Regions of every kind, at poles, at the antimeridian and on single points.

use shoal_engine::stage::region_index::{REGION_CELLS_MAX, RegionIndex};
use shoal_engine::{Region, Space};
use shoal_testkit::Random;

fn regions(space: &Space) -> Vec<Region> {
    let planar = |x: f64, y: f64, r: f64| Region::circle(space, x, y, r).unwrap();
    let ring = vec![(-20.0, -3.0), (40.0, 5.0), (0.0, 60.0), (3.0, 4.0)];
    let far = vec![(50.0, -3.0), (60.0, 5.0), (55.0, 6.0)];
    let mut regions = vec![
        planar(5.0, 6.0, 700.0),
        planar(5.001, 6.001, 300.0),
        planar(5.0, 6.0, 0.0),
        Region::multi_polygon(space, &[vec![ring.clone()], vec![far], vec![ring.clone()]]).unwrap(),
        Region::polygon(space, &[ring]).unwrap(),
        Region::rectangle(space, 4.9, 5.9, 5.1, 6.1).unwrap(),
        Region::rectangle(space, 0.0, 0.0, 0.0, 0.0).unwrap(),
    ];
    if space.is_geographic() {
        let ring = vec![(170.0, -3.0), (180.0, 0.0), (179.0, 60.0)];
        regions.extend([
            planar(0.0, 90.0, 1e6),
            planar(-180.0, -89.9, 1e5),
            planar(179.9999, 10.0, 5e4),
            planar(3.0, 4.0, 1.5e7),
            planar(3.0, 4.0, f64::INFINITY),
            Region::polygon(space, &[ring]).unwrap(),
            Region::rectangle(space, 179.0, -1.0, -179.0, 1.0).unwrap(),
            Region::rectangle(space, 180.0, -90.0, 180.0, 90.0).unwrap(),
        ]);
    }
    regions
}

fn points(space: &Space) -> Vec<(i32, i32)> {
    let bounds = space.bounds();
    let mut points = vec![(bounds.x_min, bounds.y_min), (bounds.x_max, bounds.y_max)];
    points.push((bounds.x_min, 0));
    let (x, y) = space.quantise(5.0, 6.0).unwrap();
    let mut random = Random::new(7);
    for turn in 0..40_000_u32 {
        let wide = 1_i64 << (turn % 33);
        let mut side = |middle: i32, min: i32, max: i32| {
            let value = i64::from(middle) + random.below(wide) - wide / 2;
            value.clamp(min.into(), max.into()) as i32
        };
        let middle_x = if turn % 3 == 0 { bounds.x_min } else { x };
        points.push((
            side(middle_x, bounds.x_min, bounds.x_max),
            side(y, bounds.y_min, bounds.y_max),
        ));
    }
    points
}

/// Checks every point against every region in the index.
fn check(index: &RegionIndex, filed: &[(u32, &Region)], points: &[(i32, i32)]) {
    for (x, y) in points {
        let (mut partial, mut whole) = (Vec::new(), Vec::new());
        index.at(*x, *y, |cell| {
            partial.extend_from_slice(cell.partial());
            whole.extend_from_slice(cell.whole());
        });
        for (number, region) in filed {
            let is_inside = region.contains(*x, *y);
            let times = |list: &[u32]| list.iter().filter(|held| **held == *number).count();
            let (partly, wholly) = (times(&partial), times(&whole));
            assert!(partly + wholly <= 1, "{number} is filed once at {x}, {y}");
            assert!(!is_inside || partly + wholly == 1, "{number} is found at {x}, {y}");
            assert!(is_inside || wholly == 0, "{number} does not hold {x}, {y}");
        }
        assert!(partial.len() + whole.len() <= filed.len());
    }
}

#[test]
fn positions_find_their_regions_while_regions_change() {
    for space in [Space::geographic(), Space::planar(1e4, 1e4, 0.01).unwrap()] {
        let (regions, points) = (regions(&space), points(&space));
        let mut index = RegionIndex::new(space.bounds());
        let mut filed: Vec<(u32, &Region)> = Vec::new();
        for (number, region) in (0..).zip(&regions) {
            index.insert(number, region);
            filed.push((number, region));
        }
        check(&index, &filed, &points);
        for turn in 0..3 * regions.len() {
            let (number, region) = filed.remove(turn * 5 % filed.len());
            index.remove(number, region);
            if turn % 3 == 0 {
                check(&index, &filed, &points[..2_000]);
            }
            index.insert(number + 100, region);
            filed.push((number + 100, region));
        }
        check(&index, &filed, &points);
        for (number, region) in filed {
            index.remove(number, region);
        }
        assert_eq!((index.levels(), index.memory_bytes()), (0, 0));
    }
}

#[test]
fn a_region_takes_few_cells_whatever_its_size() {
    let space = Space::geographic();
    for (region, number) in regions(&space).iter().zip(0..) {
        let mut index = RegionIndex::new(space.bounds());
        index.insert(number, region);
        let cells = index.cells().count() as u64;
        assert!((1..=REGION_CELLS_MAX).contains(&cells), "{region:?} takes {cells}");
    }
    let circle = Region::circle(&space, 5.0, 6.0, 500.0).unwrap();
    let mut index = RegionIndex::new(space.bounds());
    index.insert(1, &circle);
    let wholes = index.cells().filter(|(_, _, cell)| !cell.whole().is_empty()).count();
    assert!(index.cells().count() >= 12 && wholes >= 1);
}

#[test]
fn many_regions_of_one_cell_are_added_and_removed() {
    let space = Space::planar(1_000.0, 1_000.0, 1.0).unwrap();
    let region = Region::rectangle(&space, 3.0, 3.0, 3.0, 3.0).unwrap();
    let mut index = RegionIndex::new(space.bounds());
    for number in 0..1_000 {
        index.insert(number, &region);
    }
    let crowd = index.memory_bytes();
    for number in (0..1_000).filter(|number| number % 7 != 0) {
        index.remove(number, &region);
    }
    let mut found = Vec::new();
    index.at(3, 3, |cell| found.extend_from_slice(cell.whole()));
    found.sort_unstable();
    assert_eq!(found, (0..1_000).step_by(7).collect::<Vec<u32>>());
    for number in (0..1_000).filter(|number| number % 7 != 0) {
        index.insert(number, &region);
    }
    assert_eq!(index.memory_bytes(), crowd, "capacity is reused");
}
