//! Where are vehicles on a road network?
//!
//! The network mode of the benchmark of Chen, Jensen and Lin (PVLDB 2008): an object keeps one of S
//! speeds for life, starts somewhere on a random road, and at each crossing reports and takes a
//! random next road, back only at a dead end. State: 24 bytes an object and its one event.

mod ascii;
mod city;
mod graph;

use std::path::Path;

use rand_xoshiro::SplitMix64;

use graph::{Graph, Road};

use crate::calendar::{Calendar, Event};
use crate::direction::{length, motion};
use crate::limits::START_MS;
use crate::random::{Domain, below, key, object_stream, unit};
use crate::shard::Shard;
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window, Workload, WorkloadError, WorkloadSpace};

/// The `network` workload.
///
/// `network` alone is a city drawn from the seed: 100 x 100 crossings, a kilometre apart and
/// displaced by up to a quarter of that, in a 100 km square, a fifth of the streets that the city
/// can miss left out. `network:FILE` reads a network in the ASCII form of Brinkhoff's generator:
/// FILE holds nodes, one `id x y` per line, and the file whose name has `edge` for the last `node`
/// of that name holds edges, `id from to` and anything behind, both ways open; spaces or commas
/// between, blank lines and lines that begin with # passed over. Coordinates are metres; the lower
/// left corner of the nodes becomes the origin. Query windows lie around random crossings.
#[derive(Debug)]
pub(crate) struct Network {
    shard: Shard,
    seed: u64,
    step_ms: i64,
    speeds: u32,
    speed_max_m_per_step: f64,
    graph: Graph,
    objects: Vec<Object>,
    calendar: Calendar,
    windows: PlanarWindows,
}

/// The road that an object is on until its next report.
#[derive(Clone, Debug)]
struct Object {
    road: Road,
    random: SplitMix64,
}

impl Network {
    /// The seeded city, for checked parameters.
    pub(crate) fn city(params: &Params) -> Self {
        Self::new(city::city(params.seed), params)
    }

    /// A network from files, for checked parameters.
    pub(crate) fn open(nodes: &Path, params: &Params) -> Result<Self, WorkloadError> {
        Ok(Self::new(ascii::read(nodes)?, params))
    }

    fn new(graph: Graph, params: &Params) -> Self {
        let shard = Shard::new(params);
        // The mean over objects of length / speed: speeds are V / S, 2 V / S, ... V.
        let steps_mean = graph.road_length_mean_m() / params.speed_max_m_per_step
            * (1..=params.speeds).map(|k| 1.0 / f64::from(k)).sum::<f64>();
        let interval_ms = (steps_mean * params.step_ms as f64).clamp(1.0, 1e12) as i64;
        let mut calendar = Calendar::new(shard.owned(), interval_ms, START_MS);
        let mut objects = Vec::with_capacity(shard.owned() as usize);
        for local in 0..shard.owned() {
            let object = shard.object(local);
            let mut random = object_stream(params.seed, object);
            let road = graph.road(below(&mut random, graph.roads()));
            objects.push(Object { road, random });
            let due_ms = START_MS + shard.phase_ms(object);
            calendar.add(Event { due_ms, local: local as u32 });
        }
        Self {
            shard,
            seed: params.seed,
            step_ms: params.step_ms,
            speeds: params.speeds,
            speed_max_m_per_step: params.speed_max_m_per_step,
            windows: PlanarWindows::new(params.seed, params.shard, params.window, graph.sides_m()),
            graph,
            objects,
            calendar,
        }
    }

    /// The speed of an object, for life.
    fn speed_m_per_ms(&self, object: u64) -> f64 {
        let class = key(self.seed, Domain::Groups, object) % u64::from(self.speeds);
        let share = (class + 1) as f64 / f64::from(self.speeds);
        self.speed_max_m_per_step * share / self.step_ms as f64
    }

    /// The report of an object whose time has come; it then goes to the end of its road.
    fn report(&mut self, Event { due_ms, local }: Event) -> Fix {
        let number = self.shard.object(u64::from(local));
        let speed_m_per_ms = self.speed_m_per_ms(number);
        let object = &mut self.objects[local as usize];
        let first = due_ms == START_MS + self.shard.phase_ms(number);
        let behind = if first {
            unit(&mut object.random)
        } else {
            object.road = self.graph.next(object.road, &mut object.random);
            0.0
        };
        let (from, to) = (self.graph.node(object.road.from), self.graph.node(object.road.to));
        let x = from.0 + (to.0 - from.0) * behind;
        let y = from.1 + (to.1 - from.1) * behind;
        let way_ms = length(to.0 - x, to.1 - y) / speed_m_per_ms;
        // A step at least after the first report, so that it follows the first ones of all others.
        let least_ms = if first { self.step_ms as f64 } else { 1.0 };
        let interval_ms = way_ms.round().clamp(least_ms, i64::MAX as f64 / 4.0);
        self.calendar.add(Event { due_ms: due_ms + interval_ms as i64, local });
        let (way_m, heading_deg) = motion(to.0 - x, to.1 - y);
        Fix {
            object: number,
            time_ms: due_ms,
            x,
            y,
            speed_mps: Some(way_m / (interval_ms / 1_000.0)),
            heading_deg: Some(heading_deg),
        }
    }
}

impl Workload for Network {
    fn name(&self) -> &'static str {
        "network"
    }

    fn space(&self) -> WorkloadSpace {
        let (width_m, height_m) = self.graph.sides_m();
        WorkloadSpace::Planar { width_m, height_m }
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
        let road = self.graph.road(below(&mut self.windows.random, self.graph.roads()));
        let (x, y) = self.graph.node(road.from);
        self.windows.around(x, y)
    }
}
