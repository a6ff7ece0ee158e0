//! Converts longitude and latitude in quanta to unit vectors, bit-identical on every machine.
//!
//! Fixed arithmetic: integer reduction to half a right angle around an axis, then Taylor
//! polynomials in f64 additions and multiplications in written order; no libm, no fused
//! multiply-add. Only [`distance_m`] may use libm: its result is displayed, never compared.

use std::f64::consts::{FRAC_PI_2, FRAC_PI_4};

/// Mean radius of the Earth in metres: (2a + b) / 3 of WGS 84.
pub const EARTH_RADIUS_M: f64 = 6_371_008.8;

/// Radians of one quantum: pi / 1.8e9.
const RADIANS_PER_QUANTUM: f64 = std::f64::consts::PI / 1.8e9;
/// Quanta of a right angle and of half a right angle.
const RIGHT: i32 = 900_000_000;
const EIGHTH: i32 = RIGHT / 2;

/// Taylor coefficients of sine: -1/3!, 1/5!, ... -1/15!.
///
/// |t| <= pi/4, so the first sine term left out is below t^17/17! < 4.7e-17 and the first cosine
/// term below t^18/18! < 2.1e-18; with rounding every result is within 2.3e-16 of the truth for the
/// reduced angle, whose own relative error is below 2.3e-16.
const SINE: [f64; 7] = [
    -1.0 / 6.0,
    1.0 / 120.0,
    -1.0 / 5_040.0,
    1.0 / 362_880.0,
    -1.0 / 39_916_800.0,
    1.0 / 6_227_020_800.0,
    -1.0 / 1_307_674_368_000.0,
];
/// Taylor coefficients of cosine beyond 1 - t^2/2: 1/4!, -1/6!, ... 1/16!.
const COSINE: [f64; 7] = [
    1.0 / 24.0,
    -1.0 / 720.0,
    1.0 / 40_320.0,
    -1.0 / 3_628_800.0,
    1.0 / 479_001_600.0,
    -1.0 / 87_178_291_200.0,
    1.0 / 20_922_789_888_000.0,
];

/// The polynomial with these seven coefficients at `u`, by Horner from the last.
#[inline(always)]
fn horner(c: &[f64; 7], u: f64) -> f64 {
    ((((((c[6] * u + c[5]) * u + c[4]) * u + c[3]) * u + c[2]) * u + c[1]) * u) + c[0]
}

/// Sine of `t` radians, |t| <= pi/4.
#[inline(always)]
fn sine_near(t: f64) -> f64 {
    let u = t * t;
    t + (t * u) * horner(&SINE, u)
}

/// Cosine of `t` radians, |t| <= pi/4.
#[inline(always)]
fn cosine_near(t: f64) -> f64 {
    let u = t * t;
    (1.0 - 0.5 * u) + (u * u) * horner(&COSINE, u)
}

/// Sine and cosine of an angle in quanta; any `i32` is allowed.
#[inline(always)]
#[must_use]
pub fn sine_cosine(quanta: i32) -> (f64, f64) {
    // The nearest multiple of a right angle, -2 to 2, by comparisons alone.
    let turns = i32::from(quanta >= -3 * EIGHTH)
        + i32::from(quanta >= -EIGHTH)
        + i32::from(quanta >= EIGHTH)
        + i32::from(quanta >= 3 * EIGHTH)
        - 2;
    let t = f64::from(quanta - turns * RIGHT) * RADIANS_PER_QUANTUM;
    let (s, c) = (sine_near(t), cosine_near(t));
    let (s, c) = if turns & 1 == 0 { (s, c) } else { (c, s) };
    // Quadrants 0, 1, 2, 3: sine + + - -, cosine + - - +.
    let s = if turns & 2 == 0 { s } else { -s };
    let c = if (turns + 1) & 2 == 0 { c } else { -c };
    (s, c)
}

/// The unit vector of a longitude and a latitude in quanta.
#[inline(always)]
#[must_use]
pub fn unit_vector(longitude: i32, latitude: i32) -> [f64; 3] {
    let (sin_lon, cos_lon) = sine_cosine(longitude);
    let (sin_lat, cos_lat) = sine_cosine(latitude);
    [cos_lat * cos_lon, cos_lat * sin_lon, sin_lat]
}

/// Squared chord between two unit vectors, 0 to 4.
#[inline(always)]
#[must_use]
pub fn chord_squared(a: &[f64; 3], b: &[f64; 3]) -> f64 {
    let (dx, dy, dz) = (a[0] - b[0], a[1] - b[1], a[2] - b[2]);
    dx * dx + dy * dy + dz * dz
}

