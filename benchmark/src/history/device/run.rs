//! For each aim: makes and loads the runs, checks answers of the first run against its rows, and
//! times the questions over all runs.

use std::time::Instant;

use shoal_engine::layout::RunZone;
use shoal_gpu::{DeviceHistory, DeviceRun, Gpu};
use shoal_history::ObjectTime;

use super::made_run::{HALF_SIDE, MadeRun, START_MS, STEP_MS};
use crate::error::BenchmarkError;
use crate::harness::{AnswerHash, median};
use crate::history::options::{Experiment, Options};
use crate::history::row::Row;

/// Number of (object, time) pairs of `device-pairs` over all runs.
const PAIRS: u64 = 1_000_000;
/// Objects whose states are compared with their rows.
const CHECKED: usize = 1_000;

/// The runs of one aim.
struct Loaded {
    aim: String,
    device: DeviceHistory,
    runs: Vec<DeviceRun>,
    first: MadeRun,
    rows: u64,
    bytes: u64,
    device_bytes: u64,
    load_ms: f64,
}

/// Number of rows or states found, and a checksum of them.
type Found = (u64, u64);

/// Measures the experiments aim by aim, because the runs of two aims may not fit in device memory
/// together. Leaves the `machine` of the rows empty.
pub(in crate::history) fn measure(
    experiments: &[Experiment],
    options: &Options,
) -> Result<Vec<Row>, BenchmarkError> {
    let missing = |error: shoal_gpu::Unavailable| BenchmarkError::Backend(error.to_string());
    let gpu = Gpu::open(Gpu::FIRST).map_err(missing)?;
    println!("# {}, runs of {} rows", gpu.name(), options.device_rows);
    let mut rows = Vec::new();
    for aim in &options.device_aim {
        let mut loaded = Loaded::new(&gpu, options, *aim)?;
        loaded.check(options)?;
        for experiment in experiments {
            rows.push(loaded.measure(*experiment, options)?);
        }
    }
    Ok(rows)
}

impl Loaded {
    fn new(gpu: &Gpu, options: &Options, aim: shoal_codec::Aim) -> Result<Self, BenchmarkError> {
        let mut device = DeviceHistory::new(gpu, gpu.budget_bytes())?;
        let (mut runs, mut first, mut load_ms) = (Vec::new(), None, 0.0);
        let (mut rows, mut bytes) = (0, 0);
        let before = device.used_bytes();
        for number in 0..u64::from(options.device_runs) {
            let seed = options.common.seed + number;
            let made = MadeRun::new(options.device_rows, options.device_object_rows, seed, aim)?;
            let start = Instant::now();
            runs.push(device.load(made.source())?);
            load_ms += start.elapsed().as_secs_f64() * 1e3;
            rows += made.rows();
            bytes += made.bytes();
            first.get_or_insert(made);
        }
        let device_bytes = device.used_bytes() - before;
        let first = first.expect("there is a run");
        let aim = aim.to_string();
        Ok(Self { aim, device, runs, first, rows, bytes, device_bytes, load_ms })
    }

    /// Compares answers of the first run with its rows.
    fn check(&mut self, options: &Options) -> Result<(), BenchmarkError> {
        let differs = |what: String| Err(BenchmarkError::Membership(what));
        for experiment in
            [Experiment::DeviceWindow, Experiment::DeviceHalf, Experiment::DeviceSquare]
        {
            let zone = zone(experiment, options);
            let found = self.device.select(&self.runs[0], zone)?;
            let found: u64 = found.iter().map(|(_, count)| u64::from(*count)).sum();
            let expected = self.first.count(&zone)?;
            if found != expected {
                return differs(format!("{experiment:?}: {found} rows, not {expected}"));
            }
        }
        let time_ms = moment_ms(options);
        let states = self.device.newest(&self.runs[0], time_ms, 0, usize::MAX)?;
        let objects = &self.first.objects;
        if states.len() != objects.len() {
            return differs(format!("{} states of {} objects", states.len(), objects.len()));
        }
        for at in (0..objects.len()).step_by((objects.len() / CHECKED).max(1)) {
            let expected = self.first.newest(&objects[at], time_ms)?;
            if states.row(at) != expected {
                return differs(format!("{:?}, not {expected:?}", states.row(at)));
            }
        }
        Ok(())
    }

