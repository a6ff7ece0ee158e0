//! Where are vehicles that travel between hubs?
//!
//! The workload of the TPR-tree paper (Saltenis, Jensen, Leutenegger, Lopez, SIGMOD 2000), base of
//! the COST benchmark: destinations joined by straight one-way routes, three groups of vehicles, a
//! new random destination on arrival. Reports fall on the stretches where a vehicle speeds up or
//! brakes. State: 40 bytes an object and its one event.

mod ride;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::Rng;

use ride::Ride;

use crate::calendar::{Calendar, Event};
use crate::direction::{length, motion};
use crate::limits::START_MS;
use crate::random::{Domain, below, key, object_stream, stream, unit};
use crate::shard::Shard;
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window, Workload, WorkloadSpace};

/// Side of the space in metres.
const SPACE_M: f64 = 1_000_000.0;

/// Maximum speeds of the three groups: 45, 90 and 180 km/h.
const SPEEDS_M_S: [f64; 3] = [12.5, 25.0, 50.0];

/// The `hub` workload.
///
/// An object belongs to one of three equal groups for life. It starts somewhere on a route; its
/// first report comes within the first step (so the first rows are the whole fleet). Half of the
/// query windows are centred anywhere, half on a place of a random route; the paper's cover 0.25 %
/// of the space, which is `Params::window` = 0.05.
#[derive(Debug)]
pub(crate) struct Hub {
    shard: Shard,
    seed: u64,
    step_ms: i64,
    interval_ms: f64,
    destinations: Vec<(f64, f64)>,
    objects: Vec<Object>,
    calendar: Calendar,
    windows: PlanarWindows,
}

/// What an object is doing at its next report.
#[derive(Clone, Debug)]
struct Object {
    /// Start of its route.
    from: u32,
    /// End of its route.
    to: u32,
    departure_ms: i64,
    /// Which of the ride's reports comes next, from 0.
    report: u32,
    /// How many the ride has.
    reports: u32,
    random: SplitMix64,
}

impl Hub {
    /// The workload of checked parameters.
    pub(crate) fn new(params: &Params) -> Self {
        let shard = Shard::new(params);
        let mut places = stream(params.seed, Domain::Places, 0);
        let mut coordinate = || unit(&mut places) * SPACE_M;
        let destinations = (0..params.destinations).map(|_| (coordinate(), coordinate()));
        let mut hub = Self {
            shard,
            seed: params.seed,
            step_ms: params.step_ms,
            interval_ms: params.update_interval_ms as f64,
            destinations: destinations.collect(),
            objects: Vec::with_capacity(shard.owned() as usize),
            calendar: Calendar::new(shard.owned(), params.update_interval_ms, START_MS),
            windows: PlanarWindows::new(
                params.seed,
                params.shard,
                params.window,
                (SPACE_M, SPACE_M),
            ),
        };
        for local in 0..shard.owned() {
            hub.settle(local);
        }
        hub
    }

    /// Puts an object somewhere on a route and plans its first report.
    fn settle(&mut self, local: u64) {
        let number = self.shard.object(local);
        let mut random = object_stream(self.seed, number);
        let (from, to) = route(self.destinations.len(), &mut random);
        let due_ms = START_MS + self.shard.phase_ms(number);
        let mut object = Object { from, to, departure_ms: due_ms, report: 0, reports: 1, random };
        let ride = self.ride(number, &object);
        object.departure_ms -= (unit(&mut object.random) * ride.duration_ms()) as i64;
        object.reports = self.reports(&ride, &mut object.random);
        self.objects.push(object);
        self.calendar.add(Event { due_ms, local: local as u32 });
    }

    /// The ride that an object is on.
    fn ride(&self, number: u64, object: &Object) -> Ride {
        let (from, to) = self.ends(object.from, object.to);
        let group = key(self.seed, Domain::Groups, number) % SPEEDS_M_S.len() as u64;
        Ride::new(length(to.0 - from.0, to.1 - from.1), SPEEDS_M_S[group as usize])
    }

    fn ends(&self, from: u32, to: u32) -> ((f64, f64), (f64, f64)) {
        (self.destinations[from as usize], self.destinations[to as usize])
    }

    /// How many reports a ride has: its duration over UI, rounded up or down at random so that the
    /// mean is right; one at least, the departure.
    fn reports(&self, ride: &Ride, random: &mut SplitMix64) -> u32 {
        ((ride.duration_ms() / self.interval_ms + unit(random)) as u32).max(1)
    }

    /// The report of an object whose time has come.
    fn report(&mut self, Event { due_ms, local }: Event) -> Fix {
        let number = self.shard.object(u64::from(local));
        let mut object = self.objects[local as usize].clone();
        let ride = self.ride(number, &object);
        let (from, to) = self.ends(object.from, object.to);
        let place = ride.at((due_ms - object.departure_ms) as f64);
        let (_, heading_deg) = motion(to.0 - from.0, to.1 - from.1);
        let fix = Fix {
            object: number,
            time_ms: due_ms,
            x: from.0 + (to.0 - from.0) * place.share,
            y: from.1 + (to.1 - from.1) * place.share,
            speed_mps: Some(place.speed_mps),
            heading_deg: Some(heading_deg),
        };
        let first = due_ms == START_MS + self.shard.phase_ms(number);
        let earliest_ms = due_ms + if first { self.step_ms } else { 1 };
        let due_ms = self.plan(number, &mut object, &ride, earliest_ms);
        self.objects[local as usize] = object;
        self.calendar.add(Event { due_ms, local });
        fix
    }

    /// The next report from a moment on: on the present ride, or the departure of the next one.
    fn plan(&self, number: u64, object: &mut Object, ride: &Ride, earliest_ms: i64) -> i64 {
        let mut ride = *ride;
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

impl Workload for Hub {
    fn name(&self) -> &'static str {
        "hub"
    }

    fn space(&self) -> WorkloadSpace {
        WorkloadSpace::Planar { width_m: SPACE_M, height_m: SPACE_M }
    }

    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
        out.reserve(rows);
        for row in 0..rows {
            let Some(event) = self.calendar.take() else {
                return row;
            };
            out.push(self.report(event));
        }
        rows
    }

    fn window(&mut self) -> Window {
        let random = &mut self.windows.random;
        if unit(random) < 0.5 {
            let (x, y) = (unit(random) * SPACE_M, unit(random) * SPACE_M);
            return self.windows.around(x, y);
        }
        let (from, to) = route(self.destinations.len(), random);
        let share = Ride::share_at_time(unit(random));
        let (from, to) = self.ends(from, to);
        self.windows.around(from.0 + (to.0 - from.0) * share, from.1 + (to.1 - from.1) * share)
    }
}
