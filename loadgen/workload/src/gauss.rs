//! Where are objects that gather around hot-spots and report the faster they are, the more often?
//!
//! The benchmark of Chen, Jensen and Lin (PVLDB 2008), which G-LFPP calls MOIBenchmark. An object
//! keeps its hot-spot for life. At a report the ring it stands in gives its top speed and the time
//! to the next report; where it will be then is drawn at once, so a report's velocity leads exactly
//! to the next one. State: 24 bytes an object and its one event.

mod hotspots;
mod reach;
mod rings;

use rand_xoshiro::SplitMix64;

use hotspots::Hotspots;
use reach::Reach;
use rings::Rings;

use crate::calendar::{Calendar, Event};
use crate::direction::{length, motion};
use crate::limits::START_MS;
use crate::random::{object_stream, unit};
use crate::shard::Shard;
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window, Workload, WorkloadSpace};

/// Side of the space in metres.
const SPACE_M: f64 = 100_000.0;

/// The `gauss` workload.
///
/// Every object reports once within the first step (so the first rows are the whole fleet), and
/// then after a random part of its first interval, lest the rings speak in chorus; from there on
/// after exactly the interval of its ring. The model is no steady state: reach-limited steps around
/// a peak drift towards it, so with few hot-spots the fleet slows down over thousands of steps.
/// Query windows lie anywhere, or with `Params::windows_follow` around a random hot-spot.
#[derive(Debug)]
pub(crate) struct Gauss {
    shard: Shard,
    step_ms: i64,
    hotspots: Hotspots,
    rings: Rings,
    objects: Vec<Object>,
    calendar: Calendar,
    windows: PlanarWindows,
    windows_follow: bool,
}

/// Where an object will be at its next report, and its random numbers.
#[derive(Clone, Debug)]
struct Object {
    x: f64,
    y: f64,
    random: SplitMix64,
}

impl Gauss {
    /// The workload of checked parameters.
    pub(crate) fn new(params: &Params) -> Self {
        let shard = Shard::new(params);
        let hotspots = Hotspots::new(params, SPACE_M);
        let rings = Rings::new(params, hotspots.deviation_m);
        let interval_ms = (rings.interval_steps_mean() * params.step_ms as f64) as i64;
        let mut calendar = Calendar::new(shard.owned(), interval_ms, START_MS);
        let mut objects = Vec::with_capacity(shard.owned() as usize);
        for local in 0..shard.owned() {
            let object = shard.object(local);
            let mut random = object_stream(params.seed, object);
            let (x, y) = hotspots.place(hotspots.of(object), &mut random);
            objects.push(Object { x, y, random });
            let due_ms = START_MS + shard.phase_ms(object);
            calendar.add(Event { due_ms, local: local as u32 });
        }
        Self {
            shard,
            step_ms: params.step_ms,
            hotspots,
            rings,
            objects,
            calendar,
            windows_follow: params.windows_follow,
            windows: PlanarWindows::new(
                params.seed,
                params.shard,
                params.window,
                (SPACE_M, SPACE_M),
            ),
        }
    }

    /// The report of an object whose time has come; it decides where the object goes next.
    fn report(&mut self, Event { due_ms, local }: Event) -> Fix {
        let number = self.shard.object(u64::from(local));
        let centre = self.hotspots.of(number);
        let object = &mut self.objects[local as usize];
        let (x, y) = (object.x, object.y);
        let ring = self.rings.at(length(x - centre.0, y - centre.1));
        let first = due_ms == START_MS + self.shard.phase_ms(number);
        let part = if first { 1.0 - unit(&mut object.random) } else { 1.0 };
        // At least a step after the first report, so that it follows the first ones of all others.
        let interval_steps = (ring.interval_steps * part).max(ring.interval_steps.min(1.0));
        let interval_ms = (interval_steps * self.step_ms as f64).round().max(1.0);
        let reach = Reach {
            centre,
            deviation_m: self.hotspots.deviation_m,
            from: (x, y),
            reach_m: ring.speed_m_per_step * interval_ms / self.step_ms as f64,
        };
        (object.x, object.y) = reach.draw(SPACE_M, &mut object.random);
        self.calendar.add(Event { due_ms: due_ms + interval_ms as i64, local });
        let (way_m, heading_deg) = motion(object.x - x, object.y - y);
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

impl Workload for Gauss {
    fn name(&self) -> &'static str {
        "gauss"
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
        if !self.windows_follow {
            return self.windows.anywhere();
        }
        let (x, y) = self.hotspots.place_anywhere(&mut self.windows.random);
        self.windows.around(x, y)
    }
}
