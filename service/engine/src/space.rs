//! Where do a fleet's objects live, and how do its API coordinates become quanta?
//!
//! Coordinates cross the door once: doubles are rounded to `i32` quanta, half to even, and
//! everything behind it is integers. Order is x = longitude, y = latitude everywhere. This file
//! does not know regions or distances beyond a rank's metres.

use std::fmt;
use std::str::FromStr;

use shoal_codec::{SpaceKind, SpaceTag};

use crate::cycle::Refusal;
use crate::error::GeometryError;
use crate::limits::{PLANAR_QUANTUM_M_MAX, PLANAR_QUANTUM_M_MIN, PLANAR_SIDE_MAX};
use crate::sphere;

/// Quantum of a planar space unless it is given, metres.
pub const PLANAR_QUANTUM_M: f64 = 0.01;
/// Quantum of the geographic space, degrees.
pub const GEOGRAPHIC_QUANTUM_DEG: f64 = 1e-7;
/// Quanta of half a turn: longitude 180, which is stored as -180.
pub const HALF_TURN: i32 = 1_800_000_000;
/// Quanta of a right angle: latitude 90.
pub const QUARTER_TURN: i32 = 900_000_000;

/// A closed rectangle of quanta; both corners belong to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuantaRect {
    /// Least x.
    pub x_min: i32,
    /// Least y.
    pub y_min: i32,
    /// Greatest x, at least `x_min`.
    pub x_max: i32,
    /// Greatest y, at least `y_min`.
    pub y_max: i32,
}

impl QuantaRect {
    /// Whether a point lies in it.
    #[inline]
    #[must_use]
    pub fn contains(&self, x: i32, y: i32) -> bool {
        (self.x_min <= x) & (x <= self.x_max) & (self.y_min <= y) & (y <= self.y_max)
    }

    /// Whether all of another one lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.contains(other.x_min, other.y_min) && self.contains(other.x_max, other.y_max)
    }

    /// The points that both have; `None` when there are none.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let both = Self {
            x_min: self.x_min.max(other.x_min),
            y_min: self.y_min.max(other.y_min),
            x_max: self.x_max.min(other.x_max),
            y_max: self.y_max.min(other.y_max),
        };
        (both.x_min <= both.x_max && both.y_min <= both.y_max).then_some(both)
    }
}

/// The coordinate space of one fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    kind: SpaceKind,
    bounds: QuantaRect,
    quantum: f64,
    /// Quanta in one degree or metre where that is a whole number, else 0: dividing by it gives
    /// the double nearest to the decimal that was meant, multiplying by the quantum does not.
    per_unit: f64,
}

impl Space {
    /// WGS 84: longitude and latitude in degrees, 1e-7 degree a quantum.
    #[must_use]
    pub fn geographic() -> Self {
        Self {
            kind: SpaceKind::Geographic,
            bounds: QuantaRect {
                x_min: -HALF_TURN,
                y_min: -QUARTER_TURN,
                x_max: HALF_TURN - 1,
                y_max: QUARTER_TURN,
            },
            quantum: GEOGRAPHIC_QUANTUM_DEG,
            per_unit: 1e7,
        }
    }

    /// A plane from (0, 0) to (`width_m`, `height_m`), both borders inside.
    ///
    /// # Errors
    /// [`GeometryError`] for a side that is not 1 to [`PLANAR_SIDE_MAX`] quanta after rounding and
    /// a quantum outside [`PLANAR_QUANTUM_M_MIN`], [`PLANAR_QUANTUM_M_MAX`].
    pub fn planar(width_m: f64, height_m: f64, quantum_m: f64) -> Result<Self, GeometryError> {
        let (min, max) = (PLANAR_QUANTUM_M_MIN, PLANAR_QUANTUM_M_MAX);
        in_range("the quantum in metres", quantum_m, min, max)?;
        let inverse = (1.0 / quantum_m).round();
        let mut space = Self {
            kind: SpaceKind::Planar,
            bounds: QuantaRect { x_min: 0, y_min: 0, x_max: 0, y_max: 0 },
            quantum: quantum_m,
            per_unit: if 1.0 / inverse == quantum_m { inverse } else { 0.0 },
        };
        let side = |what, side_m: f64| {
            let limit = PLANAR_SIDE_MAX as f64;
            let quanta = space.round(finite(what, side_m)?);
            if (1.0..=limit).contains(&quanta) {
                Ok(quanta as i32)
            } else {
                let (min, max) = (quantum_m, limit * quantum_m);
                Err(GeometryError::OutOfRange { what, value: side_m, min, max })
            }
        };
        let (x_max, y_max) = (side("the width in metres", width_m)?, side("the height", height_m)?);
        space.bounds = QuantaRect { x_min: 0, y_min: 0, x_max, y_max };
        Ok(space)
    }

