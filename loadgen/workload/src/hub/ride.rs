//! Position and speed of a vehicle during a ride.
//!
//! It accelerates evenly over the first sixth of the route, cruises at its maximum speed v, and
//! brakes evenly over the last sixth. A route of length L takes 4 L / 3 v: a quarter of the time
//! accelerating, half cruising, a quarter braking. Reports are spread evenly over the two ramps.

/// One vehicle on one route.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ride {
    length_m: f64,
    speed_max_m_s: f64,
}

/// Position and speed at a time of a ride.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Place {
    /// Travelled share of the route, 0 to 1.
    pub(super) share: f64,
    /// Speed.
    pub(super) speed_mps: f64,
}

impl Ride {
    /// A ride over a length at a maximum speed.
    pub(super) fn new(length_m: f64, speed_max_m_s: f64) -> Self {
        Self { length_m, speed_max_m_s }
    }

    /// Its duration.
    pub(super) fn duration_ms(&self) -> f64 {
        4_000.0 * self.length_m / (3.0 * self.speed_max_m_s)
    }

    /// Position and speed `elapsed_ms` after departure.
    pub(super) fn at(&self, elapsed_ms: f64) -> Place {
        // Destinations may coincide; the ride then ends at once.
        let time = if elapsed_ms > 0.0 { (elapsed_ms / self.duration_ms()).min(1.0) } else { 0.0 };
        let ramp = (4.0 * time).min(4.0 * (1.0 - time)).min(1.0);
        Place { share: Self::share_at_time(time), speed_mps: self.speed_max_m_s * ramp }
    }

    /// Travelled share of the route at a share of the duration.
    pub(super) fn share_at_time(time: f64) -> f64 {
        if time < 0.25 {
            time * time * 8.0 / 3.0
        } else if time <= 0.75 {
            1.0 / 6.0 + (time - 0.25) * 4.0 / 3.0
        } else {
            1.0 - (1.0 - time) * (1.0 - time) * 8.0 / 3.0
        }
    }

    /// Time of report `index` of `reports` after departure. Reports are spread evenly over both
    /// ramps; the first is at 0.
    pub(super) fn report_ms(&self, index: u32, reports: u32) -> f64 {
        let on_ramps = 0.5 * f64::from(index) / f64::from(reports);
        let time = if on_ramps < 0.25 { on_ramps } else { on_ramps + 0.5 };
        time * self.duration_ms()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ride_takes_four_thirds_of_its_length_at_full_speed() {
        let ride = Ride::new(90_000.0, 25.0);
        assert!((ride.duration_ms() - 4_800_000.0).abs() < 1e-6);
        let share = |minutes: f64| ride.at(minutes * 60_000.0).share;
        let speed = |minutes: f64| ride.at(minutes * 60_000.0).speed_mps;
        for (minutes, expected_share, expected_speed) in [
            (0.0, 0.0, 0.0),
            (10.0, 1.0 / 24.0, 12.5),
            (20.0, 1.0 / 6.0, 25.0),
            (40.0, 0.5, 25.0),
            (60.0, 5.0 / 6.0, 25.0),
            (70.0, 23.0 / 24.0, 12.5),
            (80.0, 1.0, 0.0),
            (90.0, 1.0, 0.0),
        ] {
            assert!((share(minutes) - expected_share).abs() < 1e-12, "{minutes}");
            assert!((speed(minutes) - expected_speed).abs() < 1e-12, "{minutes}");
        }
    }

    #[test]
    fn speed_is_the_derivative_of_place() {
        let ride = Ride::new(300_000.0, 50.0);
        for step in 1..8_000 {
            let elapsed_ms = f64::from(step) * 1_000.0;
            let moved_m =
                (ride.at(elapsed_ms + 1.0).share - ride.at(elapsed_ms - 1.0).share) * ride.length_m;
            let speed_mps = ride.at(elapsed_ms).speed_mps;
            assert!((moved_m / 0.002 - speed_mps).abs() < 0.01, "{elapsed_ms}: {speed_mps}");
        }
    }

    #[test]
    fn reports_lie_on_the_ramps_in_order() {
        let ride = Ride::new(300_000.0, 50.0);
        let times: Vec<f64> =
            (0..7).map(|index| ride.report_ms(index, 7) / ride.duration_ms()).collect();
        assert!(times.is_sorted() && times[0] == 0.0);
        assert!(times.iter().all(|time| (0.0..0.25).contains(time) || (0.75..1.0).contains(time)));
        assert_eq!(times.iter().filter(|time| **time < 0.25).count(), 4);
    }

    #[test]
    fn coinciding_destinations_are_left_at_once() {
        let place = Ride::new(0.0, 50.0).at(0.0);
        assert_eq!((place.share, place.speed_mps), (0.0, 0.0));
    }
}
