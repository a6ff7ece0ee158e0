//! The `gauss` workload: objects gather around hot-spots, and fast ones report often.
//!
//! The benchmark of Chen, Jensen and Lin (PVLDB 2008), which G-LFPP calls MOIBenchmark. An object
//! keeps its hot-spot for life. At a report its ring gives its top speed and the time to the next
//! report; its place at that time is drawn at once, so the velocity of a report leads exactly to
//! the next one. State: 24 bytes per object and one event.

mod hotspots;
mod reach;
mod rings;

use rand_xoshiro::SplitMix64;

use hotspots::Hotspots;
use reach::Reach;
use rings::Rings;

use crate::direction::length;
use crate::random::unit;
use crate::scheduled::{Due, Movement, Scheduled};
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window};

/// Side of the space in metres.
const SPACE_M: f64 = 100_000.0;

/// Movement of `gauss`.
///
/// The second report of an object comes after a random part of its first interval, so that rings do
/// not report in unison; later ones come after exactly the interval of its ring. The model has no
/// steady state: steps that the reach limits drift towards the hot-spot, so with few hot-spots the
/// fleet slows down over thousands of steps. Query windows lie anywhere, or with
/// `Params::windows_follow` around a random hot-spot.
#[derive(Debug)]
pub(crate) struct Gauss {
    step_ms: i64,
    hotspots: Hotspots,
    rings: Rings,
    windows_follow: bool,
}

/// The place of an object at its next report, and its random numbers.
#[derive(Debug)]
pub(crate) struct Object {
    place: (f64, f64),
    random: SplitMix64,
}

impl Gauss {
    /// The workload of checked parameters.
    pub(crate) fn open(params: &Params) -> Scheduled<Self> {
        let hotspots = Hotspots::new(params, SPACE_M);
        let rings = Rings::new(params, hotspots.deviation_m);
        let Params { step_ms, windows_follow, .. } = *params;
        Scheduled::new(params, Self { step_ms, hotspots, rings, windows_follow })
    }
}

impl Movement for Gauss {
    type Object = Object;

    fn sides_m(&self) -> (f64, f64) {
        (SPACE_M, SPACE_M)
    }

    fn interval_ms(&self) -> i64 {
        (self.rings.interval_steps_mean() * self.step_ms as f64) as i64
    }

    fn start(&self, number: u64, _: i64, mut random: SplitMix64) -> Object {
        Object { place: self.hotspots.place(self.hotspots.of(number), &mut random), random }
    }

    fn report(&self, object: &mut Object, due: &Due) -> (Fix, i64) {
        let centre = self.hotspots.of(due.number);
        let from = object.place;
        let ring = self.rings.at(length(from.0 - centre.0, from.1 - centre.1));
        let part = if due.is_first { 1.0 - unit(&mut object.random) } else { 1.0 };
        let interval_steps = (ring.interval_steps * part).max(ring.interval_steps.min(1.0));
        let interval_ms = (interval_steps * self.step_ms as f64).round().max(1.0);
        let reach = Reach {
            centre,
            deviation_m: self.hotspots.deviation_m,
            from,
            reach_m: ring.speed_m_per_step * interval_ms / self.step_ms as f64,
        };
        object.place = reach.draw(SPACE_M, &mut object.random);
        (due.fix(from, object.place, interval_ms), due.time_ms + interval_ms as i64)
    }

    fn window(&self, windows: &mut PlanarWindows) -> Window {
        if !self.windows_follow {
            return windows.anywhere();
        }
        let place = self.hotspots.place_anywhere(&mut windows.random);
        windows.around(place)
    }
}
