//! The `hub` workload: vehicles travel between hubs.
//!
//! The workload is that of the TPR-tree paper (Saltenis, Jensen, Leutenegger, Lopez, SIGMOD 2000),
//! the base of the COST benchmark. Destinations are joined by straight one-way routes, vehicles are
//! in three groups, and a vehicle gets a new random destination on arrival. It reports on the parts
//! of a route where it accelerates or brakes. State: 40 bytes per object and one event.

mod ride;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

use ride::Ride;

use crate::direction::{length, motion};
use crate::random::{Domain, below, key, stream, unit};
use crate::scheduled::{Due, Movement, Scheduled};
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window};

/// Side of the space in metres.
const SPACE_M: f64 = 1_000_000.0;

/// Maximum speeds of the three groups: 45, 90 and 180 km/h.
const SPEEDS_M_S: [f64; 3] = [12.5, 25.0, 50.0];

/// Movement of `hub`.
///
/// An object belongs to one of three equal groups for life and starts somewhere on a route. Half of
/// the query windows are centred anywhere, half on a place of a random route. The windows of the
/// paper cover 0.25 % of the space, which corresponds to `Params::window` = 0.05.
#[derive(Debug)]
pub(crate) struct Hub {
    seed: u64,
    step_ms: i64,
    interval_ms: i64,
    destinations: Vec<(f64, f64)>,
}

/// The ride of an object at its next report.
#[derive(Debug)]
pub(crate) struct Object {
    /// Start of its route.
    from: u32,
    /// End of its route.
    to: u32,
    departure_ms: i64,
    /// Index of the ride's next report.
    report: u32,
    /// Number of the ride's reports.
    reports: u32,
    random: SplitMix64,
}

impl Hub {
    /// The workload of checked parameters.
    pub(crate) fn open(params: &Params) -> Scheduled<Self> {
        let mut places = stream(params.seed, Domain::Places, 0);
        let mut coordinate = || unit(&mut places) * SPACE_M;
        let destinations = (0..params.destinations).map(|_| (coordinate(), coordinate())).collect();
        let Params { seed, step_ms, update_interval_ms: interval_ms, .. } = *params;
        Scheduled::new(params, Self { seed, step_ms, interval_ms, destinations })
    }

    /// The ride of an object.
    fn ride(&self, number: u64, object: &Object) -> Ride {
        let (from, to) = self.ends(object.from, object.to);
        let group = key(self.seed, Domain::Groups, number) % SPEEDS_M_S.len() as u64;
        Ride::new(length(to.0 - from.0, to.1 - from.1), SPEEDS_M_S[group as usize])
    }

    fn ends(&self, from: u32, to: u32) -> ((f64, f64), (f64, f64)) {
        (self.destinations[from as usize], self.destinations[to as usize])
    }

    /// Number of reports of a ride: its duration divided by UI, rounded up or down at random so
    /// that the mean is exact; at least 1, the departure.
    fn reports(&self, ride: &Ride, random: &mut SplitMix64) -> u32 {
        ((ride.duration_ms() / self.interval_ms as f64 + unit(random)) as u32).max(1)
    }

    /// Plans the next report at or after a time, either on the current ride or as the departure of
    /// the next ride.
    fn plan(&self, number: u64, object: &mut Object, mut ride: Ride, earliest_ms: i64) -> i64 {
        loop {
            object.report += 1;
            if object.report >= object.reports {
                object.departure_ms += (ride.duration_ms() as i64).max(1);
                object.from = object.to;
                object.to = another(object.from, self.destinations.len(), &mut object.random);
                ride = self.ride(number, object);
                object.report = 0;
                object.reports = self.reports(&ride, &mut object.random);
            }
            let offset_ms = ride.report_ms(object.report, object.reports);
            let due_ms = object.departure_ms + offset_ms as i64;
            if due_ms >= earliest_ms {
                return due_ms;
            }
        }
    }
}

/// Two different destinations.
fn route(destinations: usize, random: &mut impl Rng) -> (u32, u32) {
    let from = below(random, destinations) as u32;
    (from, another(from, destinations, random))
}

/// A destination other than `from`.
fn another(from: u32, destinations: usize, random: &mut impl Rng) -> u32 {
    let to = below(random, destinations - 1) as u32;
    to + u32::from(to >= from)
}

/// The place at a share of a route.
fn between((from, to): ((f64, f64), (f64, f64)), share: f64) -> (f64, f64) {
    (from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
}

impl Movement for Hub {
    type Object = Object;

    fn sides_m(&self) -> (f64, f64) {
        (SPACE_M, SPACE_M)
    }

    fn interval_ms(&self) -> i64 {
        self.interval_ms
    }

    fn start(&self, number: u64, due_ms: i64, mut random: SplitMix64) -> Object {
        let (from, to) = route(self.destinations.len(), &mut random);
        let mut object = Object { from, to, departure_ms: due_ms, report: 0, reports: 1, random };
        let ride = self.ride(number, &object);
        object.departure_ms -= (unit(&mut object.random) * ride.duration_ms()) as i64;
        object.reports = self.reports(&ride, &mut object.random);
        object
    }

    fn report(&self, object: &mut Object, due: &Due) -> (Fix, i64) {
        let ride = self.ride(due.number, object);
        let ends = self.ends(object.from, object.to);
        let place = ride.at((due.time_ms - object.departure_ms) as f64);
        let (x, y) = between(ends, place.share);
        let (_, heading_deg) = motion(ends.1.0 - ends.0.0, ends.1.1 - ends.0.1);
        let fix = Fix {
            object: due.number,
            time_ms: due.time_ms,
            x,
            y,
            speed_mps: Some(place.speed_mps),
            heading_deg: Some(heading_deg),
        };
        let earliest_ms = due.time_ms + if due.is_first { self.step_ms } else { 1 };
        (fix, self.plan(due.number, object, ride, earliest_ms))
    }

    fn window(&self, windows: &mut PlanarWindows) -> Window {
        let random = &mut windows.random;
        if unit(random) < 0.5 {
            let place = (unit(random) * SPACE_M, unit(random) * SPACE_M);
            return windows.around(place);
        }
        let (from, to) = route(self.destinations.len(), random);
        let share = Ride::share_at_time(unit(random));
        windows.around(between(self.ends(from, to), share))
    }
}
