//! The baseline as a contender: tuned for the case, then run.
//!
//! Its rows have 16 bytes and are decoded before the clock starts, and its queries are plain
//! rectangles; both favour it. It has no cycles; workers take portions of the whole stream.

use shoal_engine::{GridUpdates, QuantaRect, Query, QueryKind};

use super::contender::{Contender, Measured, NO_DEVICE_THREADS, Settings, check_method};
use super::options::{Experiment, Options};
use super::prepared::{Cycle, Prepared};
use crate::error::BenchmarkError;
use crate::harness::source::Attributes;
use crate::harness::{AnswerHash, CycleTimes, Totals};
use crate::pgrid::{
    Answers, Layout, PGrid, PORTION_UPDATES, Sample, Stream, TIME_MAX_MS, Trial, Update, Workers,
    tune,
};

/// Updates of the sample that tuning runs for each layout, with their queries.
const SAMPLE_UPDATES: usize = 2_000_000;
/// Cache lines of a bucket in the experiments over cells.
const BUCKET_LINES: usize = 4;

/// The baseline.
pub(super) struct PgridContender {
    workers: Workers,
    objects: u32,
    layout: Option<Layout>,
}

impl PgridContender {
    /// The baseline for a case, or the reason why it cannot run.
    pub(super) fn new(prepared: &Prepared, options: &Options) -> Result<Self, String> {
        let case = &prepared.case;
        if case.experiment == Experiment::Threads {
            return Err(NO_DEVICE_THREADS.to_owned());
        }
        check_method(prepared)?;
        if case.attributes != Attributes::None {
            return Err("its objects have 16 bytes and no attributes".to_owned());
        }
        let Ok(objects) = u32::try_from(case.objects) else {
            return Err("it numbers objects with 32 bits".to_owned());
        };
        let given = options.pgrid_side.zip(options.pgrid_bucket_lines);
        let layout = match case.side {
            Some(side) => Some(Layout { side, bucket_lines: BUCKET_LINES }),
            None => given.map(|(side, lines)| Layout { side, bucket_lines: lines as usize }),
        };
        let workers =
            options.pgrid_roles.map_or(Workers::Alike(options.threads()), Workers::Divided);
        Ok(Self { workers, objects, layout })
    }

    /// The given layout, or the best one for this case.
    fn layout(&self, prepared: &Prepared, first: &Stream, next: &Stream) -> Layout {
        if let Some(layout) = self.layout {
            return layout;
        }
        let cut = |length: usize| {
            let whole = next.updates.len().max(next.windows.len());
            length * SAMPLE_UPDATES.min(whole) / whole.max(1)
        };
        let sample = Stream {
            updates: next.updates[..cut(next.updates.len())].to_vec(),
            windows: next.windows[..cut(next.windows.len())].to_vec(),
        };
        let trials = tune(&Sample {
            bounds: prepared.space.bounds(),
            objects: self.objects,
            workers: self.workers,
            first,
            next: &sample,
        });
        let lines: Vec<_> = trials.iter().map(describe).collect();
        println!("# pgrid tuned: {}", lines.join(", "));
        trials[0].layout
    }
}

/// A trial as text.
fn describe(trial: &Trial) -> String {
    let Layout { side, .. } = trial.layout;
    let (length, rate) = (trial.layout.bucket_objects(), trial.operations_per_s / 1e6);
    format!("{side} x {side} cells of {length}: {rate:.2} M/s")
}

impl Contender for PgridContender {
    fn run(self: Box<Self>, prepared: &Prepared) -> Result<Measured, BenchmarkError> {
        let first = stream(&prepared.load, prepared)?;
        let warm = stream(std::slice::from_ref(&prepared.warm), prepared)?;
        let next = stream(&prepared.cycles, prepared)?;
        let layout = self.layout(prepared, &first, &next);
        let mut grid = PGrid::new(prepared.space.bounds(), self.objects, self.workers, layout);
        for before in [first, warm] {
            grid.run(&before);
            grid.settle();
        }
        if grid.objects() != prepared.case.objects {
            let text = format!("the first reports created {} objects", grid.objects());
            return Err(BenchmarkError::WorkloadRows(text));
        }
        let (took, answers) = grid.run(&next);

        let mut times = CycleTimes::new()?;
        answers.portion_times().for_each(|took| times.add(took));
        let found: Vec<u64> = answers.iter().map(|objects| objects.len() as u64).collect();
        let mut totals = Totals::default();
        totals.add(found.len(), |range| found[range].iter().copied());
        let at_rest = Stream { updates: Vec::new(), windows: windows(&prepared.rest)? };
        let (_, answers) = grid.run(&at_rest);
        Ok(Measured {
            seconds: took.as_secs_f64(),
            times,
            cycle_updates: PORTION_UPDATES.min(next.updates.len()),
            epochs_behind: 0,
            totals,
            answer_hash: hash(&answers),
            recording: None,
            memory_bytes: grid.memory_bytes(),
            grid_updates: GridUpdates::default(),
            settings: Settings {
                threads: Some(self.workers.count()),
                pgrid_roles: match self.workers {
                    Workers::Alike(_) => String::new(),
                    Workers::Divided(roles) => roles.to_string(),
                },
                cells: u64::from(layout.side).pow(2),
                bucket_objects: layout.bucket_objects(),
                ..Settings::default()
            },
        })
    }
}

fn hash(answers: &Answers) -> String {
    let mut hash = AnswerHash::new();
    answers.iter().for_each(|objects| hash.add_answer(objects.len() as u64, objects));
    hash.finish()
}

/// Converts cycles to one stream. Times are relative to the first report of the load.
fn stream(cycles: &[Cycle], prepared: &Prepared) -> Result<Stream, BenchmarkError> {
    let first = prepared.load.iter().flat_map(|cycle| &cycle.blocks);
    let base_ms = first.map(|block| block.header().base_time_ms).min().unwrap_or(0);
    let mut stream = Stream::default();
    for cycle in cycles {
        for block in &cycle.blocks {
            let columns = block.decode()?;
            for row in 0..columns.len() {
                let time_ms = u32::try_from(columns.time_ms[row] - base_ms);
                let Some(time_ms) = time_ms.ok().filter(|time_ms| *time_ms <= TIME_MAX_MS) else {
                    let text = format!("the baseline has no time {} ms", columns.time_ms[row]);
                    return Err(BenchmarkError::WorkloadRows(text));
                };
                // Generators number objects from 0, and `new` refuses more than 32 bits can count.
                let object = columns.object[row] as u32;
                stream.updates.push(Update {
                    object,
                    time_ms,
                    x: columns.x[row],
                    y: columns.y[row],
                });
            }
        }
        stream.windows.extend(windows(&cycle.queries)?);
    }
    Ok(stream)
}

/// The rectangles of range queries.
fn windows(queries: &[Query]) -> Result<Vec<QuantaRect>, BenchmarkError> {
    let window = |query: &Query| match &query.kind {
        QueryKind::Range(region) if region.is_cover() && region.cover().as_slice().len() == 1 => {
            Ok(region.cover().as_slice()[0])
        }
        _ => Err(BenchmarkError::WorkloadRows("the baseline answers one rectangle".into())),
    };
    queries.iter().map(window).collect()
}
