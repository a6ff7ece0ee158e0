//! Rectangles with sides along the axes.
//!
//! A rectangle is at most two boxes of quanta, clipped to the space, so it is its own cover. A side
//! rounds to quanta as a point does.

use super::Cover;
use crate::error::{GeometryError, number};
use crate::space::{Axis, HALF_TURN, QuantaRect, Space};

/// A rectangle with sides along the axes; see [`super::Region::rectangle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    cover: Cover,
}

impl Rectangle {
    /// See [`super::Region::rectangle`].
    pub(super) fn new(
        space: &Space,
        west: f64,
        south: f64,
        east: f64,
        north: f64,
    ) -> Result<Self, GeometryError> {
        // The cast saturates: what sticks out of a plane by more than i32 is cut anyway.
        let side = |field: &str, axis, value| {
            let quanta = space.coordinate(axis, value).map(|quanta| quanta as i32);
            quanta.map_err(|error| error.renamed(|_| field.to_owned()))
        };
        let x_min = side("west", Axis::X, west)?;
        let y_min = side("south", Axis::Y, south)?;
        let x_max = side("east", Axis::X, east)?;
        let y_max = side("north", Axis::Y, north)?;
        if south > north {
            let [south, north] = [south, north].map(number);
            let problem = format!("south {south} is greater than north {north}");
            return Err(GeometryError::new("south", problem));
        }
        if space.is_geographic() {
            return Ok(Self { cover: meridian_cover(space, x_min, x_max, y_min, y_max) });
        }
        if west > east {
            let [west, east] = [west, east].map(number);
            let problem = format!("west {west} is greater than east {east}");
            return Err(GeometryError::new("west", problem));
        }
        let rect = QuantaRect { x_min, y_min, x_max, y_max };
        Ok(Self { cover: Cover::one(&rect, &space.bounds()) })
    }

    /// Whether a point lies in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        self.cover.contains(x, y)
    }

    /// Its boxes.
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        self.cover
    }

    /// Its boxes, borrowed.
    #[inline]
    #[must_use]
    pub fn as_slice(&self) -> &[QuantaRect] {
        self.cover.as_slice()
    }

    /// Whether one of its boxes holds all of `rect`.
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        self.cover.as_slice().iter().any(|own| own.covers(rect))
    }
}

/// The boxes between two meridians; `x_max` below `x_min` crosses the antimeridian.
pub(super) fn meridian_cover(
    space: &Space,
    x_min: i32,
    x_max: i32,
    y_min: i32,
    y_max: i32,
) -> Cover {
    let bounds = space.bounds();
    let rect = |x_min, x_max| QuantaRect { x_min, y_min, x_max, y_max };
    if x_min > x_max {
        let mut cover = Cover::one(&rect(x_min, HALF_TURN), &bounds);
        cover.add(&rect(-HALF_TURN, x_max), &bounds);
        return cover;
    }
    let mut cover = Cover::one(&rect(x_min, x_max), &bounds);
    if x_max == HALF_TURN && x_min > -HALF_TURN {
        cover.add(&rect(-HALF_TURN, -HALF_TURN), &bounds);
    }
    cover
}

#[cfg(test)]
mod tests {
    use super::*;

    fn geographic(west: f64, south: f64, east: f64, north: f64) -> Rectangle {
        Rectangle::new(&Space::geographic(), west, south, east, north).unwrap()
    }

    #[test]
    fn borders_are_inside() {
        let rectangle = geographic(-1.0, -2.0, 3.0, 4.0);
        assert!(rectangle.contains(-10_000_000, -20_000_000));
        assert!(rectangle.contains(30_000_000, 40_000_000));
        assert!(!rectangle.contains(30_000_001, 40_000_000));
        assert!(!rectangle.contains(30_000_000, 40_000_001));
        assert_eq!(rectangle.cover().as_slice().len(), 1);
    }

