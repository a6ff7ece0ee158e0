//! The `world` workload: `uniform`, stretched from its square over all longitudes and latitudes.
//!
//! Positions are uniform in degrees, not on the sphere. Fixes have no speed and no heading, because
//! the speed and heading in the square are wrong on the sphere.

use crate::uniform::{SPACE_M, Uniform};
use crate::{Fix, Params, Window, Workload, WorkloadSpace};

/// The `world` workload.
#[derive(Debug)]
pub(crate) struct World(Uniform);

impl World {
    /// The workload of checked parameters.
    pub(crate) fn new(params: &Params) -> Self {
        Self(Uniform::new(params))
    }
}

/// Degrees of a place in the square.
fn stretched(x_m: f64, y_m: f64) -> (f64, f64) {
    let world = Window::WORLD;
    let (width, height) = world.sides();
    (world.west + x_m / SPACE_M * width, world.south + y_m / SPACE_M * height)
}

impl Workload for World {
    fn space(&self) -> WorkloadSpace {
        WorkloadSpace::Geographic
    }

    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
        let before = out.len();
        let filled = self.0.fill(rows, out);
        for fix in &mut out[before..] {
            (fix.x, fix.y) = stretched(fix.x, fix.y);
            (fix.speed_mps, fix.heading_deg) = (None, None);
        }
        filled
    }

    fn window(&mut self) -> Window {
        let window = self.0.window();
        let (west, south) = stretched(window.west, window.south);
        let (east, north) = stretched(window.east, window.north);
        Window { west, south, east, north }
    }
}
