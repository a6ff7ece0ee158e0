//! Stored units of speed, heading and altitude.
//!
//! Doubles are rounded half to even. A value that cannot be stored becomes the poison value of its
//! reason, so that the engine refuses that row alone. `Quantizer` of the client library converts
//! in the same way, so that rows and blocks give the same records.

use shoal_engine::Refusal;

/// Hundredths of a degree in a full turn.
pub(crate) const TURN_CDEG: u16 = 36_000;

/// The stored speed of `speed_mps`.
pub(crate) fn speed_mm_s(speed_mps: f32) -> u32 {
    let speed = (f64::from(speed_mps) * 1e3).round_ties_even();
    if (0.0..f64::from(Refusal::POISON_SPEED)).contains(&speed) {
        speed as u32
    } else {
        Refusal::POISON_SPEED
    }
}

/// The stored heading of `heading_deg`; one that rounds to a full turn is north.
pub(crate) fn heading_cdeg(heading_deg: f32) -> u16 {
    if !(0.0..360.0).contains(&heading_deg) {
        return Refusal::POISON_HEADING;
    }
    let heading = (f64::from(heading_deg) * 1e2).round_ties_even();
    if heading < f64::from(TURN_CDEG) { heading as u16 } else { 0 }
}

/// The stored altitude of `altitude_m`.
pub(crate) fn altitude_mm(altitude_m: f64) -> i32 {
    let altitude = (altitude_m * 1e3).round_ties_even();
    let least = f64::from(Refusal::POISON_ALTITUDE + 1);
    if (least..=f64::from(i32::MAX)).contains(&altitude) {
        altitude as i32
    } else {
        Refusal::POISON_ALTITUDE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_are_stored_or_poisoned_at_their_borders() {
        assert_eq!(speed_mm_s(0.0), 0);
        assert_eq!(speed_mm_s(-0.0), 0);
        assert_eq!(speed_mm_s(1.25), 1250);
        assert_eq!(speed_mm_s(4_294_967.0), 4_294_967_000);
        // Rounding precedes the check.
        assert_eq!(speed_mm_s(-0.0001), 0);
        for bad in [-0.001, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, 4_294_968.0] {
            assert_eq!(speed_mm_s(bad), Refusal::POISON_SPEED, "{bad}");
        }
        assert_eq!(heading_cdeg(359.99), 35_999);
        assert_eq!(heading_cdeg(359.9999), 0);
        for bad in [-0.01, 360.0, f32::NAN, f32::INFINITY] {
            assert_eq!(heading_cdeg(bad), Refusal::POISON_HEADING, "{bad}");
        }
        assert_eq!(altitude_mm(-12.3456), -12_346);
        assert_eq!(altitude_mm(2_147_483.647), i32::MAX);
        assert_eq!(altitude_mm(-2_147_483.646), i32::MIN + 2);
        for bad in [-2_147_483.647, 2_147_483.648, f64::NAN, f64::INFINITY] {
            assert_eq!(altitude_mm(bad), Refusal::POISON_ALTITUDE, "{bad}");
        }
    }
}
