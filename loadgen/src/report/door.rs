//! What will the server store of a fix?
//!
//! The conversions that the API's documentation promises, written once more: doubles to quanta by
//! the space, floats to millimetres and hundredths, half to even, and the poison of what is wrong.
//! Blocks are made of the result, and the oracle is fed with it.

use shoal_codec::{FixRow, HEADING_UNKNOWN, SPEED_UNKNOWN};
use shoal_engine::{Refusal, Space};
use shoal_workload::Fix;

/// Speeds are stored below this, millimetres a second: the two values above are poison and unknown.
const SPEED_END_MM_S: f64 = 4_294_967_294.0;

/// A fix as the server stores it, or refuses it.
#[must_use]
pub fn stored(space: &Space, fix: &Fix) -> FixRow {
    let (x, y) = match space.quantise(fix.x, fix.y) {
        Ok(point) => point,
        Err(Refusal::NotFinite) => (Refusal::POISON_NOT_FINITE, 0),
        Err(_) => (Refusal::POISON_OUTSIDE, 0),
    };
    FixRow {
        speed_mm_s: fix.speed_mps.map_or(SPEED_UNKNOWN, |speed| stored_speed(speed as f32)),
        heading_cdeg: fix
            .heading_deg
            .map_or(HEADING_UNKNOWN, |heading| stored_heading(wire_heading(heading))),
        ..FixRow::new(fix.object, fix.time_ms, x, y)
    }
}

/// A heading as it is sent: rounded to the hundredths that are stored, so that a generator's
/// 359.999 is north and not refused as 360. Headings outside `[0, 360)` are sent as they are.
#[must_use]
pub fn wire_heading(heading_deg: f64) -> f32 {
    if (0.0..360.0).contains(&heading_deg) {
        let hundredths = (heading_deg * 100.0 + 0.5) as u32 % 36_000;
        hundredths as f32 / 100.0
    } else {
        heading_deg as f32
    }
}

/// Millimetres a second of a speed on the wire.
fn stored_speed(speed_mps: f32) -> u32 {
    let mm_s = (f64::from(speed_mps) * 1e3).round_ties_even();
    if (0.0..SPEED_END_MM_S).contains(&mm_s) { mm_s as u32 } else { Refusal::POISON_SPEED }
}

/// Hundredths of a degree of a heading on the wire.
fn stored_heading(heading_deg: f32) -> u16 {
    if !(0.0..360.0).contains(&heading_deg) {
        return Refusal::POISON_HEADING;
    }
    let hundredths = (f64::from(heading_deg) * 1e2).round_ties_even() as u32 % 36_000;
    u16::try_from(hundredths).expect("below a full turn")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fix(x: f64, y: f64, speed_mps: Option<f64>, heading_deg: Option<f64>) -> Fix {
        Fix { object: 7, time_ms: 1_600_000_000_000, x, y, speed_mps, heading_deg }
    }

    #[test]
    fn attributes_become_stored_units() {
        let space = Space::geographic();
        let row = stored(&space, &fix(1.5, -2.5, Some(13.411), Some(359.994)));
        assert_eq!((row.x, row.y), (15_000_000, -25_000_000));
        assert_eq!((row.speed_mm_s, row.heading_cdeg), (13_411, 35_999));
        let row = stored(&space, &fix(0.0, 0.0, None, Some(359.996)));
        assert_eq!((row.speed_mm_s, row.heading_cdeg), (SPEED_UNKNOWN, 0));
    }

    #[test]
    fn what_is_wrong_is_poisoned() {
        let space = Space::planar(10.0, 10.0, 0.01).unwrap();
        let x = |x| stored(&space, &fix(x, 1.0, None, None)).x;
        assert_eq!(x(f64::NAN), Refusal::POISON_NOT_FINITE);
        assert_eq!(x(11.0), Refusal::POISON_OUTSIDE);
        let speed = |speed| stored(&space, &fix(1.0, 1.0, Some(speed), None)).speed_mm_s;
        for wrong in [-1.0, f64::NAN, f64::INFINITY, 1e30] {
            assert_eq!(speed(wrong), Refusal::POISON_SPEED, "{wrong}");
        }
        let heading = |deg| stored(&space, &fix(1.0, 1.0, None, Some(deg))).heading_cdeg;
        for wrong in [-1.0, 360.0, f64::NAN] {
            assert_eq!(heading(wrong), Refusal::POISON_HEADING, "{wrong}");
        }
    }
}
