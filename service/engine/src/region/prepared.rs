//! A region prepared for many tests.
//!
//! Answers exactly as the region does; preparing it only saves work. A polygon of many vertices
//! gets a raster if there are enough tests that building it saves time.

use super::raster::{Raster, SquareSize};
use super::{Cover, Region};
use crate::space::QuantaRect;

/// Work of testing a point by a raster; see [`Region::test_work`].
const RASTER_TEST_WORK: u64 = 4;
/// Work of building a raster, for each vertex. Building takes some 4 ms for thousands of vertices.
const RASTER_VERTEX_WORK: u64 = 256;

/// A region and how it will be prepared.
#[derive(Clone, Copy, Debug)]
pub struct Preparation<'a> {
    region: &'a Region,
    raster: Option<SquareSize>,
}

/// A region, with a raster if it is a polygon for which building one is worthwhile.
#[derive(Debug)]
pub struct PreparedRegion<'a> {
    region: &'a Region,
    raster: Option<Box<Raster<'a>>>,
}

impl<'a> Preparation<'a> {
    /// How to prepare a region for about `tests()` tests of points; `tests` is called for a polygon
    /// only. A raster takes about `bytes_max` bytes at most.
    #[must_use]
    pub fn new(region: &'a Region, bytes_max: usize, tests: impl FnOnce() -> u64) -> Self {
        let raster = match region {
            Region::Rectangle(_) | Region::Circle(_) => None,
            Region::Polygon(polygon) => Raster::size_for(polygon, tests(), bytes_max),
        };
        Self { region, raster }
    }

    /// The work that it takes, as [`Region::test_work`], whether or not the raster can be built.
    #[must_use]
    pub fn work(&self) -> u64 {
        match (self.raster, self.region) {
            (Some(_), Region::Polygon(polygon)) => polygon.vertices() as u64 * RASTER_VERTEX_WORK,
            _ => 0,
        }
    }

    /// Prepares the region.
    #[must_use]
    pub fn prepare(self) -> PreparedRegion<'a> {
        let raster = match (self.raster, self.region) {
            (Some(size), Region::Polygon(polygon)) => Raster::new(polygon, size).map(Box::new),
            _ => None,
        };
        PreparedRegion { region: self.region, raster }
    }
}

impl<'a> PreparedRegion<'a> {
    /// The region as it is.
    #[must_use]
    pub fn plain(region: &'a Region) -> Self {
        Self { region, raster: None }
    }

    /// See [`Region::test_work`].
    #[must_use]
    pub fn test_work(&self) -> u64 {
        self.raster.as_ref().map_or_else(|| self.region.test_work(), |_| RASTER_TEST_WORK)
    }

    /// See [`Region::contains`].
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        match &self.raster {
            Some(raster) => raster.contains(x, y),
            None => self.region.contains(x, y),
        }
    }

    /// See [`Region::cover`].
    #[inline]
    #[must_use]
    pub fn cover(&self) -> Cover {
        self.region.cover()
    }

    /// See [`Region::is_cover`].
    #[inline]
    #[must_use]
    pub fn is_cover(&self) -> bool {
        self.region.is_cover()
    }

    /// See [`Region::covers`].
    #[must_use]
    pub fn covers(&self, rect: &QuantaRect) -> bool {
        match &self.raster {
            Some(raster) => raster.covers(rect),
            None => self.region.covers(rect),
        }
    }

    /// See [`Region::misses`].
    #[must_use]
    pub fn misses(&self, rect: &QuantaRect) -> bool {
        match &self.raster {
            Some(raster) => raster.misses(rect),
            None => self.region.misses(rect),
        }
    }
}
