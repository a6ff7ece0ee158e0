//! Rings around a hot-spot, which give the speed and the update interval of objects.
//!
//! S rings have equal probability. Ring k has top speed V (k + 1) / S and update interval
//! T (S - k) / S: inner objects are slow and report rarely, outer ones are fast and report often.

use crate::Params;
use crate::normal::quantile_above_median;

/// The rings of checked parameters, innermost first.
#[derive(Debug)]
pub(super) struct Rings {
    rings: Vec<Ring>,
}

/// One ring.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    inner_radius_m: f64,
    /// Top speed.
    pub(super) speed_m_per_step: f64,
    /// Time to the next report.
    pub(super) interval_steps: f64,
}

impl Rings {
    /// The rings around hot-spots whose distances have this standard deviation.
    pub(super) fn new(params: &Params, deviation_m: f64) -> Self {
        let count = f64::from(params.speeds);
        let ring = |index: u32| {
            let index = f64::from(index);
            // |Phi^-1(0.5 (S - k) / S)|, the quantile below the median mirrored.
            let quantile = quantile_above_median(0.5 - 0.5 * (count - index) / count);
            Ring {
                inner_radius_m: quantile * deviation_m,
                speed_m_per_step: params.speed_max_m_per_step * (index + 1.0) / count,
                interval_steps: f64::from(params.silence_max_steps) * (count - index) / count,
            }
        };
        Self { rings: (0..params.speeds).map(ring).collect() }
    }

    /// Returns the ring that contains a distance from the hot-spot.
    pub(super) fn at(&self, distance_m: f64) -> Ring {
        let beyond = self.rings.partition_point(|ring| ring.inner_radius_m <= distance_m);
        self.rings[beyond.max(1) - 1]
    }

    /// The mean interval over the rings.
    pub(super) fn interval_steps_mean(&self) -> f64 {
        let sum: f64 = self.rings.iter().map(|ring| ring.interval_steps).sum();
        sum / self.rings.len() as f64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radii_are_those_of_the_benchmark() {
        // In units of R, that is at deviation 0.5.
        let published =
            [0.0, 0.0628, 0.1267, 0.1927, 0.2622, 0.3372, 0.4208, 0.5182, 0.6408, 0.8224];
        let rings = Rings::new(&Params::default(), 0.5);
        assert_eq!(rings.rings.len(), published.len());
        for (ring, radius) in rings.rings.iter().zip(published) {
            assert!((ring.inner_radius_m - radius).abs() < 5.1e-5, "{ring:?}, not {radius}");
        }
    }

    #[test]
    fn speeds_rise_and_intervals_fall_from_ring_to_ring() {
        let rings = Rings::new(&Params::default(), 0.5);
        let inner = rings.at(0.0);
        assert_eq!((inner.speed_m_per_step, inner.interval_steps), (10.0, 120.0));
        let outer = rings.at(1e9);
        assert_eq!((outer.speed_m_per_step, outer.interval_steps), (100.0, 12.0));
        let middle = rings.at(0.34);
        assert_eq!((middle.speed_m_per_step, middle.interval_steps), (60.0, 60.0));
        assert!((rings.interval_steps_mean() - 66.0).abs() < 1e-12);
    }
}
