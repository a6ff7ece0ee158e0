//! Draws the place of an object at its next report.
//!
//! The distribution is that of the hot-spot (uniform angle, half-normal distance), restricted to
//! places within reach and inside the space. Rejection from the whole distribution would take over
//! 1,000 tries per report, and the weights exp(-r^2 / 2 s^2) / r over the reach disk are unbounded
//! near the centre. In polar coordinates about the hot-spot the density is exp(-r^2 / 2 s^2), so
//! tries are uniform over the (distance, angle) box that encloses the disk.

use std::f64::consts::{FRAC_PI_2, TAU};

use rand_xoshiro::SplitMix64;

use crate::direction::{east_north, length};
use crate::limits::REDRAWS_MAX;
use crate::normal::half_normal;
use crate::random::unit;

/// Width of the distance range, in deviations, from which drawing half-normal distances rejects
/// fewer tries than uniform ones: sqrt(pi / 2), rounded.
const WIDE_DEVIATIONS: f64 = 1.25;

/// The conditions on a next position.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reach {
    /// The hot-spot.
    pub(super) centre: (f64, f64),
    /// Standard deviation of the distance from it.
    pub(super) deviation_m: f64,
    /// The current position.
    pub(super) from: (f64, f64),
    /// Longest distance to the next position.
    pub(super) reach_m: f64,
}

/// The (distance, angle) box about the hot-spot that encloses the reach disk.
#[derive(Clone, Copy, Debug)]
struct PolarBox {
    near_m: f64,
    far_m: f64,
    /// Half of the angle, in turns, about the direction to the current position.
    half_turns: f64,
}

impl Reach {
    /// A next position inside the square space; the current one if hardly any is allowed.
    pub(super) fn draw(&self, space_m: f64, random: &mut SplitMix64) -> (f64, f64) {
        let (from_x, from_y) = (self.from.0 - self.centre.0, self.from.1 - self.centre.1);
        let distance_m = length(from_x, from_y);
        // Unit vector from the hot-spot to the object; any direction at the hot-spot itself.
        let (along_x, along_y) =
            if distance_m > 0.0 { (from_x / distance_m, from_y / distance_m) } else { (1.0, 0.0) };
        let polar = self.polar_box(distance_m);
        for _ in 0..REDRAWS_MAX {
            let Some(radius_m) = self.radius(&polar, random) else {
                continue;
            };
            // One turn is added so that the direction is never negative.
            let turns = 1.0 + polar.half_turns * (2.0 * unit(random) - 1.0);
            let (sine, cosine) = east_north(turns);
            let square_m2 =
                radius_m * (radius_m - 2.0 * distance_m * cosine) + distance_m * distance_m;
            if square_m2 > self.reach_m * self.reach_m {
                continue;
            }
            let x = self.centre.0 + radius_m * (cosine * along_x - sine * along_y);
            let y = self.centre.1 + radius_m * (cosine * along_y + sine * along_x);
            if (0.0..=space_m).contains(&x) && (0.0..=space_m).contains(&y) {
                return (x, y);
            }
        }
        self.from
    }

    fn polar_box(&self, distance_m: f64) -> PolarBox {
        let far_m = distance_m + self.reach_m;
        if distance_m <= self.reach_m {
            return PolarBox { near_m: 0.0, far_m, half_turns: 0.5 };
        }
        // asin x <= x + (pi / 2 - 1) x^3 on [0, 1]. This bound widens the box slightly and costs a
        // tenth of asin.
        let sine = self.reach_m / distance_m;
        let half_turns = sine * (1.0 + (FRAC_PI_2 - 1.0) * sine * sine) / TAU;
        PolarBox { near_m: distance_m - self.reach_m, far_m, half_turns }
    }

    /// A distance with density exp(-r^2 / 2 s^2) in the box; `None` for a rejected try.
    fn radius(&self, polar: &PolarBox, random: &mut SplitMix64) -> Option<f64> {
        let wide_m = WIDE_DEVIATIONS * self.deviation_m;
        if polar.near_m == 0.0 && polar.far_m > wide_m {
            let radius_m = self.deviation_m * half_normal(unit(random));
            return (radius_m <= polar.far_m).then_some(radius_m);
        }
        let radius_m = polar.near_m + (polar.far_m - polar.near_m) * unit(random);
        let excess = (radius_m * radius_m - polar.near_m * polar.near_m)
            / (2.0 * self.deviation_m * self.deviation_m);
        let chance = unit(random);
        // 1 - e <= exp(-e). The excess e is mostly small, so this test avoids most exponentials.
        (chance < 1.0 - excess || chance < libm::exp(-excess)).then_some(radius_m)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::object_stream;

    const SPACE_M: f64 = 100_000.0;

    /// The definition: places around the hot-spot, rejected unless within reach and inside.
    fn naive(reach: &Reach, random: &mut SplitMix64) -> (f64, f64) {
        loop {
            let radius_m = reach.deviation_m * half_normal(unit(random));
            let (east, north) = east_north(unit(random));
            let (x, y) = (reach.centre.0 + radius_m * east, reach.centre.1 + radius_m * north);
            let inside = (0.0..=SPACE_M).contains(&x) && (0.0..=SPACE_M).contains(&y);
            if inside && length(x - reach.from.0, y - reach.from.1) <= reach.reach_m {
                return (x, y);
            }
        }
    }

    #[test]
    fn draws_are_distributed_as_the_naive_ones() {
        let cases = [
            // A small step far from the hot-spot; the hot-spot just outside, just inside and deep
            // inside the reach; a reach that covers everything.
            ((50_000.0, 50_000.0), 9_000.0, (59_000.0, 54_000.0), 1_200.0),
            ((50_000.0, 50_000.0), 9_000.0, (53_700.0, 50_000.0), 3_600.0),
            ((50_000.0, 50_000.0), 9_000.0, (53_500.0, 50_000.0), 3_600.0),
            ((50_000.0, 50_000.0), 9_000.0, (50_100.0, 50_200.0), 1_200.0),
            ((50_000.0, 50_000.0), 900.0, (50_300.0, 49_500.0), 3_600.0),
            // The border of the space cuts the reach.
            ((500.0, 700.0), 900.0, (300.0, 300.0), 1_200.0),
        ];
        for (number, (centre, deviation_m, from, reach_m)) in cases.into_iter().enumerate() {
            let reach = Reach { centre, deviation_m, from, reach_m };
            let mut random = object_stream(77, number as u64);
            let mut sums = [[0.0; 4]; 2];
            const DRAWS: u32 = 40_000;
            for _ in 0..DRAWS {
                let places = [reach.draw(SPACE_M, &mut random), naive(&reach, &mut random)];
                for (sum, place) in sums.iter_mut().zip(places) {
                    let u = (place.0 - from.0) / reach_m;
                    let v = (place.1 - from.1) / reach_m;
                    for (total, term) in sum.iter_mut().zip([u, v, u * u + v * v, u * v]) {
                        *total += term / f64::from(DRAWS);
                    }
                }
            }
            for (ours, theirs) in sums[0].iter().zip(sums[1]) {
                assert!((ours - theirs).abs() < 0.015, "case {number}, seed 77: {sums:?}");
            }
        }
    }

    #[test]
    fn an_object_without_an_allowed_place_stays() {
        let reach =
            Reach { centre: (0.0, 0.0), deviation_m: 1.0, from: (-5.0, -5.0), reach_m: 1.0 };
        assert_eq!(reach.draw(SPACE_M, &mut object_stream(1, 1)), (-5.0, -5.0));
    }
}
