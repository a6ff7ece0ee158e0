//! Hot-spots: H centres, uniform over the space.
//!
//! A hash of an object gives its hot-spot for life, without memory. A place around a hot-spot has a
//! uniform angle and a half-normal distance; places outside the space are drawn again.

use rand_xoshiro::rand_core::Rng;

use crate::Params;
use crate::direction::east_north;
use crate::limits::REDRAWS_MAX;
use crate::normal::half_normal;
use crate::random::{Domain, below, key, stream, unit};

/// The hot-spots of a space.
#[derive(Debug)]
pub(super) struct Hotspots {
    seed: u64,
    centres: Vec<(f64, f64)>,
    space_m: f64,
    /// Standard deviation of an object's distance: half of R = space / sqrt(H pi).
    pub(super) deviation_m: f64,
}

impl Hotspots {
    /// The hot-spots of checked parameters in a square space.
    pub(super) fn new(params: &Params, space_m: f64) -> Self {
        let mut random = stream(params.seed, Domain::Hotspots, 0);
        let mut coordinate = || unit(&mut random) * space_m;
        let centres = (0..params.hotspots).map(|_| (coordinate(), coordinate())).collect();
        let radius_m = space_m / (f64::from(params.hotspots) * std::f64::consts::PI).sqrt();
        Self { seed: params.seed, centres, space_m, deviation_m: radius_m / 2.0 }
    }

    /// The hot-spot of an object.
    pub(super) fn of(&self, object: u64) -> (f64, f64) {
        let hash = key(self.seed, Domain::Hotspots, object.wrapping_add(1));
        self.centres[((u128::from(hash) * self.centres.len() as u128) >> 64) as usize]
    }

    /// A random place around a hot-spot; the hot-spot itself if [`REDRAWS_MAX`] places are outside
    /// the space.
    pub(super) fn place(&self, centre: (f64, f64), random: &mut impl Rng) -> (f64, f64) {
        for _ in 0..REDRAWS_MAX {
            let distance_m = self.deviation_m * half_normal(unit(random));
            let (east, north) = east_north(unit(random));
            let (x, y) = (centre.0 + distance_m * east, centre.1 + distance_m * north);
            if (0.0..=self.space_m).contains(&x) && (0.0..=self.space_m).contains(&y) {
                return (x, y);
            }
        }
        centre
    }

    /// A place around a random hot-spot.
    pub(super) fn place_anywhere(&self, random: &mut impl Rng) -> (f64, f64) {
        let centre = self.centres[below(random, self.centres.len())];
        self.place(centre, random)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::direction::length;
    use crate::random::object_stream;

    #[test]
    fn distances_are_half_normal_and_angles_uniform() {
        let seed = 11;
        let params = Params { hotspots: 1_000, seed, ..Params::default() };
        let hotspots = Hotspots::new(&params, 1e6);
        let mut random = object_stream(seed, 0);
        let mut deciles = [0_u32; 10];
        let mut quadrants = [0_u32; 4];
        for _ in 0..100_000 {
            let (x, y) = hotspots.place((5e5, 5e5), &mut random);
            let (east, north) = (x - 5e5, y - 5e5);
            let distance = length(east, north) / hotspots.deviation_m;
            deciles[(0..10).rfind(|k| half_normal(f64::from(*k) / 10.0) <= distance).unwrap()
                as usize] += 1;
            quadrants[usize::from(east > 0.0) * 2 + usize::from(north > 0.0)] += 1;
        }
        assert!(deciles.iter().all(|count| count.abs_diff(10_000) < 400), "{seed}: {deciles:?}");
        assert!(quadrants.iter().all(|count| count.abs_diff(25_000) < 600), "{quadrants:?}");
    }

    #[test]
    fn objects_are_shared_evenly_and_for_life() {
        let hotspots = Hotspots::new(&Params { seed: 12, ..Params::default() }, 1e5);
        let mut members = vec![0_u32; 10];
        for object in 0..100_000 {
            let centre = hotspots.of(object);
            members[hotspots.centres.iter().position(|other| *other == centre).unwrap()] += 1;
        }
        assert!(members.iter().all(|count| count.abs_diff(10_000) < 400), "seed 12: {members:?}");
    }
}