    /// True for longitude and latitude, false for metres.
    #[inline]
    #[must_use]
    pub fn is_geographic(&self) -> bool {
        self.kind == SpaceKind::Geographic
    }

    /// Degrees or metres of one quantum.
    #[must_use]
    pub fn quantum(&self) -> f64 {
        self.quantum
    }

    /// Every storable point, and no other.
    #[must_use]
    pub fn bounds(&self) -> QuantaRect {
        self.bounds
    }

    /// The quanta of a point, rounded half to even; longitude 180 becomes -180.
    ///
    /// # Errors
    /// [`Refusal::NotFinite`]; [`Refusal::OutsideSpace`] when the rounded point is not in the
    /// space.
    pub fn quantise(&self, x: f64, y: f64) -> Result<(i32, i32), Refusal> {
        if !(x.is_finite() && y.is_finite()) {
            return Err(Refusal::NotFinite);
        }
        // The cast saturates; saturated values are in no space but the largest planar one, whose
        // side is i32::MAX: there the float decides.
        let (x, y) = (self.round(x), self.round(y));
        let mut x_quanta = x as i32;
        if self.is_geographic() && x_quanta == HALF_TURN {
            x_quanta = -HALF_TURN;
        }
        let fits = x <= f64::from(i32::MAX) && y <= f64::from(i32::MAX);
        if fits && self.bounds.contains(x_quanta, y as i32) {
            Ok((x_quanta, y as i32))
        } else {
            Err(Refusal::OutsideSpace)
        }
    }

    /// Degrees or metres of a point in quanta.
    #[must_use]
    pub fn to_api(&self, x: i32, y: i32) -> (f64, f64) {
        (self.unit(f64::from(x)), self.unit(f64::from(y)))
    }

    /// How blocks of this space name it.
    #[must_use]
    pub fn tag(&self) -> SpaceTag {
        SpaceTag { kind: self.kind, origin_x: 0.0, origin_y: 0.0, quantum: self.quantum }
    }

    /// Metres of a rank ([`crate::rank::Ranker`]): for people, never compared.
    #[must_use]
    pub fn distance_m(&self, rank: u64) -> f64 {
        if self.is_geographic() {
            sphere::distance_m(f64::from_bits(rank))
        } else {
            (rank as f64).sqrt() * self.quantum
        }
    }

    /// The whole number of quanta nearest to `value` degrees or metres, not bounded.
    pub(crate) fn round(&self, value: f64) -> f64 {
        let quanta = if self.per_unit > 0.0 { value * self.per_unit } else { value / self.quantum };
        quanta.round_ties_even()
    }

    fn unit(&self, quanta: f64) -> f64 {
        if self.per_unit > 0.0 { quanta / self.per_unit } else { quanta * self.quantum }
    }
}

/// `value`, when it is a finite number.
pub(crate) fn finite(what: &'static str, value: f64) -> Result<f64, GeometryError> {
    if value.is_finite() { Ok(value) } else { Err(GeometryError::NotFinite { what, value }) }
}

/// `value`, when it is finite and lies in `[min, max]`.
pub(crate) fn in_range(
    what: &'static str,
    value: f64,
    min: f64,
    max: f64,
) -> Result<f64, GeometryError> {
    if (min..=max).contains(&finite(what, value)?) {
        Ok(value)
    } else {
        Err(GeometryError::OutOfRange { what, value, min, max })
    }
}

impl fmt::Display for Space {
    /// The form that [`Space::from_str`] reads back as the same space.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_geographic() {
            return write!(f, "geographic");
        }
        let (width_m, height_m) = self.to_api(self.bounds.x_max, self.bounds.y_max);
        write!(f, "planar:{width_m}x{height_m}")?;
        if self.quantum.to_bits() == PLANAR_QUANTUM_M.to_bits() {
            Ok(())
        } else {
            write!(f, ":{}", self.quantum)
        }
    }
}

impl FromStr for Space {
    type Err = GeometryError;

