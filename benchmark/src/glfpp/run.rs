//! Runs the experiments: prepares each workload once, runs every backend on it, compares answers.
//!
//! Cases that differ only in settings share their rows, so their answers must be equal.

use std::path::Path;

use super::breakdown::Breakdown;
#[cfg(test)]
use super::case::Case;
use super::case::cases;
use super::contender::contender;
use super::options::{Experiment, Options};
use super::prepared::Prepared;
use super::row::Row;
use super::{summary, timeline};
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart, distinct, series_of};
use crate::harness::{ResultRow, table};

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!("glfpp, {} threads, seed {}", options.threads(), options.seed);
    let one = |experiment: Experiment, name: &str, machine: &str, rows: &mut Vec<Row>| {
        run_experiment(experiment, name, options, machine, rows)
    };
    options.files.run(&head, &options.experiment, one, draw)
}

fn run_experiment(
    experiment: Experiment,
    name: &str,
    options: &Options,
    machine: &str,
    rows: &mut Vec<Row>,
) -> Result<(), BenchmarkError> {
    table::print_titles::<Row>(name);
    let first = rows.len();
    let mut ready: Option<Prepared> = None;
    let mut first_of_workload = first;
    let mut left_out = Vec::new();
    for case in cases(experiment, options) {
        ready = ready.filter(|ready| ready.case.is_workload_of(&case));
        let prepared = if let Some(ready) = ready {
            ready.for_case(&case)
        } else {
            first_of_workload = rows.len();
            Prepared::new(&case)?
        };
        run_prepared(&prepared, options, machine, (rows, &mut left_out))?;
        table::agree(&rows[first_of_workload..])?;
        ready = Some(prepared);
    }
    summary::print(experiment, &rows[first..]);
    Ok(())
}

/// Runs every backend on one case and appends their rows.
#[cfg(test)]
pub(super) fn run_case(
    case: &Case,
    options: &Options,
    machine: &str,
    rows: &mut Vec<Row>,
) -> Result<(), BenchmarkError> {
    let first = rows.len();
    run_prepared(&Prepared::new(case)?, options, machine, (rows, &mut Vec::new()))?;
    table::agree(&rows[first..])
}

/// Runs every backend on a prepared case and appends their rows. Prints once why a backend is left
/// out.
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
                let text = format!("# {} left out: {why}", name.name());
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
        row.print();
        if let (Some(recording), Some(breakdown)) = (recording, breakdown) {
            let label = format!("{} {}", row.series(), case.label());
            breakdown.print(&label);
            if let Some(folder) = &options.files.svg {
                timeline::draw(folder, &label, &recording.spans)?;
            }
        }
        rows.push(row);
    }
    Ok(())
}

/// Draws the rates of one experiment as `glfpp_NAME.svg`, one line per series.
fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    let cases = distinct(rows.iter().map(|row| row.case.clone()));
    let place = |row: &Row| cases.iter().position(|case| *case == row.case);
    let point = |row: &Row| Some((place(row)? as f64, row.rate() / 1e6));
    let query_rows = rows.iter().filter(|row| row.updates == 0).count();
    let chart = Chart {
        title: format!("{name}, {} objects", rows[0].objects),
        x_text: match rows[0].experiment {
            Experiment::Mixed | Experiment::UpdatesAlone => "updates : queries",
            Experiment::CellsUpdates | Experiment::CellsQueries => "cells",
            Experiment::Threads => "resident threads on the device",
            Experiment::Gauss => "hot-spots",
            Experiment::Large | Experiment::Small | Experiment::Attributes => "distribution",
        },
        y_text: match query_rows {
            0 => "million updates/s",
            some if some == rows.len() => "million queries/s",
            _ => "million/s",
        },
        series: &series_of(&rows.iter(), Row::series, point),
        cases: Cases::Named(&cases),
        has_lines: true,
    };
    chart.save(&folder.join(format!("glfpp_{}.svg", name.replace('-', "_"))))
}
