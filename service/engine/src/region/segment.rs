//! Tests whether the straight segment between two points outside a region cuts it.
//!
//! [`Region::is_cut`] is the definition. Segments are straight in longitude and latitude, or in the
//! plane; a difference above half a turn of longitude crosses the antimeridian. Rectangles and
//! polygons use integers, circles the nearest point of the segment in f64 in written order.

use super::{Circle, Polygon, Rectangle, Region};
use crate::space::{HALF_TURN, QuantaRect, Space};
use crate::sphere;

/// Quanta of a whole turn of longitude.
const TURN: i64 = 2 * HALF_TURN as i64;

/// A straight segment; x may be up to a turn and a half outside the space.
#[derive(Clone, Copy, Debug)]
struct Segment {
    from: (i64, i64),
    to: (i64, i64),
}

impl Region {
    /// Whether the straight segment between two points of the space, neither of which lies in the
    /// region, has a point in common with it.
    ///
    /// A rectangle is cut if the segment meets one of the boxes of its cover, a polygon if it meets
    /// an edge. A circle is cut if it contains the point of the segment nearest to the centre, with
    /// longitudes scaled by the cosine of the centre's latitude, rounded half to even to quanta. In
    /// geographic space a segment with a difference in `x` of more than half a turn crosses the
    /// antimeridian. The segment is tested as it is and shifted by a turn to both sides.
    #[must_use]
    pub fn is_cut(&self, space: &Space, from: (i32, i32), to: (i32, i32)) -> bool {
        let wide = |(x, y): (i32, i32)| (i64::from(x), i64::from(y));
        let mut segment = Segment { from: wide(from), to: wide(to) };
        if !space.is_geographic() {
            return self.meets(segment);
        }
        let apart = segment.to.0 - segment.from.0;
        if apart.abs() > i64::from(HALF_TURN) {
            segment.to.0 -= apart.signum() * TURN;
        }
        [-TURN, 0, TURN].iter().any(|shift| self.meets(segment.shifted(*shift)))
    }

    fn meets(&self, segment: Segment) -> bool {
        match self {
            Self::Rectangle(rectangle) => segment.meets_rectangle(rectangle),
            Self::Circle(circle) => segment.meets_circle(circle),
            Self::Polygon(polygon) => segment.meets_polygon(polygon),
        }
    }
}

impl Segment {
    fn shifted(self, x: i64) -> Self {
        Self { from: (self.from.0 + x, self.from.1), to: (self.to.0 + x, self.to.1) }
    }

    /// True if the segment's bounding box and `rect` have a point in common.
    fn is_near(&self, rect: &QuantaRect) -> bool {
        let apart = |a: i64, b: i64, min: i32, max: i32| {
            a.max(b) < i64::from(min) || a.min(b) > i64::from(max)
        };
        !apart(self.from.0, self.to.0, rect.x_min, rect.x_max)
            && !apart(self.from.1, self.to.1, rect.y_min, rect.y_max)
    }

    /// The side of the segment's line on which a point lies: -1, 0 or 1. Differences take 34 bits.
    fn side(&self, (x, y): (i64, i64)) -> i128 {
        let difference = |a: i64, b: i64| i128::from(a) - i128::from(b);
        let along = difference(self.to.0, self.from.0) * difference(y, self.from.1);
        (along - difference(self.to.1, self.from.1) * difference(x, self.from.0)).signum()
    }

    fn meets_rectangle(&self, rectangle: &Rectangle) -> bool {
        rectangle.as_slice().iter().any(|rect| {
            let corner = |x: i32, y: i32| self.side((x.into(), y.into()));
            let sides = corner(rect.x_min, rect.y_min)
                + corner(rect.x_min, rect.y_max)
                + corner(rect.x_max, rect.y_min)
                + corner(rect.x_max, rect.y_max);
            self.is_near(rect) && sides.abs() < 4
        })
    }

    fn meets_polygon(&self, polygon: &Polygon) -> bool {
        let slabs = polygon.slabs();
        if !self.is_near(&slabs.extent) {
            return false;
        }
        let slab = |y: i64| {
            let y = y.clamp(slabs.extent.y_min.into(), slabs.extent.y_max.into());
            (y.abs_diff(slabs.extent.y_min.into()) >> slabs.shift) as usize
        };
        let (low, high) = (self.from.1.min(self.to.1), self.from.1.max(self.to.1));
        let first = slabs.starts[slab(low)] as usize;
        let end = slabs.starts[slab(high) + 1] as usize;
        let mut edges = slabs.edges[first..end].iter().filter(|edge| !edge.is_part_end());
        edges.any(|edge| self.meets_edge(edge.ends()))
    }

    fn meets_edge(&self, [x_low, y_low, x_high, y_high]: [i32; 4]) -> bool {
        let (x_min, x_max) = (x_low.min(x_high), x_low.max(x_high));
        let edge = Self { from: (x_low.into(), y_low.into()), to: (x_high.into(), y_high.into()) };
        self.is_near(&QuantaRect { x_min, y_min: y_low, x_max, y_max: y_high })
            && self.side(edge.from) * self.side(edge.to) <= 0
            && edge.side(self.from) * edge.side(self.to) <= 0
    }