    /// Reads `geographic` or `planar:WIDTHxHEIGHT[:QUANTUM]`, metres.
    fn from_str(text: &str) -> Result<Self, GeometryError> {
        let wrong = || {
            GeometryError::Rule(format!(
                "space {text:?} is neither \"geographic\" nor \"planar:WIDTHxHEIGHT[:QUANTUM]\" \
                 with numbers in metres"
            ))
        };
        if text == "geographic" {
            return Ok(Self::geographic());
        }
        let numbers = text.strip_prefix("planar:").ok_or_else(wrong)?;
        let (sides, quantum) = match numbers.split_once(':') {
            Some((sides, quantum)) => (sides, Some(quantum)),
            None => (numbers, None),
        };
        let (width, height) = sides.split_once('x').ok_or_else(wrong)?;
        let number = |digits: &str| digits.parse::<f64>().map_err(|_| wrong());
        let quantum_m = quantum.map_or(Ok(PLANAR_QUANTUM_M), number)?;
        Self::planar(number(width)?, number(height)?, quantum_m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn geographic_rounds_half_to_even_and_wraps_180() {
        let space = Space::geographic();
        assert_eq!(space.quantise(180.0, 90.0), Ok((-HALF_TURN, QUARTER_TURN)));
        assert_eq!(space.quantise(-180.0, -90.0), Ok((-HALF_TURN, -QUARTER_TURN)));
        assert_eq!(space.quantise(0.000_000_05, 0.000_000_15), Ok((0, 2)));
        assert_eq!(space.quantise(-97.7431, 30.2672), Ok((-977_431_000, 302_672_000)));
        assert_eq!(space.quantise(180.000_000_1, 0.0), Err(Refusal::OutsideSpace));
        assert_eq!(space.quantise(0.0, -90.000_000_1), Err(Refusal::OutsideSpace));
        assert_eq!(space.quantise(1e300, 0.0), Err(Refusal::OutsideSpace));
        for value in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(space.quantise(value, 1e9), Err(Refusal::NotFinite));
            assert_eq!(space.quantise(1e9, value), Err(Refusal::NotFinite));
        }
        assert_eq!(space.to_api(-977_431_000, 302_672_000), (-97.7431, 30.2672));
    }

    #[test]
    fn planar_keeps_both_borders_and_its_decimals() {
        let space = Space::planar(1000.0, 12_345.67, PLANAR_QUANTUM_M).unwrap();
        let bounds = space.bounds();
        assert_eq!((bounds.x_min, bounds.y_min), (0, 0));
        assert_eq!((bounds.x_max, bounds.y_max), (100_000, 1_234_567));
        assert_eq!(space.quantise(1000.0, 12_345.67), Ok((100_000, 1_234_567)));
        assert_eq!(space.quantise(-0.004, 0.0), Ok((0, 0)));
        assert_eq!(space.quantise(-0.01, 0.0), Err(Refusal::OutsideSpace));
        assert_eq!(space.to_api(29, 1_234_567), (0.29, 12_345.67));
        assert_eq!(space.distance_m(25), 0.05);
    }

    #[test]
    fn the_largest_plane_has_no_room_beyond_it() {
        let space = Space::planar(2_147_483_647.0, 2_147_483_647.0, 1.0).unwrap();
        assert_eq!(space.quantise(2_147_483_647.0, 0.0), Ok((i32::MAX, 0)));
        assert_eq!(space.quantise(2_147_483_648.0, 0.0), Err(Refusal::OutsideSpace));
        assert_eq!(space.quantise(0.0, 1e18), Err(Refusal::OutsideSpace));
        assert!(Space::planar(2_147_483_648.0, 1.0, 1.0).is_err());
    }

    #[test]
    fn impossible_planes_are_named() {
        for (width_m, height_m, quantum_m) in [
            (0.0, 1.0, 0.01),
            (-1.0, 1.0, 0.01),
            (1.0, f64::NAN, 0.01),
            (f64::INFINITY, 1.0, 0.01),
            (1.0, 1.0, 0.0),
            (1.0, 1.0, -0.01),
            (1.0, 1.0, f64::NAN),
            (1e12, 1.0, 0.01),
        ] {
            let error = Space::planar(width_m, height_m, quantum_m).unwrap_err();
            assert!(error.to_string().contains("it must"), "{error}");
        }
    }

    #[test]
    fn text_comes_back_as_the_same_space() {
        for text in ["geographic", "planar:1000x12345.67", "planar:100x7:0.5", "planar:3x9:0.3"] {
            let space: Space = text.parse().unwrap();
            assert_eq!(space.to_string(), text);
            assert_eq!(space.to_string().parse::<Space>().unwrap(), space);
        }
        for text in ["", "Geographic", "planar", "planar:5", "planar:5x", "planar:5x5:", "flat:1x1"]
        {
            assert!(text.parse::<Space>().unwrap_err().to_string().contains("WIDTHxHEIGHT"));
        }
    }
}
