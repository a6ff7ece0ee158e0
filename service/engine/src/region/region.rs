//! A region of any kind, and the tests that every kind supports.
//!
//! [`Region::contains`] is the definition; covers and wholly-inside tests only save work and never
//! change an answer. Regions are built from degrees or metres and hold quanta.

use super::ring::Ring;
use std::sync::Arc;

use super::{Circle, Cover, Polygon, Rectangle};
use crate::error::GeometryError;
use crate::space::{QuantaRect, Space};

/// A closed set of points of one space.
#[derive(Clone, Debug, PartialEq)]
pub enum Region {
    /// Sides along the axes.
    Rectangle(Rectangle),
    /// Everything within a distance of a centre. Boxed, as most queries have rectangles and a cycle
    /// may have a million.
    Circle(Box<Circle>),
    /// A polygon, or the union of several. Shared, as it may have thousands of edges.
    Polygon(Arc<Polygon>),
}

impl Region {
    /// A rectangle by its sides in degrees or metres, rounded to quanta.
    ///
    /// In geographic space `west > east` crosses the antimeridian, `west == east` is a meridian,
    /// and `east == 180` includes the antimeridian. Planar sides may stick out of the space.
    ///
    /// # Errors
    /// [`GeometryError`] in `west`, `south`, `east` or `north` if a side is not finite, a longitude
    /// or latitude is out of range, `south` is above `north`, or `west` is beyond `east` in planar
    /// space.
    pub fn rectangle(
        space: &Space,
        west: f64,
        south: f64,
        east: f64,
        north: f64,
    ) -> Result<Self, GeometryError> {
        Rectangle::new(space, west, south, east, north).map(Self::Rectangle)
    }

    /// A circle around a point of the space, radius in metres.
    ///
    /// In planar space the radius is rounded to quanta once. In geographic space the distance is
    /// the great-circle distance on the sphere of radius [`crate::sphere::EARTH_RADIUS_M`]; a
    /// radius of half the circumference or more contains every point.
    ///
    /// # Errors
    /// [`GeometryError`] in `x`, `y` or `radius_m` if the centre is outside the space or the radius
    /// is negative or NaN. An infinite radius is valid and contains every point.
    pub fn circle(space: &Space, x: f64, y: f64, radius_m: f64) -> Result<Self, GeometryError> {
        Circle::new(space, x, y, radius_m).map(|circle| Self::Circle(Box::new(circle)))
    }

    /// A polygon: even-odd over all its rings, in degrees or metres, edges straight in these
    /// coordinates, every border inside. The closing vertex is optional, winding is free, rings may
    /// cross themselves and each other.
    ///
    /// A geographic polygon does not cross the antimeridian (split it into a multipolygon, RFC 7946
    /// section 3.1.9); one that touches longitude 180 contains the points there, which are stored
    /// at -180.
    ///
    /// # Errors
    /// [`GeometryError`] in `rings`, `rings[1]` or `rings[1].x[3]`: no ring, under 3 distinct
    /// vertices in a ring (counted in quanta), more than [`crate::limits::POLYGON_VERTICES_MAX`]
    /// vertices, a vertex out of range, an edge wider than 180 degrees (planar: than 2^31 - 1
    /// quanta). An edge along a parallel from longitude -180 to 180, as a box over the whole world
    /// has, is accepted.
    pub fn polygon(space: &Space, rings: &[Ring]) -> Result<Self, GeometryError> {
        Polygon::one(space, rings).map(|polygon| Self::Polygon(Arc::new(polygon)))
    }

    /// The union of several polygons, each with its own rings as [`Region::polygon`] takes them; a
    /// point in more than one of them is inside. At most
    /// [`crate::limits::POLYGON_VERTICES_MAX`] vertices in all of them together.
    ///
    /// # Errors
    /// As [`Region::polygon`], with the field under `polygons[0]`. The field is `polygons` if there
    /// is no polygon or all polygons together have too many vertices.
    pub fn multi_polygon(space: &Space, polygons: &[Vec<Ring>]) -> Result<Self, GeometryError> {
        Polygon::union(space, polygons).map(|polygon| Self::Polygon(Arc::new(polygon)))
    }

    /// Whether a point of the space lies in the region, its border included. The definition.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        match self {
            Self::Rectangle(rectangle) => rectangle.contains(x, y),
            Self::Circle(circle) => circle.contains(x, y),
            Self::Polygon(polygon) => polygon.contains(x, y),
        }
    }

    /// Disjoint rectangles inside the space that together hold every point of the region.
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        match self {
            Self::Rectangle(rectangle) => rectangle.cover(),
            Self::Circle(circle) => circle.cover(),
            Self::Polygon(polygon) => polygon.cover(),
        }
    }

    /// True when [`Region::cover`] is exactly the region: points in it need no test.
    #[inline]
    #[must_use]
    pub fn is_cover(&self) -> bool {
        match self {
            Self::Rectangle(_) => true,
            Self::Circle(circle) => circle.is_everything(),
            Self::Polygon(_) => false,
        }
    }

    /// Vertices of its polygons; 0 for other regions.
    #[must_use]
    pub fn vertices(&self) -> usize {
        match self {
            Self::Rectangle(_) | Self::Circle(_) => 0,
            Self::Polygon(polygon) => polygon.vertices(),
        }
    }

    /// Approximate work of [`Region::contains`], in comparisons with a rectangle.
    #[must_use]
    pub fn test_work(&self) -> u64 {
        match self {
            Self::Rectangle(_) => 1,
            Self::Circle(_) => 2,
            Self::Polygon(polygon) => polygon.test_work(),
        }
    }

    /// True only when every point of the space in `rect` lies in the region. May be false even if
    /// all these points lie in it.
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        match self {
            Self::Rectangle(rectangle) => rectangle.covers(rect),
            Self::Circle(circle) => circle.covers(rect),
            Self::Polygon(polygon) => polygon.covers(rect),
        }
    }

    /// True only when no point of the space in `rect` lies in the region. May be false even if none
    /// lies in it.
    #[must_use]
    pub fn misses(&self, rect: &QuantaRect) -> bool {
        let cover = self.cover();
        if cover.as_slice().iter().all(|own| own.intersection(rect).is_none()) {
            return true;
        }
        match self {
            Self::Rectangle(_) => false,
            Self::Circle(circle) => circle.misses(rect),
            Self::Polygon(polygon) => polygon.misses(rect),
        }
    }
}
