//! The baseline compared with a reference map, at rest and during updates.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod concurrent;
mod quiescent;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use shoal_engine::QuantaRect;

/// Side of the tests' space, quanta.
pub(super) const SPACE: i32 = 1_000;

pub(super) fn bounds() -> QuantaRect {
    QuantaRect { x_min: 0, y_min: 0, x_max: SPACE, y_max: SPACE }
}

/// Seeded numbers.
pub(super) struct Random(SplitMix64);

impl Random {
    pub(super) fn new(seed: u64) -> Self {
        Self(SplitMix64::seed_from_u64(seed))
    }

    pub(super) fn below(&mut self, bound: u32) -> u32 {
        (((self.0.next_u64() >> 32) * u64::from(bound)) >> 32) as u32
    }

    /// A point; every fourth is in one corner, which becomes crowded.
    pub(super) fn point(&mut self) -> (i32, i32) {
        let side = if self.below(4) == 0 { SPACE / 10 } else { SPACE + 1 };
        (self.below(side as u32) as i32, self.below(side as u32) as i32)
    }

    pub(super) fn window(&mut self) -> QuantaRect {
        let ((a, b), (c, d)) = (self.point(), self.point());
        QuantaRect { x_min: a.min(c), y_min: b.min(d), x_max: a.max(c), y_max: b.max(d) }
    }
}
