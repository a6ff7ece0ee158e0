//! Runs the experiments: prepares each workload once, lets every backend run it, compares answers.
//!
//! Cases that differ in settings alone share their rows, so their answers must be the same.

use std::path::PathBuf;

use super::breakdown::Breakdown;
use super::case::{Case, cases};
use super::contender::contender;
use super::options::{Experiment, Options};
use super::prepared::Prepared;
use super::row::Row;
use super::{plot, summary, table, timeline};
use crate::error::BenchmarkError;

/// Runs what the flags ask for.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!("glfpp, {} threads, seed {}", options.threads(), options.seed);
    let one = |experiment: Experiment, name: &str, machine: &str, rows: &mut Vec<Row>| {
        run_experiment(experiment, name, options, machine, rows)
    };
    let (rows, done) = options.files.run(&head, &options.experiment, one, plot::draw);
    let csv = options.csv.as_ref().map_or(Ok(()), |path| table::write_csv(path, &rows));
    done.and(csv)
}

fn run_experiment(
    experiment: Experiment,
    name: &str,
    options: &Options,
    machine: &str,
    rows: &mut Vec<Row>,
) -> Result<(), BenchmarkError> {
    table::print_head(name);
    let first = rows.len();
    let mut ready: Option<Prepared> = None;
    let mut first_of_workload = first;
    let mut left_out = Vec::new();
    for case in cases(experiment, options) {
        // Settings are compared on the same rows, which are made once.
        ready = ready.filter(|ready| ready.case.is_workload_of(&case));
        let prepared = if let Some(ready) = ready {
            ready.for_case(&case)
        } else {
            first_of_workload = rows.len();
            Prepared::new(&case)?
        };
        run_prepared(&prepared, options, machine, (rows, &mut left_out))?;
        agree(&case, &rows[first_of_workload..])?;
        ready = Some(prepared);
    }
    summary::print(experiment, &rows[first..]);
    Ok(())
}

/// Lets every backend run one case; appends their rows.
#[cfg(test)]
pub(super) fn run_case(
    case: &Case,
    options: &Options,
    machine: &str,
    rows: &mut Vec<Row>,
) -> Result<(), BenchmarkError> {
    let first = rows.len();
    run_prepared(&Prepared::new(case)?, options, machine, (rows, &mut Vec::new()))?;
    agree(case, &rows[first..])
}

/// Lets every backend run what was prepared; appends their rows. Says once of each that is left out
/// why it is.
fn run_prepared(
    prepared: &Prepared,
    options: &Options,
    machine: &str,
    (rows, left_out): (&mut Vec<Row>, &mut Vec<String>),
) -> Result<(), BenchmarkError> {
    let case = &prepared.case;
    for name in &options.backends {
        let contender = match contender(*name, prepared, options) {
            Ok(contender) => contender,
            Err(why) => {
                let text = format!("# {name:?} left out: {why}");
                if !left_out.contains(&text) {
                    println!("{text}");
                    left_out.push(text);
                }
                continue;
            }
        };
        let mut measured = contender.run(prepared)?;
        let recording = measured.recording.take();
        let breakdown = recording.as_ref().and_then(Breakdown::new);
        let row = Row::new(case, *name, measured, breakdown.as_ref(), (options.threads(), machine));
        table::print(&row);
        if let (Some(recording), Some(breakdown)) = (recording, breakdown) {
            let label = format!("{} {}", row.series(), case.label());
            breakdown.print(&label);
            let draw = |folder: &PathBuf| timeline::draw(folder, &label, &recording.spans);
            options.files.svg.as_ref().map_or(Ok(()), draw)?;
        }
        rows.push(row);
    }
    Ok(())
}

/// The same queries at rest have the same answers, whoever was asked.
pub(super) fn agree(case: &Case, rows: &[Row]) -> Result<(), BenchmarkError> {
    match rows.iter().find(|row| row.answer_hash != rows[0].answer_hash) {
        None => Ok(()),
        Some(row) => Err(BenchmarkError::Disagreement {
            case: format!("{:?} {}", case.experiment, case.label()),
            backend: row.backend_name().into(),
            answers: row.answer_hash.clone(),
            other: rows[0].backend_name().into(),
            others: rows[0].answer_hash.clone(),
        }),
    }
}
