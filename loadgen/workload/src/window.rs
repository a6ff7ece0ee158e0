//! Query windows.
//!
//! A window lies inside its space and does not cross the antimeridian: one that would stick out is
//! moved inwards with its size.

use rand_xoshiro::Xoshiro256PlusPlus;

use crate::Params;
use crate::random::{Domain, stream, unit};

/// A closed rectangle, `west <= east` and `south <= north`, in the unit of its space.
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

    /// The window with these sides around a centre, moved to lie inside `space`.
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
    /// Windows of `Params::window` of each side of a space.
    pub(crate) fn new(params: &Params, (width_m, height_m): (f64, f64)) -> Self {
        Self {
            random: stream(params.seed, Domain::Windows, u64::from(params.shard)),
            space: Window { west: 0.0, south: 0.0, east: width_m, north: height_m },
            sides_m: (params.window * width_m, params.window * height_m),
        }
    }

    /// The window around a point.
    pub(crate) fn around(&self, centre: (f64, f64)) -> Window {
        Window::around(centre, self.sides_m, &self.space)
    }

    /// A window whose lower left corner is uniform over the places where it fits.
    pub(crate) fn anywhere(&mut self) -> Window {
        let (width_m, height_m) = self.sides_m;
        let west = unit(&mut self.random) * (self.space.east - width_m);
        let south = unit(&mut self.random) * (self.space.north - height_m);
        self.around((west + width_m / 2.0, south + height_m / 2.0))
    }
}