/// Squared chord of a great-circle distance: 4 sin^2(r / 2R). `None` from pi R on, where the circle
/// is the whole sphere.
///
/// `radius_m` is not negative and not NaN.
#[must_use]
pub fn chord_squared_of(radius_m: f64) -> Option<f64> {
    let half = radius_m / (2.0 * EARTH_RADIUS_M);
    if half >= FRAC_PI_2 {
        return None;
    }
    let s = if half <= FRAC_PI_4 { sine_near(half) } else { cosine_near(FRAC_PI_2 - half) };
    Some(4.0 * (s * s))
}

/// Great-circle metres of a squared chord: 2 R asin(sqrt(c) / 2). For display only.
///
/// Near the antipode the chord hardly changes with the distance, so a double is less accurate. The
/// error is below 10 nm plus the smaller of 0.35 m and 0.12 m² / d, where d is the distance
/// from the antipode (measured by `tests/geometry/distances.rs`): from 11 m on it is below one
/// quantum.
#[must_use]
pub fn distance_m(chord_squared: f64) -> f64 {
    2.0 * EARTH_RADIUS_M * (chord_squared.sqrt() * 0.5).min(1.0).asin()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sine_and_cosine_agree_with_libm() {
        let mut worst: f64 = 0.0;
        for step in -1_000_000_i64..=1_000_000 {
            let quanta = (step * 1_800 + step % 7).clamp(-1_800_000_000, 1_800_000_000) as i32;
            let (s, c) = sine_cosine(quanta);
            // Reduce in integers here as well: libm is then exact to half an ulp.
            let eighths = (i64::from(quanta) + 4 * 450_000_000) / 450_000_000;
            let base = (eighths - 4) * 450_000_000;
            let t = (i64::from(quanta) - base) as f64 * RADIANS_PER_QUANTUM;
            let angle = (eighths - 4) as f64 * FRAC_PI_4 + t;
            worst = worst.max((s - angle.sin()).abs()).max((c - angle.cos()).abs());
        }
        assert!(worst < 1e-15, "worst difference {worst:e}");
    }

    #[test]
    fn small_angles_keep_their_relative_precision() {
        for quanta in [1, 2, 3, 10, 1_000, 123_456, 449_999_999] {
            let t = f64::from(quanta) * RADIANS_PER_QUANTUM;
            let (s, c) = sine_cosine(quanta);
            assert!(((s - t.sin()) / t.sin()).abs() < 3e-16, "sine of {quanta}");
            assert!(((c - t.cos()) / t.cos()).abs() < 3e-16, "cosine of {quanta}");
            assert_eq!(sine_cosine(-quanta), (-s, c));
            assert_eq!(sine_cosine(RIGHT - quanta), (c, s));
            assert_eq!(sine_cosine(RIGHT + quanta), (c, -s));
        }
    }

    #[test]
    fn axes_are_exact() {
        assert_eq!(unit_vector(0, 0), [1.0, 0.0, 0.0]);
        assert_eq!(unit_vector(RIGHT, 0), [0.0, 1.0, 0.0]);
        assert_eq!(unit_vector(-2 * RIGHT, 0), unit_vector(2 * RIGHT, 0));
        for longitude in [-1_800_000_000, -1, 0, 977_431_000] {
            assert_eq!(unit_vector(longitude, RIGHT), [0.0, 0.0, 1.0]);
            assert_eq!(unit_vector(longitude, -RIGHT), [0.0, 0.0, -1.0]);
        }
    }

    #[test]
    fn every_i32_has_a_unit_vector() {
        for quanta in [i32::MIN, i32::MIN + 1, -RIGHT, i32::MAX] {
            let (s, c) = sine_cosine(quanta);
            assert!((s * s + c * c - 1.0).abs() < 1e-15, "{quanta}");
        }
    }

    #[test]
    fn threshold_and_distance_are_inverse() {
        for radius_m in [0.0, 1e-3, 1.0, 1e3, 1e6, 1e7, 1.9e7, 2.001e7] {
            let chord = chord_squared_of(radius_m).unwrap();
            let libm = (radius_m / (2.0 * EARTH_RADIUS_M)).sin();
            assert!((chord - 4.0 * libm * libm).abs() <= 2e-15 * chord, "{radius_m}");
            assert!((distance_m(chord) - radius_m).abs() < 1e-3, "{radius_m}");
        }
        assert_eq!(chord_squared_of(f64::INFINITY), None);
        assert_eq!(chord_squared_of(2.1e7), None);
    }

    #[test]
    fn golden_bits() {
        // Other machines and devices must give these very bits.
        let [x, y, z] = unit_vector(-977_431_000, 302_672_000).map(f64::to_bits);
        assert_eq!([x, y, z], GOLDEN_AUSTIN);
    }

    const GOLDEN_AUSTIN: [u64; 3] =
        [0xbfbd_ca22_239f_6bc3, 0xbfeb_62ca_21ab_e0e4, 0x3fe0_210a_63f2_8e1b];
}
