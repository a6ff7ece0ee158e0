//! One SVG plot per experiment: rate over cases, one line per series, logarithmic.
//!
//! Text stays text in the file, so drawing needs no fonts of the machine.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::options::Experiment;
use super::row::Row;
use crate::error::BenchmarkError;
use crate::experiments::failed;

const SIZE: (u32, u32) = (800, 480);
const COLOURS: [RGBColor; 4] =
    [RGBColor(0x1F, 0x77, 0xB4), RGBColor(0xD6, 0x27, 0x28), RGBColor(0x2C, 0xA0, 0x2C), BLACK];

type Failure = DrawingAreaErrorKind<std::io::Error>;

/// Draws the rows of one experiment into a folder, as `glfpp_NAME.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let path = folder.join(format!("glfpp_{}.svg", name.replace('-', "_")));
    let area = SVGBackend::new(&path, SIZE).into_drawing_area();
    draw_on(&area, name, rows)
        .map_err(|error| failed(&path, std::io::Error::other(error.to_string())))
}

/// The powers of ten, in millions a second, that enclose all rates.
fn decades(rows: &[Row]) -> (f64, f64) {
    let logs = || rows.iter().map(|row| (row.rate() / 1e6).log10());
    let least = logs().fold(f64::INFINITY, f64::min).floor();
    let most = logs().fold(f64::NEG_INFINITY, f64::max).ceil().max(least + 1.0);
    (10.0_f64.powf(least), 10.0_f64.powf(most))
}

/// What the cases of an experiment are.
fn axis(experiment: Experiment) -> &'static str {
    match experiment {
        Experiment::Mixed | Experiment::UpdatesAlone => "updates : queries",
        Experiment::CellsUpdates | Experiment::CellsQueries => "cells",
        Experiment::Threads => "threads on the device at a time",
        Experiment::Gauss => "hot-spots",
        Experiment::Large | Experiment::Small | Experiment::Attributes => "distribution",
    }
}

fn draw_on(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    name: &str,
    rows: &[Row],
) -> Result<(), Failure> {
    let mut cases: Vec<&str> = Vec::new();
    let mut lines: Vec<String> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case.as_str()) {
            cases.push(&row.case);
        }
        if !lines.contains(&row.series()) {
            lines.push(row.series());
        }
    }
    let (least, most) = decades(rows);
    area.fill(&WHITE)?;
    let last = cases.len() as f64 - 1.0;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{name}, {} objects", rows[0].objects), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..last + 0.5, (least..most).log_scale())?;
    let asking = rows.iter().filter(|row| row.updates == 0).count();
    let label = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 1e-6;
        let case = is_whole.then(|| cases.get(at.round() as usize)).flatten();
        case.map_or_else(String::new, |case| (*case).to_owned())
    };
    chart
        .configure_mesh()
        .x_labels(2 * cases.len() + 1)
        .x_label_formatter(&label)
        .x_desc(axis(rows[0].experiment))
        .y_desc(match asking {
            0 => "million updates/s",
            some if some == rows.len() => "million queries/s",
            _ => "millions a second",
        })
        .disable_x_mesh()
        .draw()?;
    for (line, colour) in lines.iter().zip(COLOURS.iter().cycle()) {
        let of_line = rows.iter().filter(|row| row.series() == *line);
        let points: Vec<_> = of_line
            .filter_map(|row| {
                let case = cases.iter().position(|case| *case == row.case)?;
                Some((case as f64, row.rate() / 1e6))
            })
            .collect();
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(line)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|at| Circle::new(*at, 4, colour.filled())))?;
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    area.present()
}
