//! Questions of each kind, drawn from the past itself, and their answers.
//!
//! An answer is a number of rows and a sum that other systems can compute too.

use std::sync::Mutex;
use std::thread;

use rand_xoshiro::SplitMix64;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use shoal_codec::FixColumns;
use shoal_history::{
    AsOf, AsOfQuery, Everywhere, Objects, QueryBudget, RowFilter, Scan, Trajectory,
};

use super::filters::{Circle, Rectangle, Speeds};
use super::options::{Experiment, Options};
use super::past::Past;
use crate::error::BenchmarkError;

/// Radius of the circles, metres.
const RADIUS_M: f64 = 1_000.0;
/// Half of the side of the squares, metres.
const HALF_SIDE_M: f64 = 50_000.0;
/// Half of the window of `passed`, milliseconds.
const HALF_HOUR_MS: i64 = 1_800_000;
/// Parts of a scan per thread; more than one, so that uneven parts balance.
const PARTS_PER_THREAD: usize = 8;

/// One question. Ranges include both ends; coordinates are in quanta, speeds in mm/s.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub(super) enum Question {
    Trajectory { object: u64, from_ms: i64, to_ms: i64 },
    AsOf { time_ms: i64 },
    Passed { x: i32, y: i32, radius: i32, from_ms: i64, to_ms: i64 },
    Filter { low: u32, high: u32 },
    Region { x: (i32, i32), y: (i32, i32), from_ms: i64, to_ms: i64 },
}

/// The part of an answer that must be equal in all systems.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Answer {
    /// Number of rows or objects, or the requested count.
    pub(super) count: u64,
    /// Sum of the rows' x, or of the object ids; 0 if the question asks for a count.
    pub(super) sum: i64,
}

/// States of all objects at several moments, from which questions are drawn.
pub(super) struct Draw {
    window_ms: (i64, i64),
    quantum_m: f64,
    random: SplitMix64,
    states: Vec<(i64, FixColumns)>,
}

impl Draw {
    pub(super) fn new(past: &Past, options: &Options) -> Result<Self, BenchmarkError> {
        let (from_ms, to_ms) = past.window_ms;
        let mut random = SplitMix64::seed_from_u64(options.common.seed);
        let runs = i64::from(options.runs);
        let mut states = Vec::new();
        for run in 0..runs {
            // Moments are spread evenly. The random offset makes it unlikely that one is at the
            // border of partitions.
            let share_ms = (to_ms - from_ms) / (runs + 1);
            let time_ms = from_ms + share_ms * (run + 1) + (random.next_u64() % 60_000) as i64;
            states.push((time_ms, as_of(past, time_ms, 1)?));
        }
        let Past { window_ms, quantum_m, .. } = *past;
        Ok(Self { window_ms, quantum_m, random, states })
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.random.next_u64() % limit as u64) as usize
    }

    /// The questions of an experiment.
    pub(super) fn questions(&mut self, experiment: Experiment, options: &Options) -> Vec<Question> {
        let is_cheap = matches!(experiment, Experiment::Trajectory | Experiment::Passed);
        let count = if is_cheap { options.questions } else { options.runs };
        (0..count as usize).map(|number| self.question(experiment, number)).collect()
    }

    fn question(&mut self, experiment: Experiment, number: usize) -> Question {
        let (from_ms, to_ms) = self.window_ms;
        let quanta = |metres: f64| (metres / self.quantum_m) as i32;
        let (radius, half_side) = (quanta(RADIUS_M), quanta(HALF_SIDE_M));
        let state = number % self.states.len();
        let row = self.below(self.states[state].1.len());
        let (time_ms, rows) = &self.states[state];
        let (x, y) = (rows.x[row], rows.y[row]);
        match experiment {
            Experiment::Trajectory => {
                Question::Trajectory { object: rows.object[row], from_ms, to_ms }
            }
            Experiment::AsOf => Question::AsOf { time_ms: *time_ms },
            Experiment::Passed => {
                // The window is around the fix's own time, which may precede the moment, so that
                // the object matches.
                let time_ms = rows.time_ms[row];
                let (from_ms, to_ms) = (time_ms - HALF_HOUR_MS, time_ms + HALF_HOUR_MS - 1);
                Question::Passed { x, y, radius, from_ms, to_ms }
            }
            Experiment::Filter => {
                // About a hundredth of the fixes.
                let mut speeds = rows.speed_mm_s.clone().unwrap_or_default();
                speeds.sort_unstable();
                let high = speeds[(row + speeds.len() / 100).min(speeds.len() - 1)];
                Question::Filter { low: speeds[row], high }
            }
            Experiment::Region => {
                let side = |at: i32| (at.saturating_sub(half_side), at.saturating_add(half_side));
                let cut_ms = (to_ms - from_ms) / 50 + number as i64;
                let (from_ms, to_ms) = (from_ms + cut_ms, to_ms - cut_ms);
                Question::Region { x: side(x), y: side(y), from_ms, to_ms }
            }
            other => unreachable!("{other:?} is asked on a device"),
        }
    }
}

