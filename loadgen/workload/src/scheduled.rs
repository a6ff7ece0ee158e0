//! The frame of `gauss`, `hub` and `network`: objects with a state report when their calendar event
//! comes.
//!
//! Every object reports once within the first step, so the first rows are the whole fleet; its
//! next report is at least a step later.

use rand_xoshiro::SplitMix64;

use crate::calendar::{Calendar, Event};
use crate::direction::motion;
use crate::limits::START_MS;
use crate::random::object_stream;
use crate::shard::Shard;
use crate::window::PlanarWindows;
use crate::{Fix, Params, Window, Workload, WorkloadSpace};

/// How objects move, and when they report.
pub(crate) trait Movement: Send {
    /// State of an object between two reports.
    type Object: Send;

    /// Width and height of the space.
    fn sides_m(&self) -> (f64, f64);

    /// Approximate mean time between two reports of an object, milliseconds.
    fn interval_ms(&self) -> i64;

    /// The object `number`, whose first report is due at `due_ms`.
    fn start(&self, number: u64, due_ms: i64, random: SplitMix64) -> Self::Object;

    /// The fix of an object that is due, and the time of its next report.
    fn report(&self, object: &mut Self::Object, due: &Due) -> (Fix, i64);

    /// The next query window.
    fn window(&self, windows: &mut PlanarWindows) -> Window;
}

/// A report that is due.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Due {
    /// The object.
    pub(crate) number: u64,
    /// Event time of the report.
    pub(crate) time_ms: i64,
    /// The report is the first of its object.
    pub(crate) is_first: bool,
}

impl Due {
    /// The fix of an object that moves straight to a place within an interval.
    pub(crate) fn fix(&self, from: (f64, f64), to: (f64, f64), interval_ms: f64) -> Fix {
        let (length_m, heading_deg) = motion(to.0 - from.0, to.1 - from.1);
        Fix {
            object: self.number,
            time_ms: self.time_ms,
            x: from.0,
            y: from.1,
            speed_mps: Some(length_m / (interval_ms / 1_000.0)),
            heading_deg: Some(heading_deg),
        }
    }
}

/// A workload of objects that move as `M` says.
pub(crate) struct Scheduled<M: Movement> {
    movement: M,
    shard: Shard,
    objects: Vec<M::Object>,
    calendar: Calendar,
    windows: PlanarWindows,
}

impl<M: Movement> Scheduled<M> {
    /// The workload of checked parameters.
    pub(crate) fn new(params: &Params, movement: M) -> Self {
        let shard = Shard::new(params);
        let mut calendar = Calendar::new(shard.owned(), movement.interval_ms(), START_MS);
        let mut objects = Vec::with_capacity(shard.owned() as usize);
        for local in 0..shard.owned() {
            let number = shard.object(local);
            let due_ms = START_MS + shard.phase_ms(number);
            objects.push(movement.start(number, due_ms, object_stream(params.seed, number)));
            calendar.add(Event { due_ms, local: local as u32 });
        }
        let windows = PlanarWindows::new(params, movement.sides_m());
        Self { movement, shard, objects, calendar, windows }
    }
}

impl<M: Movement> Workload for Scheduled<M> {
    fn space(&self) -> WorkloadSpace {
        let (width_m, height_m) = self.movement.sides_m();
        WorkloadSpace::Planar { width_m, height_m }
    }

    fn fill(&mut self, rows: usize, out: &mut Vec<Fix>) -> usize {
        out.reserve(rows);
        for row in 0..rows {
            let Some(Event { due_ms, local }) = self.calendar.take() else {
                return row;
            };
            let number = self.shard.object(u64::from(local));
            let is_first = due_ms == START_MS + self.shard.phase_ms(number);
            let due = Due { number, time_ms: due_ms, is_first };
            let (fix, due_ms) = self.movement.report(&mut self.objects[local as usize], &due);
            self.calendar.add(Event { due_ms, local });
            out.push(fix);
        }
        rows
    }

    fn window(&mut self) -> Window {
        self.movement.window(&mut self.windows)
    }
}
