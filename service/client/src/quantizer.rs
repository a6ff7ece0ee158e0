//! Rounds fixes to the integers that a fleet stores, as the server does.
//!
//! Blocks hold these integers. A value that cannot be stored is encoded as a value that the server
//! refuses for the same reason; other rows are not affected.

use shoal_codec::{FixRow, SpaceKind, SpaceTag};
use shoal_proto::v1::{self, space::Kind};

use crate::record::row_at;

/// Default quantum of a planar space, in metres.
const PLANAR_QUANTUM_M: f64 = 0.01;
/// Longitude 180 in quanta of 1e-7 degree; stored as -180.
const HALF_TURN: i32 = 1_800_000_000;
/// Latitude 90 in quanta.
const QUARTER_TURN: i32 = 900_000_000;

/// `x` of a position with a coordinate that is NaN or infinite.
const NOT_FINITE_X: i32 = i32::MIN;
/// `x` of a position outside the space.
const OUTSIDE_X: i32 = i32::MIN + 1;

/// Converts fixes of one fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Quantizer {
    kind: SpaceKind,
    quantum: f64,
    /// Quanta per degree or metre if that is a whole number, else 0. Multiplying a decimal fraction
    /// by it rounds to the nearest quantum; dividing by the inexact quantum may not.
    per_unit: f64,
    /// Least and greatest stored x and y.
    x: (i32, i32),
    y: (i32, i32),
}

impl Quantizer {
    /// For a fleet with this space, as `Fleet.space` describes it.
    #[must_use]
    pub fn new(space: Option<&v1::Space>) -> Self {
        let Some(Kind::Planar(plane)) = space.and_then(|space| space.kind.as_ref()) else {
            return Self {
                kind: SpaceKind::Geographic,
                quantum: 1e-7,
                per_unit: 1e7,
                x: (-HALF_TURN, HALF_TURN - 1),
                y: (-QUARTER_TURN, QUARTER_TURN),
            };
        };
        let v1::PlanarSpace { width_m, height_m, quantum_m } = *plane;
        let quantum = if quantum_m == 0.0 { PLANAR_QUANTUM_M } else { quantum_m };
        let inverse = (1.0 / quantum).round();
        let per_unit = if 1.0 / inverse == quantum { inverse } else { 0.0 };
        let mut plane = Self { kind: SpaceKind::Planar, quantum, per_unit, x: (0, 0), y: (0, 0) };
        plane.x.1 = plane.round(width_m) as i32;
        plane.y.1 = plane.round(height_m) as i32;
        plane
    }

    /// The space in the header of a block.
    #[must_use]
    pub fn tag(&self) -> SpaceTag {
        SpaceTag { kind: self.kind, origin_x: 0.0, origin_y: 0.0, quantum: self.quantum }
    }

    /// Returns the row that the server stores for `fix`, or a row that it refuses.
    #[inline]
    #[must_use]
    pub fn row(&self, fix: &v1::Fix) -> FixRow {
        let (x, y) = self.position(fix.x, fix.y);
        row_at(x, y, fix)
    }

    /// The quanta of a position, rounded half to even.
    #[inline]
    fn position(&self, x: f64, y: f64) -> (i32, i32) {
        if !(x.is_finite() && y.is_finite()) {
            return (NOT_FINITE_X, 0);
        }
        let (x, y) = (self.round(x), self.round(y));
        // The casts saturate. The doubles are compared too, so that a value above `i32::MAX` is
        // outside.
        let (mut x_quanta, y_quanta) = (x as i32, y as i32);
        if self.kind == SpaceKind::Geographic && x_quanta == HALF_TURN {
            x_quanta = -HALF_TURN;
        }
        let fits = x <= f64::from(i32::MAX) && y <= f64::from(i32::MAX);
        let is_inside =
            (self.x.0..=self.x.1).contains(&x_quanta) && (self.y.0..=self.y.1).contains(&y_quanta);
        if fits && is_inside { (x_quanta, y_quanta) } else { (OUTSIDE_X, 0) }
    }

    fn round(&self, value: f64) -> f64 {
        let quanta = if self.per_unit > 0.0 { value * self.per_unit } else { value / self.quantum };
        quanta.round_ties_even()
    }
}

#[cfg(test)]
mod tests {
    use shoal_engine::{Refusal, Space};

    use super::*;

    fn plane(width_m: f64, height_m: f64, quantum_m: f64) -> (Quantizer, Space) {
        let kind = Some(Kind::Planar(v1::PlanarSpace { width_m, height_m, quantum_m }));
        let quantum_m = if quantum_m == 0.0 { shoal_engine::PLANAR_QUANTUM_M } else { quantum_m };
        let space = Space::planar(width_m, height_m, quantum_m).unwrap();
        (Quantizer::new(Some(&v1::Space { kind })), space)
    }

    /// Coordinates that encode a refused position in a block.
    fn marked(refusal: Refusal) -> (i32, i32) {
        (if refusal == Refusal::NotFinite { NOT_FINITE_X } else { OUTSIDE_X }, 0)
    }

    #[test]
    fn positions_are_those_of_the_engine() {
        let geographic = (Quantizer::new(None), Space::geographic());
        let largest = f64::from(i32::MAX);
        for (quantizer, space) in [
            geographic,
            plane(1e5, 5e4, 0.0),
            plane(10.0, 20.0, 0.5),
            plane(0.3, 0.7, 0.1),
            plane(largest, largest, 1.0),
        ] {
            assert_eq!(quantizer.tag(), space.tag());
            let bounds = space.bounds();
            let (far_x, far_y) = space.to_api(bounds.x_max, bounds.y_max);
            let mut xs = vec![0.0, -0.0, 179.999_999_95, 180.0, -180.0, 180.1, 1.0 / 3.0, 0.25];
            let near = |far: f64| [far, far + 0.4, far + space.quantum() * 0.4, far + 1.0, -far];
            xs.extend(near(far_x).into_iter().chain(near(far_y)).chain(
                (1..200).map(|step| far_x * f64::from(step) * 0.007_131 - space.quantum() * 0.5),
            ));
            xs.extend([f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e300, 90.0, -90.0]);
            for &x in &xs {
                for &y in &xs {
                    let expected = space.quantise(x, y).unwrap_or_else(marked);
                    assert_eq!(quantizer.position(x, y), expected, "({x}, {y}) in {space}");
                }
            }
        }
    }
}
