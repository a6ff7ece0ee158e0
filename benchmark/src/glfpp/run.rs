//! Runs the experiments: prepares each workload once, runs every backend on it, compares answers.
//!
//! Cases that differ only in settings share their rows, so their answers must be equal.

use std::path::Path;

use super::breakdown::Breakdown;
use super::case::cases;
use super::contender::contender;
use super::options::{Experiment, Options};
use super::prepared::Prepared;
use super::row::Row;
use super::{summary, timeline};
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart, distinct, series_of};
use crate::harness::{Output, table};

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!("glfpp, {} threads, seed {}", options.threads(), options.common.seed);
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        let mut ready: Option<Prepared> = None;
        let mut first_of_workload = 0;
        for case in cases(experiment, options) {
            ready = ready.filter(|ready| ready.case.is_workload_of(&case));
            let prepared = if let Some(ready) = ready {
                ready.for_case(&case)
            } else {
                first_of_workload = out.rows().len();
                Prepared::new(&case)?
            };
            run_prepared(&prepared, options, out)?;
            table::agree(&out.rows()[first_of_workload..])?;
            ready = Some(prepared);
        }
        summary::print(experiment, out.rows());
        Ok(())
    };
    options.common.run(&head, &options.experiment, one, draw)
}

/// Runs every backend on a prepared case and adds their rows.
pub(super) fn run_prepared(
    prepared: &Prepared,
    options: &Options,
    out: &mut Output<Row>,
) -> Result<(), BenchmarkError> {
    let case = &prepared.case;
    for name in &options.backends {
        let contender = match contender(*name, prepared, options) {
            Ok(contender) => contender,
            Err(why) => {
                out.leave_out(name.name(), &why);
                continue;
            }
        };
        let mut measured = contender.run(prepared)?;
        let recording = measured.recording.take();
        let breakdown = recording.as_ref().and_then(Breakdown::new);
        let about = (options.threads(), &*out.machine);
        let row = Row::new(prepared, *name, measured, breakdown.as_ref(), about);
        let series = row.series();
        out.add(row);
        if let (Some(recording), Some(breakdown)) = (recording, breakdown) {
            let label = format!("{series} {}", case.label());
            breakdown.print(&label);
            if let Some(folder) = &options.common.svg {
                timeline::draw(folder, &label, &recording.spans)?;
            }
        }
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
            Experiment::Moved => "objects that move in a cycle",
            Experiment::Overlap => "queries with the same window",
            Experiment::Large
            | Experiment::Small
            | Experiment::Network
            | Experiment::Attributes => "distribution",
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