    fn meets_circle(&self, circle: &Circle) -> bool {
        let ranker = circle.ranker();
        let (x, y) = ranker.centre();
        let is_geographic = ranker.is_geographic();
        let scale = if is_geographic { sphere::sine_cosine(y).1 } else { 1.0 };
        let wide = (self.to.0 - self.from.0) as f64;
        let high = (self.to.1 - self.from.1) as f64;
        let (along_x, along_y) = (wide * scale, high);
        let before_x = (i64::from(x) - self.from.0) as f64 * scale;
        let before_y = (i64::from(y) - self.from.1) as f64;
        let squared = along_x * along_x + along_y * along_y;
        let part = if squared > 0.0 {
            ((before_x * along_x + before_y * along_y) / squared).clamp(0.0, 1.0)
        } else {
            0.0
        };
        let near_x = (self.from.0 as f64 + part * wide).round_ties_even() as i64;
        let near_y = (self.from.1 as f64 + part * high).round_ties_even() as i32;
        let near_x = if is_geographic {
            (near_x + i64::from(HALF_TURN)).rem_euclid(TURN) - i64::from(HALF_TURN)
        } else {
            near_x
        };
        circle.contains(near_x as i32, near_y)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plane() -> Space {
        Space::planar(1_000.0, 1_000.0, 1.0).unwrap()
    }

    #[test]
    fn a_rectangle_is_cut_through_and_at_its_corner() {
        let space = plane();
        let region = Region::rectangle(&space, 10.0, 10.0, 20.0, 20.0).unwrap();
        let cut = |a, b| region.is_cut(&space, a, b) && region.is_cut(&space, b, a);
        assert!(cut((0, 15), (30, 15)) && cut((5, 5), (25, 25)));
        assert!(cut((5, 15), (15, 25)), "touches the corner at (10, 20)");
        assert!(!cut((5, 16), (14, 25)) && !cut((0, 9), (30, 9)) && !cut((0, 0), (0, 0)));
        assert!(!cut((0, 10), (9, 10)) && cut((0, 10), (30, 10)));
    }

    #[test]
    fn a_polygon_is_cut_at_its_edges() {
        let space = plane();
        let ring = vec![(10.0, 10.0), (30.0, 10.0), (10.0, 30.0)];
        let hole = vec![(12.0, 12.0), (16.0, 12.0), (12.0, 16.0)];
        let region = Region::polygon(&space, &[ring, hole]).unwrap();
        let cut = |a, b| region.is_cut(&space, a, b) && region.is_cut(&space, b, a);
        assert!(cut((0, 20), (40, 20)) && cut((0, 10), (40, 10)) && cut((0, 40), (40, 0)));
        assert!(!cut((1, 40), (40, 1)) && !cut((0, 9), (40, 9)));
        // Inside the hole, and along the line of an edge beyond it.
        assert!(!cut((13, 13), (13, 13)) && !cut((31, 10), (50, 10)));
    }

    #[test]
    fn a_circle_is_cut_at_its_nearest_point() {
        let space = plane();
        let region = Region::circle(&space, 50.0, 50.0, 10.0).unwrap();
        let cut = |a, b| region.is_cut(&space, a, b) && region.is_cut(&space, b, a);
        assert!(cut((0, 40), (100, 40)) && cut((0, 0), (100, 100)));
        assert!(!cut((0, 39), (100, 39)) && !cut((0, 50), (39, 50)) && !cut((0, 0), (0, 0)));
    }

    #[test]
    fn the_antimeridian_is_crossed_the_short_way() {
        let space = Space::geographic();
        let (east, west) = ((1_799_000_000, 0), (-1_799_000_000, 0));
        let cut = |region: &Region, a, b| {
            assert_eq!(region.is_cut(&space, a, b), region.is_cut(&space, b, a));
            region.is_cut(&space, a, b)
        };
        for middle in [179.99, -179.99, 180.0] {
            let circle = Region::circle(&space, middle, 0.05, 6_000.0).unwrap();
            assert!(cut(&circle, east, west), "{middle}");
            assert!(!cut(&circle, (1_799_000_000, -50_000), (-1_799_000_000, -50_000)));
        }
        let around = Region::rectangle(&space, 179.95, -1.0, -179.95, 1.0).unwrap();
        assert!(cut(&around, east, west));
        let meridian = Region::rectangle(&space, 180.0, -1.0, 180.0, 1.0).unwrap();
        assert!(cut(&meridian, east, west));
        let far = Region::rectangle(&space, -1.0, -1.0, 1.0, 1.0).unwrap();
        assert!(!cut(&far, east, west));
        assert!(cut(&far, (-900_000_000, 0), (900_000_000, 0)), "half a turn is straight");
        let touching = vec![(179.5, -1.0), (180.0, 0.0), (179.5, 1.0)];
        let polygon = Region::polygon(&space, &[touching]).unwrap();
        assert!(cut(&polygon, (-1_800_000_000, -10_000_000), (-1_800_000_000, 10_000_000)));
        assert!(cut(&polygon, (1_794_000_000, 0), west));
    }
}