fn as_of(past: &Past, time_ms: i64, threads: usize) -> Result<FixColumns, BenchmarkError> {
    let query = AsOfQuery { time_ms, ttl_ms: None, objects: None };
    let (version, budget) = (past.version.clone(), QueryBudget::unlimited());
    let mut as_of = AsOf::new(version, query, Everywhere, budget).on_threads(threads);
    let mut rows = FixColumns::new();
    while as_of.next(&mut rows)? {}
    Ok(rows)
}

impl Question {
    /// Runs the question.
    pub(super) fn ask(&self, past: &Past, threads: usize) -> Result<Answer, BenchmarkError> {
        let (version, budget) = (past.version.clone(), QueryBudget::unlimited());
        match *self {
            Self::Trajectory { object, from_ms, to_ms } => {
                let mut track = Trajectory::new(version, &[object], (from_ms, to_ms), 0, budget);
                let mut rows = FixColumns::new();
                while track.next(&mut rows)? {}
                Ok(Answer::of_rows(&rows))
            }
            Self::AsOf { time_ms } => Ok(Answer::of_rows(&as_of(past, time_ms, threads)?)),
            Self::Passed { x, y, radius, from_ms, to_ms } => {
                let circle = Circle { x, y, radius };
                let scan = Scan::new(version, (from_ms, to_ms), circle, budget);
                let objects = Objects::new(scan).all()?;
                let sum = objects.iter().map(|object| *object as i64).sum();
                Ok(Answer { count: objects.len() as u64, sum })
            }
            Self::Filter { low, high } => {
                let scan = Scan::new(version, past.window_ms, Speeds(low, high), budget);
                count(scan, threads)
            }
            Self::Region { x, y, from_ms, to_ms } => {
                count(Scan::new(version, (from_ms, to_ms), Rectangle { x, y }, budget), threads)
            }
        }
    }
}

impl Answer {
    fn of_rows(rows: &FixColumns) -> Self {
        let sum = rows.x.iter().map(|x| i64::from(*x)).sum();
        Self { count: rows.len() as u64, sum }
    }
}

/// Counts the matches of a scan on `threads` threads, each of which takes the next part until none
/// is left.
fn count<F: RowFilter + Clone + Send>(
    scan: Scan<F>,
    threads: usize,
) -> Result<Answer, BenchmarkError> {
    let parts = Mutex::new(scan.split(threads * PARTS_PER_THREAD).into_iter());
    let work = || {
        let next = || parts.lock().expect("no thread panics with it").next();
        let counts = std::iter::from_fn(next).map(Scan::count);
        counts.sum::<Result<u64, _>>()
    };
    let counts: Result<Vec<u64>, _> = thread::scope(|scope| {
        let threads: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        threads.into_iter().map(|thread| thread.join().expect("a part panicked")).collect()
    });
    Ok(Answer { count: counts?.iter().sum(), sum: 0 })
}
