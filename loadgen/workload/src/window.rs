//! Which rectangle does a query ask for?
//!
//! Windows of generators always lie inside their space and never cross the antimeridian: a window
//! that would stick out is moved inwards, its size kept.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::random::{Domain, stream, unit};

/// A closed rectangle, `west <= east` and `south <= north`; degrees or metres as the space has it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    /// Least x.
    pub west: f64,
    /// Least y.
    pub south: f64,
    /// Greatest x.
    pub east: f64,
    /// Greatest y.
    pub north: f64,
}

impl Window {
    /// All longitudes and latitudes.
    pub(crate) const WORLD: Self = Self { west: -180.0, south: -90.0, east: 180.0, north: 90.0 };

    /// Width and height.
    pub(crate) fn sides(&self) -> (f64, f64) {
        (self.east - self.west, self.north - self.south)
    }

    /// The window of the given sides around a centre, moved to lie inside `space`.
    pub(crate) fn around(centre: (f64, f64), sides: (f64, f64), space: &Self) -> Self {
        let (west, east) = span(centre.0, sides.0, space.west, space.east);
        let (south, north) = span(centre.1, sides.1, space.south, space.north);
        Self { west, south, east, north }
    }
}

/// An interval of length `side` about `centre`, moved into `[low, high]`.
fn span(centre: f64, side: f64, low: f64, high: f64) -> (f64, f64) {
    if side >= high - low {
        return (low, high);
    }
    let start = (centre - side / 2.0).clamp(low, high - side);
    (start, (start + side).min(high))
}

/// The query stream of a planar space: its random numbers, and windows of one size.
#[derive(Debug)]
pub(crate) struct PlanarWindows {
    pub(crate) random: Xoshiro256PlusPlus,
    space: Window,
    sides_m: (f64, f64),
}

impl PlanarWindows {
    /// Windows of `share` of each side of a space of width and height, for one seed and shard.
    pub(crate) fn new(seed: u64, shard: u32, share: f64, (width_m, height_m): (f64, f64)) -> Self {
        Self {
            random: stream(seed, Domain::Windows, u64::from(shard)),
            space: Window { west: 0.0, south: 0.0, east: width_m, north: height_m },
            sides_m: (share * width_m, share * height_m),
        }
    }

    /// The window around a point.
    pub(crate) fn around(&self, x: f64, y: f64) -> Window {
        Window::around((x, y), self.sides_m, &self.space)
    }

    /// A window whose lower left corner is uniform over all places where it fits.
    pub(crate) fn anywhere(&mut self) -> Window {
        let (width_m, height_m) = self.sides_m;
        let west = unit(&mut self.random) * (self.space.east - width_m);
        let south = unit(&mut self.random) * (self.space.north - height_m);
        self.around(west + width_m / 2.0, south + height_m / 2.0)
    }
}
