//! Opens the past, exports it on request, and times the questions of each experiment.
//!
//! Each experiment first runs all of its questions once untimed, so that the page cache is warm as
//! far as its size allows.

use std::fs::File;
use std::num::NonZero;
use std::time::Instant;

use serde::Serialize;

use super::export::export;
use super::options::{Experiment, Options};
use super::past::Past;
use super::plot;
use super::question::{Answer, Draw, Question};
use super::row::Row;
use crate::error::BenchmarkError;
use crate::harness::command::{check_writable, failed};
use crate::harness::{AnswerHash, CycleTimes, Output, WorkFolder, median, table};

/// A question, its answer, and its median time.
#[derive(Serialize)]
struct Answered {
    #[serde(flatten)]
    question: Question,
    #[serde(flatten)]
    answer: Answer,
    ms: f64,
}

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    // Checked before the past is built, because that may take an hour.
    options.common.check_files()?;
    options.answers.as_deref().map_or(Ok(()), check_writable)?;
    let (on_device, on_disk): (Vec<Experiment>, Vec<Experiment>) =
        options.experiment.iter().partition(|experiment| experiment.is_on_device());
    let mut disk = if on_disk.is_empty() { None } else { Some(Disk::open(options)?) };
    let resident = if on_device.is_empty() { Vec::new() } else { resident(&on_device, options)? };
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        match &mut disk {
            Some(disk) if !experiment.is_on_device() => {
                let row = disk.measure(experiment, options, &out.machine)?;
                out.add(row);
            }
            _ => {
                for row in resident.iter().filter(|row| row.experiment == experiment) {
                    out.add(Row { machine: out.machine.clone(), ..row.clone() });
                }
                table::agree(out.rows())?;
            }
        }
        Ok(())
    };
    let Options { workload, cache_mib, common, .. } = options;
    let seed = common.seed;
    let head = format!("history, workload {workload}, seed {seed}, {cache_mib} MiB of pages");
    common.run(&head, &options.experiment, one, plot::draw)?;
    match (&options.answers, disk) {
        (Some(path), Some(disk)) => {
            let file = File::create(path).map_err(|source| failed(path, source))?;
            serde_json::to_writer(file, &disk.answers).map_err(|error| failed(path, error.into()))
        }
        _ => Ok(()),
    }
}

/// Measures the experiments on the first device.
#[cfg(feature = "cuda")]
fn resident(experiments: &[Experiment], options: &Options) -> Result<Vec<Row>, BenchmarkError> {
    super::device::measure(experiments, options)
}

/// Always fails: this build has no CUDA backend.
#[cfg(not(feature = "cuda"))]
fn resident(_: &[Experiment], _: &Options) -> Result<Vec<Row>, BenchmarkError> {
    Err(BenchmarkError::Backend(shoal_gpu::Unavailable::NotBuilt.to_string()))
}

/// A past on the disk, and what it has answered.
struct Disk {
    past: Past,
    draw: Draw,
    answers: Vec<Answered>,
    /// Temporary folder; removed when the past is dropped.
    _folder: Option<WorkFolder>,
}

impl Disk {
    fn open(options: &Options) -> Result<Self, BenchmarkError> {
        let (past, temporary) = match &options.folder {
            Some(folder) => {
                std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
                (Past::open(options, folder)?, None)
            }
            None => {
                let temporary = WorkFolder::create(None)?;
                (Past::open(options, temporary.path())?, Some(temporary))
            }
        };
        if let Some(path) = &options.export {
            export(&past, path)?;
        }
        let draw = Draw::new(&past, options)?;
        Ok(Self { past, draw, answers: Vec::new(), _folder: temporary })
    }

    fn measure(
        &mut self,
        experiment: Experiment,
        options: &Options,
        machine: &str,
    ) -> Result<Row, BenchmarkError> {
        let questions = self.draw.questions(experiment, options);
        let (row, mut answered) = measure(experiment, &questions, &self.past, options, machine)?;
        self.answers.append(&mut answered);
        Ok(row)
    }
}

fn measure(
    experiment: Experiment,
    questions: &[Question],
    past: &Past,
    options: &Options,
    machine: &str,
) -> Result<(Row, Vec<Answered>), BenchmarkError> {
    let is_large = matches!(experiment, Experiment::AsOf | Experiment::Filter | Experiment::Region);
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if is_large { options.threads.map_or_else(cores, NonZero::get) } else { 1 };
    let ask = |question: &Question| question.ask(past, threads);
    let answers = questions.iter().map(ask).collect::<Result<Vec<Answer>, _>>()?;
    let mut times = CycleTimes::new()?;
    let mut took_ms = vec![Vec::new(); questions.len()];
    for _ in 0..options.passes {
        for (number, question) in questions.iter().enumerate() {
            let start = Instant::now();
            let answer = ask(question)?;
            let took = start.elapsed();
            if answer != answers[number] {
                let text =
                    format!("{question:?} has the answers {answer:?}, {:?}", answers[number]);
                return Err(BenchmarkError::Membership(text));
            }
            times.add(took);
            took_ms[number].push(took.as_secs_f64() * 1e3);
        }
    }
    let (mut hash, mut found, mut answered) = (AnswerHash::new(), 0, Vec::new());
    for ((question, answer), took_ms) in questions.iter().zip(&answers).zip(took_ms) {
        hash.add_word(answer.count);
        hash.add_word(answer.sum as u64);
        found += answer.count;
        answered.push(Answered { question: *question, answer: *answer, ms: median(took_ms) });
    }
    let (version, p50_ms) = (&past.version, times.quantile_ms(0.5));
    let row = Row {
        experiment,
        aim: None,
        fixes: version.rows(),
        objects: options.objects,
        threads,
        cache_mib: options.cache_mib,
        bytes_per_fix: version.bytes() as f64 / version.rows() as f64,
        device_bytes_per_fix: None,
        load_ms: None,
        questions: questions.len(),
        passes: options.passes,
        found: found as f64 / questions.len() as f64,
        p50_ms,
        p99_ms: times.quantile_ms(0.99),
        rows_per_s: version.rows() as f64 / p50_ms.max(1e-3) * 1e3,
        answer_hash: hash.finish(),
        workload: Some(options.workload.clone()),
        seed: options.common.seed,
        machine: machine.to_owned(),
    };
    Ok((row, answered))
}