    fn measure(
        &mut self,
        experiment: Experiment,
        options: &Options,
    ) -> Result<Row, BenchmarkError> {
        let pairs = match experiment {
            Experiment::DevicePairs => self.pairs(options),
            _ => vec![Vec::new(); self.runs.len()],
        };
        let (found, word) = self.ask(experiment, options, &pairs)?;
        let mut times = Vec::new();
        for _ in 0..options.passes {
            let start = Instant::now();
            let again = self.ask(experiment, options, &pairs)?;
            times.push(start.elapsed().as_secs_f64() * 1e3);
            if again != (found, word) {
                let what = format!("{experiment:?} has the answers {again:?}, {found} {word}");
                return Err(BenchmarkError::Membership(what));
            }
        }
        // With few repetitions, the maximum stands for the 99th percentile.
        let p99_ms = times.iter().copied().fold(0.0, f64::max);
        let p50_ms = median(times);
        let mut hash = AnswerHash::new();
        hash.add_word(found);
        hash.add_word(word);
        Ok(Row {
            experiment,
            aim: Some(self.aim.clone()),
            fixes: self.rows,
            objects: self.first.objects.len() as u64 * u64::from(options.device_runs),
            threads: 0,
            cache_mib: 0,
            bytes_per_fix: self.bytes as f64 / self.rows as f64,
            device_bytes_per_fix: Some(self.device_bytes as f64 / self.rows as f64),
            load_ms: Some(self.load_ms),
            questions: 1,
            passes: options.passes,
            found: found as f64,
            p50_ms,
            p99_ms,
            rows_per_s: self.rows as f64 / p50_ms * 1e3,
            answer_hash: hash.finish(),
            workload: None,
            seed: options.common.seed,
            machine: String::new(),
        })
    }

    /// Runs the question of an experiment on all runs in sequence; returns the sums over the runs.
    fn ask(
        &mut self,
        experiment: Experiment,
        options: &Options,
        pairs: &[Vec<ObjectTime>],
    ) -> Result<Found, BenchmarkError> {
        let (mut found, mut word) = (0, 0_u64);
        for (run, pairs) in self.runs.iter().zip(pairs) {
            match experiment {
                Experiment::DeviceWindow | Experiment::DeviceHalf | Experiment::DeviceSquare => {
                    for (tile, count) in self.device.select(run, zone(experiment, options))? {
                        found += u64::from(count);
                        word = word.wrapping_add(u64::from(tile) * u64::from(count));
                    }
                }
                Experiment::DeviceAsOf => {
                    let time_ms = moment_ms(options);
                    found += self.device.newest_on_device(run, time_ms, 0, usize::MAX)? as u64;
                }
                Experiment::DeviceAsOfCopied => {
                    let states = self.device.newest(run, moment_ms(options), 0, usize::MAX)?;
                    found += states.len() as u64;
                    // The last state is read, because it is copied last.
                    word = word.wrapping_add(states.x.last().map_or(0, |x| *x as u64));
                }
                Experiment::DevicePairs => {
                    for state in self.device.find(run, pairs)?.into_iter().flatten() {
                        found += 1;
                        word = word.wrapping_add(state.x as u64 ^ state.time_ms as u64);
                    }
                }
                other => unreachable!("{other:?} is asked on the disk"),
            }
        }
        Ok((found, word))
    }

    /// Random objects and moments, by run.
    fn pairs(&self, options: &Options) -> Vec<Vec<ObjectTime>> {
        let each = PAIRS / u64::from(options.device_runs);
        let span_ms = span_ms(options) as u64;
        let objects = &self.first.objects;
        // An odd multiplier permutes 64-bit numbers and spreads consecutive ones.
        let draw = |number: u64, of: u64| {
            ((number ^ options.common.seed).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % of
        };
        let pair = |number: u64| ObjectTime {
            object: objects[draw(number, objects.len() as u64) as usize].object,
            time: START_MS + draw(number + PAIRS, span_ms) as i64,
        };
        (0..u64::from(options.device_runs))
            .map(|run| (run * each..(run + 1) * each).map(pair).collect())
            .collect()
    }
}

/// The length of the past.
fn span_ms(options: &Options) -> i64 {
    STEP_MS * i64::from(options.device_object_rows)
}

/// The middle of the past, Unix milliseconds.
fn moment_ms(options: &Options) -> i64 {
    START_MS + STEP_MS + span_ms(options) / 2
}

/// The zone of an experiment: its area, and a third of the past.
fn zone(experiment: Experiment, options: &Options) -> RunZone {
    let third = (span_ms(options) / 3) as u32;
    let (x, y) = match experiment {
        Experiment::DeviceHalf => ((-HALF_SIDE / 2, HALF_SIDE / 2), (i32::MIN, i32::MAX)),
        Experiment::DeviceSquare => ((0, HALF_SIDE / 4), (0, HALF_SIDE / 4)),
        _ => ((i32::MIN, i32::MAX), (i32::MIN, i32::MAX)),
    };
    RunZone { time_min: third, time_max: 2 * third, x_min: x.0, x_max: x.1, y_min: y.0, y_max: y.1 }
}
