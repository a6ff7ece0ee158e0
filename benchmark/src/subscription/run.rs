//! Runs the experiments: makes rows once for each motion, lets every backend run every case,
//! compares what they told.

use super::case::{Case, Motion, cases};
use super::contender::contender;
use super::options::{BackendName, Experiment, Options};
use super::prepared::{Rows, Standing};
use super::row::Row;
use super::{plot, table};
use crate::error::BenchmarkError;

/// Runs what the flags ask for.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!("subscription, seed {}", options.seed);
    let one = |experiment: Experiment, name: &str, machine: &str, rows: &mut Vec<Row>| {
        run_experiment(experiment, name, options, machine, rows)
    };
    options.files.run(&head, &options.experiment, one, plot::draw).1
}

fn run_experiment(
    experiment: Experiment,
    name: &str,
    options: &Options,
    machine: &str,
    out: &mut Vec<Row>,
) -> Result<(), BenchmarkError> {
    table::print_head(name);
    let mut left_out_backends = Vec::new();
    for distribution in &options.distribution {
        let motion = Motion::new(*distribution, options);
        let (cases, left_out) = cases(experiment, &motion, options);
        left_out.iter().for_each(|text| println!("# {text}"));
        let rows = Rows::new(&motion)?;
        for case in cases {
            run_case(&case, &rows, options, machine, (out, &mut left_out_backends))?;
        }
    }
    Ok(())
}

/// Lets every backend run one case; appends their rows. Says once of each that is left out why it
/// is.
pub(super) fn run_case(
    case: &Case,
    rows: &Rows,
    options: &Options,
    machine: &str,
    (out, left_out): (&mut Vec<Row>, &mut Vec<BackendName>),
) -> Result<(), BenchmarkError> {
    let standing = Standing::new(case, rows)?;
    let first = out.len();
    for name in &options.backends {
        match contender(*name, rows) {
            Err(_) if left_out.contains(name) => {}
            Err(why) => {
                println!("# {} left out: {why}", name.name());
                left_out.push(*name);
            }
            Ok(contender) => {
                let measured = contender.run(rows, &standing)?;
                let row = Row::new(case, rows, *name, &measured, machine);
                table::print(&row);
                out.push(row);
            }
        }
    }
    agree(case, &out[first..])
}

/// The same circles over the same rows are told the same, whoever tells.
pub(super) fn agree(case: &Case, rows: &[Row]) -> Result<(), BenchmarkError> {
    match rows.iter().find(|row| row.event_hash != rows[0].event_hash) {
        None => Ok(()),
        Some(row) => Err(BenchmarkError::Disagreement {
            case: format!("{:?} {}", case.experiment, case.label()),
            backend: row.backend.name().into(),
            answers: row.event_hash.clone(),
            other: rows[0].backend.name().into(),
            others: rows[0].event_hash.clone(),
        }),
    }
}
