//! Which points lie between two meridians and two parallels, or in a box of the plane?
//!
//! A rectangle is at most two boxes of quanta that are cut to the space, so it is its own cover.
//! A side rounds to quanta as a point does.

use super::Cover;
use super::region::geographic_quanta;
use crate::error::GeometryError;
use crate::space::{HALF_TURN, QuantaRect, Space, finite};

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
        if south > north {
            return Err(GeometryError::Rule(format!("south {south} is above north {north}")));
        }
        if space.is_geographic() {
            let x_min = geographic_quanta(space, "west", west, 180.0)?;
            let x_max = geographic_quanta(space, "east", east, 180.0)?;
            let y_min = geographic_quanta(space, "south", south, 90.0)?;
            let y_max = geographic_quanta(space, "north", north, 90.0)?;
            return Ok(Self { cover: meridian_cover(space, x_min, x_max, y_min, y_max) });
        }
        if west > east {
            return Err(GeometryError::Rule(format!(
                "west {west} is beyond east {east}, which only a geographic space allows"
            )));
        }
        // The cast saturates: what sticks out of the space by more than i32 is cut anyway.
        let side = |what, value| Ok(space.round(finite(what, value)?) as i32);
        let rect = QuantaRect {
            x_min: side("west", west)?,
            y_min: side("south", south)?,
            x_max: side("east", east)?,
            y_max: side("north", north)?,
        };
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

    /// As [`Rectangle::cover`], where it lies.
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
        let space = Space::geographic();
        let error = Rectangle::new(&space, -181.0, 0.0, 0.0, 1.0).unwrap_err().to_string();
        assert!(error.contains("west is -181"), "{error}");
        let error = Rectangle::new(&space, 0.0, 0.0, 0.0, 90.5).unwrap_err().to_string();
        assert!(error.contains("north is 90.5"), "{error}");
        let error = Rectangle::new(&space, 0.0, 2.0, 0.0, 1.0).unwrap_err().to_string();
        assert!(error.contains("south 2"), "{error}");
        assert!(Rectangle::new(&space, 0.0, f64::NAN, 0.0, 1.0).is_err());
    }
}
