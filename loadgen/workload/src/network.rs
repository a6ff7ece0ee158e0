//! The `network` workload: vehicles on a road network.
//!
//! This is the network mode of the benchmark of Chen, Jensen and Lin (PVLDB 2008). An object keeps
//! one of S speeds for life and starts somewhere on a random road. At each crossing it reports and
//! takes a random next road; it turns back only at a dead end. State: 24 bytes per object and one
//! event.

mod ascii;
mod city;
mod graph;

use std::path::Path;

use rand_xoshiro::SplitMix64;

use graph::{Graph, Road};

use crate::direction::length;
use crate::random::{Domain, below, key, unit};
use crate::scheduled::{Due, Movement, Scheduled};
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window, WorkloadError};

/// Movement of `network`.
///
/// `network` alone is a city drawn from the seed: 100 x 100 crossings, a kilometre apart and
/// displaced by up to a quarter of that, in a 100 km square, without a fifth of the streets that do
/// not disconnect it. `network:FILE` reads a network in the ASCII form of Brinkhoff's generator:
/// FILE has nodes, one `id x y` per line, and the file with `edge` in place of the last `node` of
/// that name has edges, `id from to` and further fields, open in both directions. Fields are
/// separated by spaces or commas; blank lines and lines that begin with # are ignored. Coordinates
/// are metres; the lower left corner of the nodes becomes the origin. Query windows lie around
/// random crossings.
#[derive(Debug)]
pub(crate) struct Network {
    seed: u64,
    step_ms: i64,
    speeds: u32,
    speed_max_m_per_step: f64,
    graph: Graph,
}

/// The road of an object until its next report.
#[derive(Debug)]
pub(crate) struct Object {
    road: Road,
    random: SplitMix64,
}

impl Network {
    /// The city of the seed; parameters must be checked.
    pub(crate) fn city(params: &Params) -> Scheduled<Self> {
        Self::on(city::city(params.seed), params)
    }

    /// A network from files; parameters must be checked.
    pub(crate) fn open(
        nodes_file: &Path,
        params: &Params,
    ) -> Result<Scheduled<Self>, WorkloadError> {
        Ok(Self::on(ascii::read(nodes_file)?, params))
    }

    fn on(graph: Graph, params: &Params) -> Scheduled<Self> {
        let Params { seed, step_ms, speeds, speed_max_m_per_step, .. } = *params;
        Scheduled::new(params, Self { seed, step_ms, speeds, speed_max_m_per_step, graph })
    }

    /// The speed of an object, for life.
    fn speed_m_per_ms(&self, object: u64) -> f64 {
        let class = key(self.seed, Domain::Groups, object) % u64::from(self.speeds);
        let share = (class + 1) as f64 / f64::from(self.speeds);
        self.speed_max_m_per_step * share / self.step_ms as f64
    }
}

impl Movement for Network {
    type Object = Object;

    fn sides_m(&self) -> (f64, f64) {
        self.graph.sides_m()
    }

    fn interval_ms(&self) -> i64 {
        // The mean over objects of length / speed: speeds are V / S, 2 V / S, ... V.
        let steps_mean = self.graph.road_length_mean_m() / self.speed_max_m_per_step
            * (1..=self.speeds).map(|k| 1.0 / f64::from(k)).sum::<f64>();
        (steps_mean * self.step_ms as f64).clamp(1.0, 1e12) as i64
    }

    fn start(&self, _: u64, _: i64, mut random: SplitMix64) -> Object {
        Object { road: self.graph.road(below(&mut random, self.graph.roads())), random }
    }

    fn report(&self, object: &mut Object, due: &Due) -> (Fix, i64) {
        let travelled = if due.is_first {
            unit(&mut object.random)
        } else {
            object.road = self.graph.next(object.road, &mut object.random);
            0.0
        };
        let (from, to) = (self.graph.node(object.road.from), self.graph.node(object.road.to));
        let place = (from.0 + (to.0 - from.0) * travelled, from.1 + (to.1 - from.1) * travelled);
        let road_ms = length(to.0 - place.0, to.1 - place.1) / self.speed_m_per_ms(due.number);
        let least_ms = if due.is_first { self.step_ms as f64 } else { 1.0 };
        let interval_ms = road_ms.round().clamp(least_ms, i64::MAX as f64 / 4.0);
        (due.fix(place, to, interval_ms), due.time_ms + interval_ms as i64)
    }

    fn window(&self, windows: &mut PlanarWindows) -> Window {
        let road = self.graph.road(below(&mut windows.random, self.graph.roads()));
        windows.around(self.graph.node(road.from))
    }
}