    #[test]
    fn antimeridian_is_crossed_touched_and_met() {
        let crossing = geographic(179.0, -1.0, -179.0, 1.0);
        assert_eq!(crossing.cover().as_slice().len(), 2);
        for (x, inside) in [
            (1_790_000_000, true),
            (1_789_999_999, false),
            (HALF_TURN - 1, true),
            (-HALF_TURN, true),
            (-1_790_000_000, true),
            (-1_789_999_999, false),
            (0, false),
        ] {
            assert_eq!(crossing.contains(x, 0), inside, "{x}");
        }
        let touching = geographic(170.0, -1.0, 180.0, 1.0);
        assert!(touching.contains(-HALF_TURN, 1_000_000));
        assert!(touching.contains(HALF_TURN - 1, 0));
        assert!(!touching.contains(-HALF_TURN + 1, 0));
        for (west, east) in [(180.0, 180.0), (-180.0, -180.0), (180.0, -180.0)] {
            let meridian = geographic(west, -1.0, east, 1.0);
            assert_eq!(meridian.cover().as_slice().len(), 1);
            assert!(meridian.contains(-HALF_TURN, 0));
            assert!(!meridian.contains(HALF_TURN - 1, 0) && !meridian.contains(1 - HALF_TURN, 0));
        }
        let world = geographic(-180.0, -90.0, 180.0, 90.0);
        assert_eq!(world.cover().as_slice(), [Space::geographic().bounds()]);
    }

    #[test]
    fn meridians_and_points_are_rectangles() {
        let meridian = geographic(5.0, -90.0, 5.0, 90.0);
        assert!(meridian.contains(50_000_000, 900_000_000));
        assert!(!meridian.contains(50_000_001, 0));
        let point = geographic(5.0, 5.0, 5.0, 5.0);
        assert!(point.contains(50_000_000, 50_000_000));
    }

    #[test]
    fn planar_sides_may_stick_out() {
        let space = Space::planar(100.0, 50.0, 1.0).unwrap();
        let all = Rectangle::new(&space, -1e300, -5.0, 1e300, 1e18).unwrap();
        assert_eq!(all.cover().as_slice(), [space.bounds()]);
        let none = Rectangle::new(&space, 101.0, 0.0, 500.0, 50.0).unwrap();
        assert!(none.cover().as_slice().is_empty());
        assert!(!none.contains(100, 0));
        assert!(Rectangle::new(&space, 2.0, 0.0, 1.0, 1.0).is_err());
        assert!(Rectangle::new(&space, f64::NEG_INFINITY, 0.0, 1.0, 1.0).is_err());
    }

    #[test]
    fn wrong_values_are_named() {
        let fault = |space: Space, [west, south, east, north]: [f64; 4]| {
            let error = Rectangle::new(&space, west, south, east, north).unwrap_err();
            format!("{}: {error}", error.field())
        };
        let on_earth = |sides| fault(Space::geographic(), sides);
        let bad = on_earth([200.0, 0.0, 0.0, 1.0]);
        assert_eq!(bad, "west: longitude 200 is outside -180 to 180");
        let bad = on_earth([0.0, 0.0, -180.5, 1.0]);
        assert_eq!(bad, "east: longitude -180.5 is outside -180 to 180");
        let bad = on_earth([0.0, 0.0, 0.0, 90.5]);
        assert_eq!(bad, "north: latitude 90.5 is outside -90 to 90");
        let bad = on_earth([0.0, f64::NAN, 0.0, 1.0]);
        assert_eq!(bad, "south: latitude must be a finite number");
        let bad = on_earth([0.0, 2.0, 0.0, 1.0]);
        assert_eq!(bad, "south: south 2 is greater than north 1");
        let plane = Space::planar(10.0, 10.0, 1.0).unwrap();
        assert_eq!(fault(plane, [2.0, 0.0, 1.0, 1.0]), "west: west 2 is greater than east 1");
        let bad = fault(plane, [0.0, 0.0, f64::INFINITY, 1.0]);
        assert_eq!(bad, "east: x must be a finite number");
    }
}
