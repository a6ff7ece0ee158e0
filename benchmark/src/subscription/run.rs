//! Runs the experiments: makes rows once per distribution, runs every backend on every case,
//! compares events.

use std::path::Path;

use shoal_engine::EngineOptions;

use super::case::{Case, Motion, cases};
use super::options::{Distribution, Experiment, Options};
use super::prepared::{Circles, Rows};
use super::row::Row;
use super::trial::Trial;
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart, Series, distinct};
use crate::harness::{BackendName, Driver, Output, table};

/// Runs the experiments that the flags name.
pub(crate) fn run(options: &Options) -> Result<(), BenchmarkError> {
    let head = format!("subscription, seed {}", options.common.seed);
    let one = |experiment: Experiment, name: &str, out: &mut Output<Row>| {
        table::print_titles::<Row>(name);
        for distribution in &options.distribution {
            let motion = Motion::new(*distribution, options);
            let (cases, left_out) = cases(experiment, &motion, options);
            left_out.iter().for_each(|text| println!("# {text}"));
            let rows = Rows::new(&motion)?;
            cases.iter().try_for_each(|case| run_case(case, &rows, options, out))?;
        }
        Ok(())
    };
    options.common.run(&head, &options.experiment, one, draw)
}

/// Runs every backend on one case and adds their rows.
pub(super) fn run_case(
    case: &Case,
    rows: &Rows,
    options: &Options,
    out: &mut Output<Row>,
) -> Result<(), BenchmarkError> {
    let circles = Circles::new(case, rows)?;
    let first = out.rows().len();
    for name in &options.backends {
        match Driver::open(*name, EngineOptions::new(rows.space)) {
            Err(why) => out.leave_out(name.name(), &why),
            Ok(driver) => {
                let measured = Trial { driver, rows, circles: &circles }.run()?;
                out.add(Row::new(case, rows, *name, &measured, &out.machine));
            }
        }
    }
    table::agree(&out.rows()[first..])
}

/// Draws nanoseconds an update over the number of circles, as `subscription_NAME_DISTRIBUTION.svg`:
/// a line per backend and radius.
fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    for distribution in [Distribution::Uniform, Distribution::Gauss] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.distribution == distribution).collect();
        let Some(first) = of.first() else { continue };
        let mut numbers = distinct(of.iter().map(|row| row.regions));
        numbers.sort_unstable();
        let cases: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let chart = Chart {
            title: format!("{name}, {}, {} objects", distribution.name(), first.objects),
            x_text: "circles",
            y_text: "nanoseconds an update",
            series: &series(&of, &numbers),
            cases: Cases::Named(&cases),
            has_lines: true,
        };
        let file = format!("subscription_{}_{}.svg", name.replace('-', "_"), distribution.name());
        chart.save(&folder.join(file))?;
    }
    Ok(())
}

/// One line for each backend and radius. The rate without circles begins every line.
fn series(rows: &[&Row], numbers: &[u64]) -> Vec<Series> {
    let has_circles = rows.iter().any(|row| row.regions > 0);
    let lines = rows.iter().filter(|row| row.regions > 0 || !has_circles);
    let lines = distinct(lines.map(|row| (row.backend, row.radius_m.to_bits())));
    let points = |(backend, radius): (BackendName, u64)| {
        let of_line = |row: &&&Row| {
            row.backend == backend && (row.regions == 0 || row.radius_m.to_bits() == radius)
        };
        let point = |row: &&Row| {
            let place = numbers.iter().position(|regions| *regions == row.regions)?;
            Some((place as f64, row.ns_per_update))
        };
        let name = format!("{}, {} m", backend.name(), f64::from_bits(radius));
        (name, rows.iter().filter(of_line).filter_map(point).collect())
    };
    lines.into_iter().map(points).collect()
}
