//! The baseline compared with a reference map, at rest and during updates.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod concurrent;
mod quiescent;

use shoal_engine::QuantaRect;
use shoal_testkit::Random;

/// Side of the tests' space, quanta.
pub(super) const SPACE: i32 = 1_000;

pub(super) fn bounds() -> QuantaRect {
    QuantaRect { x_min: 0, y_min: 0, x_max: SPACE, y_max: SPACE }
}

/// A point; every fourth is in one corner, which becomes crowded.
pub(super) fn point(random: &mut Random) -> (i32, i32) {
    let side = if random.once_in(4) { SPACE / 10 } else { SPACE + 1 };
    (random.below(side), random.below(side))
}

pub(super) fn window(random: &mut Random) -> QuantaRect {
    let ((a, b), (c, d)) = (point(random), point(random));
    QuantaRect { x_min: a.min(c), y_min: b.min(d), x_max: a.max(c), y_max: b.max(d) }
}
