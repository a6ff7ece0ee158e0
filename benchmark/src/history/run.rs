//! Opens the past, exports it if that is asked for, and times the questions of each experiment.
//!
//! Each experiment asks all of its questions once untimed: what follows finds pages in memory as
//! far as these hold them.

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
use crate::harness::command::failed;
use crate::harness::{AnswerHash, CycleTimes, ResultRow, WorkFolder, table};

/// A question and its answer, with the median of the times that it took.
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
    let temporary;
    let folder = match &options.folder {
        Some(folder) => {
            std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
            folder.as_path()
        }
        None => {
            temporary = WorkFolder::create(None)?;
            temporary.path()
        }
    };
    let past = Past::open(options, folder)?;
    if let Some(path) = &options.export {
        export(&past, path)?;
    }
    let mut draw = Draw::new(&past, options)?;
    let mut answers = Vec::new();
    let one = |experiment: Experiment, name: &str, machine: &str, rows: &mut Vec<Row>| {
        table::print_titles::<Row>(name);
        let questions = draw.questions(experiment, options);
        let (row, mut answered) = measure(experiment, &questions, &past, options, machine)?;
        row.print();
        rows.push(row);
        answers.append(&mut answered);
        Ok(())
    };
    let Options { workload, cache_mib, seed, .. } = options;
    let head = format!("history, workload {workload}, seed {seed}, {cache_mib} MiB of pages");
    options.files.run(&head, &options.experiment, one, plot::draw)?;
    match &options.answers {
        None => Ok(()),
        Some(path) => {
            let file = File::create(path).map_err(|source| failed(path, source))?;
            serde_json::to_writer(file, &answers).map_err(|error| failed(path, error.into()))
        }
    }
}

fn measure(
    experiment: Experiment,
    questions: &[Question],
    past: &Past,
    options: &Options,
    machine: &str,
) -> Result<(Row, Vec<Answered>), BenchmarkError> {
    let is_scan = matches!(experiment, Experiment::Filter | Experiment::Region);
    let cores = || std::thread::available_parallelism().map_or(1, NonZero::get);
    let threads = if is_scan { options.threads.map_or_else(cores, NonZero::get) } else { 1 };
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
    for ((question, answer), mut took_ms) in questions.iter().zip(&answers).zip(took_ms) {
        hash.add_word(answer.count);
        hash.add_word(answer.sum as u64);
        found += answer.count;
        took_ms.sort_unstable_by(f64::total_cmp);
        let ms = took_ms[took_ms.len() / 2];
        answered.push(Answered { question: *question, answer: *answer, ms });
    }
    let (version, p50_ms) = (&past.version, times.quantile_ms(0.5));
    let row = Row {
        experiment,
        fixes: version.rows(),
        objects: options.objects,
        threads,
        cache_mib: options.cache_mib,
        bytes_per_fix: version.bytes() as f64 / version.rows() as f64,
        questions: questions.len(),
        passes: options.passes,
        found: found as f64 / questions.len() as f64,
        p50_ms,
        p99_ms: times.quantile_ms(0.99),
        rows_per_s: version.rows() as f64 / p50_ms.max(1e-3) * 1e3,
        answer_hash: hash.finish(),
        workload: options.workload.clone(),
        seed: options.seed,
        machine: machine.to_owned(),
    };
    Ok((row, answered))
}
