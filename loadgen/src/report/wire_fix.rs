//! Fixes of a workload in wire form.
//!
//! Rows and blocks are encoded from the same values. The oracle receives these values as the
//! library's quantizer rounds them.

use shoal_client::v1;
use shoal_workload::Fix;

/// Converts a fix to its wire form.
#[inline]
#[must_use]
pub fn wire_fix(fix: &Fix) -> v1::Fix {
    v1::Fix {
        object: fix.object,
        time_ms: fix.time_ms,
        x: fix.x,
        y: fix.y,
        speed_mps: fix.speed_mps.map(|speed| speed as f32),
        heading_deg: fix.heading_deg.map(wire_heading),
        ..v1::Fix::default()
    }
}

/// Rounds a heading to the stored hundredths, so that a generator's 359.999 becomes north and is
/// not refused as 360. Headings outside `[0, 360)` are unchanged.
#[must_use]
pub fn wire_heading(heading_deg: f64) -> f32 {
    if (0.0..360.0).contains(&heading_deg) {
        let hundredths = (heading_deg * 100.0 + 0.5) as u32 % 36_000;
        hundredths as f32 / 100.0
    } else {
        heading_deg as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headings_are_rounded_and_wrong_ones_unchanged() {
        for (heading, sent) in [(359.994, 359.99), (359.996, 0.0), (360.0, 360.0), (-1.0, -1.0)] {
            assert_eq!(wire_heading(heading), sent, "{heading}");
        }
        assert!(wire_heading(f64::NAN).is_nan());
    }
}
