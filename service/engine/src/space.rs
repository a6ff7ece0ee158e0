//! The coordinate space of a fleet, and the conversion of API coordinates to quanta.
//!
//! Coordinates are converted once, on receipt: doubles are rounded to `i32` quanta, half to even,
//! and all later arithmetic is on integers. Order is x = longitude, y = latitude everywhere.

use std::fmt;
use std::str::FromStr;

use shoal_codec::{SpaceKind, SpaceTag};

use crate::cycle::Refusal;
use crate::error::{GeometryError, number};
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
/// How far a side may be from a multiple of the quantum, relative to the side. Decimal fractions
/// such as 0.01 have no exact double, so products with them are off by some 1e-16. Half a quantum
/// is 2.3e-10 of the longest side.
const SIDE_TOLERANCE: f64 = 1e-12;

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

    /// Whether it contains all of another one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.contains(other.x_min, other.y_min) && self.contains(other.x_max, other.y_max)
    }

    /// The points in both; `None` when there are none.
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

/// One of the two coordinates of a point.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Axis {
    X,
    Y,
}

impl Axis {
    /// The field that holds it.
    fn field(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::Y => "y",
        }
    }
}

/// The coordinate space of one fleet.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Space {
    kind: SpaceKind,
    bounds: QuantaRect,
    /// The greatest x and y in degrees or metres; for a plane its sides as given.
    far: (f64, f64),
    quantum: f64,
    /// Number of quanta in one degree or metre if it is a whole number, else 0. Dividing by it
    /// gives the double nearest to the decimal; multiplying by the quantum does not.
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
            far: (f64::from(HALF_TURN - 1) / 1e7, 90.0),
            quantum: GEOGRAPHIC_QUANTUM_DEG,
            per_unit: 1e7,
        }
    }

    /// A plane from (0, 0) to (`width_m`, `height_m`), both borders inside.
    ///
    /// # Errors
    /// [`GeometryError`] in `width_m` and `height_m` for a side that is not a multiple of the
    /// quantum (up to the rounding of decimal fractions) or not 1 to [`PLANAR_SIDE_MAX`] quanta,
    /// in `quantum_m` for one outside [`PLANAR_QUANTUM_M_MIN`], [`PLANAR_QUANTUM_M_MAX`].
    pub fn planar(width_m: f64, height_m: f64, quantum_m: f64) -> Result<Self, GeometryError> {
        let range = [PLANAR_QUANTUM_M_MIN, PLANAR_QUANTUM_M_MAX];
        let (field, name) = ("quantum_m", "quantum");
        if !(range[0]..=range[1]).contains(&finite(field, name, quantum_m)?) {
            return Err(GeometryError::outside(field, (name, " m"), quantum_m, range));
        }
        let inverse = (1.0 / quantum_m).round();
        let mut space = Self {
            kind: SpaceKind::Planar,
            bounds: QuantaRect { x_min: 0, y_min: 0, x_max: 0, y_max: 0 },
            far: (width_m, height_m),
            quantum: quantum_m,
            per_unit: if 1.0 / inverse == quantum_m { inverse } else { 0.0 },
        };
        let x_max = space.side("width_m", "width", width_m)?;
        let y_max = space.side("height_m", "height", height_m)?;
        space.bounds = QuantaRect { x_min: 0, y_min: 0, x_max, y_max };
        Ok(space)
    }

    /// Quanta of a plane's side.
    fn side(&self, field: &str, name: &str, side_m: f64) -> Result<i32, GeometryError> {
        let longest = PLANAR_SIDE_MAX as f64;
        let quanta = self.round(finite(field, name, side_m)?);
        if !(1.0..=longest).contains(&quanta) {
            let range = [self.quantum, self.unit(longest)];
            return Err(GeometryError::outside(field, (name, " m"), side_m, range));
        }
        if (self.unit(quanta) - side_m).abs() <= SIDE_TOLERANCE * side_m {
            return Ok(quanta as i32);
        }
        let (side_m, quantum_m) = (number(side_m), number(self.quantum));
        let problem = format!("{name} {side_m} m is not a multiple of the quantum, {quantum_m} m");
        Err(GeometryError::new(field, problem))
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

    /// The rectangle of all storable points.
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
        // The cast saturates. Only the largest planar space, whose side is i32::MAX, contains a
        // saturated value; the float decides there.
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

    /// As [`Space::quantise`], for a point of a request.
    ///
    /// # Errors
    /// [`GeometryError`] in `x` or `y`.
    pub fn point(&self, x: f64, y: f64) -> Result<(i32, i32), GeometryError> {
        let side = |axis, value, min, max| {
            let mut quanta = self.coordinate(axis, value)?;
            if self.is_geographic() && axis == Axis::X && quanta == f64::from(HALF_TURN) {
                quanta = f64::from(-HALF_TURN);
            }
            let is_inside = (f64::from(min)..=f64::from(max)).contains(&quanta);
            is_inside.then_some(quanta as i32).ok_or_else(|| self.outside(axis, value, [min, max]))
        };
        let QuantaRect { x_min, y_min, x_max, y_max } = self.bounds;
        Ok((side(Axis::X, x, x_min, x_max)?, side(Axis::Y, y, y_min, y_max)?))
    }

    /// One coordinate of a region in quanta, not bounded in a plane; longitude 180 is kept apart
    /// from -180.
    pub(crate) fn coordinate(&self, axis: Axis, value: f64) -> Result<f64, GeometryError> {
        let quanta = self.round(finite(axis.field(), self.name(axis).0, value)?);
        let max = if axis == Axis::X { HALF_TURN } else { QUARTER_TURN };
        if self.is_geographic() && quanta.abs() > f64::from(max) {
            return Err(self.outside(axis, value, [-max, max]));
        }
        Ok(quanta)
    }

    /// The error of a coordinate that is not among these quanta.
    pub(crate) fn outside(&self, axis: Axis, value: f64, quanta: [i32; 2]) -> GeometryError {
        let range = quanta.map(|quanta| self.unit(f64::from(quanta)));
        GeometryError::outside(axis.field(), self.name(axis), value, range)
    }

    /// The name of a coordinate, and its unit as errors print it.
    fn name(&self, axis: Axis) -> (&'static str, &'static str) {
        match axis {
            Axis::X if self.is_geographic() => ("longitude", ""),
            Axis::Y if self.is_geographic() => ("latitude", ""),
            axis => (axis.field(), " m"),
        }
    }

    /// Degrees or metres of a point in quanta; the far borders of a plane are its sides as given.
    #[must_use]
    pub fn to_api(&self, x: i32, y: i32) -> (f64, f64) {
        let side = |quanta: i32, max: i32, far: f64| {
            if quanta == max { far } else { self.unit(f64::from(quanta)) }
        };
        (side(x, self.bounds.x_max, self.far.0), side(y, self.bounds.y_max, self.far.1))
    }

    /// The tag of this space in blocks.
    #[must_use]
    pub fn tag(&self) -> SpaceTag {
        SpaceTag { kind: self.kind, origin_x: 0.0, origin_y: 0.0, quantum: self.quantum }
    }

    /// Metres of a rank ([`crate::rank::Ranker`]), for display. Geographic: accurate to some
    /// nanometres except near the antipode, see [`sphere::distance_m`].
    #[must_use]
    pub fn distance_m(&self, rank: u64) -> f64 {
        if self.is_geographic() {
            sphere::distance_m(f64::from_bits(rank))
        } else {
            (rank as f64).sqrt() * self.quantum
        }
    }

    /// The greatest rank ([`crate::rank::Ranker`]) within a distance, which is neither negative nor
    /// NaN; `u64::MAX` when every point is.
    #[must_use]
    pub fn rank_within(&self, distance_m: f64) -> u64 {
        if self.is_geographic() {
            return sphere::chord_squared_of(distance_m).map_or(u64::MAX, f64::to_bits);
        }
        // The longest squared distance is below 2^63. The cast saturates.
        let quanta = self.round(distance_m) as u64;
        if quanta < 1 << 32 { quanta * quanta } else { u64::MAX }
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
pub(crate) fn finite(field: &str, name: &str, value: f64) -> Result<f64, GeometryError> {
    if value.is_finite() { Ok(value) } else { Err(GeometryError::not_finite(field, name)) }
}

impl fmt::Display for Space {
    /// Writes the text that [`Space::from_str`] reads back as the same space.
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
            let forms = "\"geographic\" or \"planar:WIDTHxHEIGHT[:QUANTUM]\"";
            let problem =
                format!("\"{text}\" is not a space: write {forms} with numbers in metres");
            GeometryError::new("space", problem)
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
            let text = error.to_string();
            assert!(text.contains("finite") || text.contains("outside"), "{error}");
        }
        let fault = |width_m, height_m, quantum_m| {
            let error = Space::planar(width_m, height_m, quantum_m).unwrap_err();
            format!("{}: {error}", error.field())
        };
        assert_eq!(fault(0.0, 1.0, 0.01), "width_m: width 0 m is outside 0.01 to 21474836.47 m");
        assert_eq!(fault(1.0, f64::NAN, 0.01), "height_m: height must be a finite number");
        assert_eq!(fault(1.0, 1.0, 0.0), "quantum_m: quantum 0 m is outside 0.000001 to 1000000 m");
    }

    #[test]
    fn sides_are_multiples_of_the_quantum() {
        let fault = |width_m, height_m, quantum_m| {
            let error = Space::planar(width_m, height_m, quantum_m).unwrap_err();
            format!("{}: {error}", error.field())
        };
        let not = "is not a multiple of the quantum,";
        assert_eq!(fault(10.0, 10.0, 6.0), format!("width_m: width 10 m {not} 6 m"));
        assert_eq!(fault(12.0, 10.0, 6.0), format!("height_m: height 10 m {not} 6 m"));
        assert_eq!(fault(0.015, 1.0, 0.01), format!("width_m: width 0.015 m {not} 0.01 m"));
        assert_eq!(fault(100.001, 1.0, 0.01), format!("width_m: width 100.001 m {not} 0.01 m"));
        // The longest side, off by a millionth of a quantum's half.
        assert!(Space::planar(2_147_483_646.5, 1.0, 1.0).is_err());
    }

    #[test]
    fn sides_round_trip() {
        let quanta = [0.01, 0.1, 0.3, 0.7, 1.1, 0.000_001, 0.123_456, 6.0, 1.0 / 3.0, 1e6];
        for quantum_m in quanta {
            for count in [1_u32, 2, 3, 7, 10, 99, 1_000, 123_457, 10_000_000, i32::MAX as u32] {
                // The decimal that a user would write, and the product that a program computes.
                let product = f64::from(count) * quantum_m;
                let decimal = format!("{product:.6}").parse::<f64>().unwrap();
                let is_decimal = (decimal - product).abs() < 1e-12 * product;
                for side_m in [product, if is_decimal { decimal } else { product }] {
                    let space = Space::planar(side_m, quantum_m, quantum_m).unwrap();
                    let bounds = space.bounds();
                    assert_eq!((bounds.x_max, bounds.y_max), (count as i32, 1));
                    assert_eq!(space.to_api(bounds.x_max, 1), (side_m, quantum_m));
                    assert_eq!(space.quantise(side_m, 0.0), Ok((bounds.x_max, 0)));
                    assert_eq!(space.to_string().parse(), Ok(space));
                }
            }
        }
    }

    #[test]
    fn points_name_the_coordinate_at_fault() {
        let fault = |space: &Space, x, y| {
            let error = space.point(x, y).unwrap_err();
            format!("{}: {error}", error.field())
        };
        let world = Space::geographic();
        assert_eq!(fault(&world, 200.0, 0.0), "x: longitude 200 is outside -180 to 180");
        assert_eq!(fault(&world, 0.0, -91.5), "y: latitude -91.5 is outside -90 to 90");
        assert_eq!(fault(&world, 0.0, f64::INFINITY), "y: latitude must be a finite number");
        assert_eq!(fault(&world, 1e300, 0.0), "x: longitude 1e300 is outside -180 to 180");
        let plane = Space::planar(1_000.0, 50.0, 0.01).unwrap();
        assert_eq!(fault(&plane, -3.0, 0.0), "x: x -3 m is outside 0 to 1000 m");
        assert_eq!(fault(&plane, 3.0, 50.25), "y: y 50.25 m is outside 0 to 50 m");
        assert_eq!(fault(&plane, f64::NAN, 50.25), "x: x must be a finite number");
        let largest = Space::planar(2_147_483_647.0, 2_147_483_647.0, 1.0).unwrap();
        let values = [0.0, -0.004, 1.0, 50.0, 90.0, 180.0, -180.0, 180.000_000_1, 1e9, 1e18, 2e9];
        for space in [world, plane, largest] {
            for x in values {
                for y in values {
                    assert_eq!(space.point(x, y).ok(), space.quantise(x, y).ok(), "{x} {y}");
                }
            }
        }
    }

    #[test]
    fn text_round_trips() {
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
