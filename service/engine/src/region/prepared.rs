//! A region prepared for many tests.
//!
//! Answers exactly as the region does; preparing it only saves work. A polygon of many vertices
//! gets a raster if there are enough tests that building it saves time.

use super::polygon::Polygon;
use super::raster::Raster;
use super::{Cover, Region};
use crate::space::QuantaRect;

/// Work of testing a point by a raster; see [`Region::test_work`].
const RASTER_TEST_WORK: u64 = 4;
/// Work of building a raster, for each edge of a slab. Building takes some 4 ms for thousands of
/// vertices.
const RASTER_EDGE_WORK: u64 = 256;

fn raster_work(polygon: &Polygon) -> u64 {
    polygon.vertices() as u64 * RASTER_EDGE_WORK
}

/// A region, with a raster if it is a polygon for which building one is worthwhile.
#[derive(Debug)]
pub struct PreparedRegion<'a> {
    region: &'a Region,
    raster: Option<Box<Raster<'a>>>,
}

impl<'a> PreparedRegion<'a> {
    /// Prepares a region for about `tests()` tests of points; `tests` is called for a polygon only.
    #[must_use]
    pub fn new(region: &'a Region, tests: impl FnOnce() -> u64) -> Self {
        let raster = match region {
            Region::Rectangle(_) | Region::Circle(_) => None,
            Region::Polygon(polygon) => Raster::for_tests(polygon, tests()).map(Box::new),
        };
        Self { region, raster }
    }

    /// The most work that [`PreparedRegion::prepare_work`] counts for a region and this number of
    /// tests.
    #[must_use]
    pub fn prepare_work_max(region: &Region, tests: impl FnOnce() -> u64) -> u64 {
        match region {
            Region::Polygon(polygon) if Raster::may_be_built(polygon, tests()) => {
                raster_work(polygon)
            }
            Region::Polygon(_) | Region::Rectangle(_) | Region::Circle(_) => 0,
        }
    }

    /// See [`Region::test_work`].
    #[must_use]
    pub fn test_work(&self) -> u64 {
        self.raster.as_ref().map_or_else(|| self.region.test_work(), |_| RASTER_TEST_WORK)
    }

    /// The work that preparing it took, as [`Region::test_work`].
    #[must_use]
    pub fn prepare_work(&self) -> u64 {
        match (&self.raster, self.region) {
            (Some(_), Region::Polygon(polygon)) => raster_work(polygon),
            _ => 0,
        }
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
