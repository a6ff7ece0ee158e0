//! Directions of motion, in compass turns: 0 is north, 0.25 east.
//!
//! Sine and cosine are fixed polynomials of additions and multiplications, so a seed gives the same
//! bytes on every machine; the mathematics library of the system is not used.

use std::f64::consts::TAU;

/// East and north components of the unit vector of a compass direction in turns, `[0, 1)`.
///
/// Exact to 2 ulp: Taylor series of sine and cosine on the eighth of a circle (the first term left
/// out is below 5e-17), then swapped and signed for the quadrant.
pub(crate) fn east_north(turns: f64) -> (f64, f64) {
    let quarter = (turns * 4.0 + 0.5) as i64;
    let angle = (turns - quarter as f64 * 0.25) * TAU;
    let (sine, cosine) = eighth(angle);
    match quarter & 3 {
        0 => (sine, cosine),
        1 => (cosine, -sine),
        2 => (-sine, -cosine),
        _ => (-cosine, sine),
    }
}

/// Length of a vector; `sqrt` is correctly rounded on every machine, `hypot` is not.
pub(crate) fn length(east: f64, north: f64) -> f64 {
    (east * east + north * north).sqrt()
}

/// Length of a vector and its compass direction in degrees, `[0, 360)`; 0 if it has no length.
pub(crate) fn motion(east: f64, north: f64) -> (f64, f64) {
    let deg = libm::atan2(east, north).to_degrees();
    let deg = if deg < 0.0 { deg + 360.0 } else { deg };
    (length(east, north), if deg < 360.0 { deg } else { 0.0 })
}

/// Sine and cosine for |angle| <= pi/4.
fn eighth(angle: f64) -> (f64, f64) {
    const SINE: [f64; 7] = [
        -1.0 / 1_307_674_368_000.0,
        1.0 / 6_227_020_800.0,
        -1.0 / 39_916_800.0,
        1.0 / 362_880.0,
        -1.0 / 5_040.0,
        1.0 / 120.0,
        -1.0 / 6.0,
    ];
    const COSINE: [f64; 8] = [
        1.0 / 20_922_789_888_000.0,
        -1.0 / 87_178_291_200.0,
        1.0 / 479_001_600.0,
        -1.0 / 3_628_800.0,
        1.0 / 40_320.0,
        -1.0 / 720.0,
        1.0 / 24.0,
        -0.5,
    ];
    let square = angle * angle;
    let sine = SINE.iter().fold(0.0, |sum, term| sum * square + term);
    let cosine = COSINE.iter().fold(0.0, |sum, term| sum * square + term);
    (angle + angle * square * sine, 1.0 + square * cosine)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_polynomials_agree_with_the_library() {
        for step in 0..100_000 {
            let turns = f64::from(step) / 100_000.0;
            let (east, north) = east_north(turns);
            let angle = turns * TAU;
            assert!((east - angle.sin()).abs() < 1e-15, "{turns}");
            assert!((north - angle.cos()).abs() < 1e-15, "{turns}");
        }
    }

    #[test]
    fn headings_are_compass_degrees() {
        for (vector, expected) in [
            ((0.0, 2.0), (2.0, 0.0)),
            ((2.0, 0.0), (2.0, 90.0)),
            ((0.0, -2.0), (2.0, 180.0)),
            ((-2.0, 0.0), (2.0, 270.0)),
            ((-1e-300, 3.0), (3.0, 0.0)),
            ((0.0, 0.0), (0.0, 0.0)),
        ] {
            assert_eq!(motion(vector.0, vector.1), expected);
        }
    }

    #[test]
    fn cardinal_directions_are_exact() {
        assert_eq!(east_north(0.0), (0.0, 1.0));
        assert_eq!(east_north(0.25), (1.0, 0.0));
        assert_eq!(east_north(0.5), (0.0, -1.0));
        assert_eq!(east_north(0.75), (-1.0, 0.0));
    }
}
