//! One SVG plot per experiment: rate over cases, one line per series, logarithmic.

use std::path::Path;

use plotters::prelude::{BLACK, RGBColor};

use super::options::Experiment;
use super::row::Row;
use crate::error::BenchmarkError;
use crate::experiments::failed;
use crate::svg::{Line, LineChart, save};

const SIZE: (u32, u32) = (800, 480);
const COLOURS: [RGBColor; 4] =
    [RGBColor(0x1F, 0x77, 0xB4), RGBColor(0xD6, 0x27, 0x28), RGBColor(0x2C, 0xA0, 0x2C), BLACK];

/// Draws the rows of one experiment into a folder, as `glfpp_NAME.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let path = folder.join(format!("glfpp_{}.svg", name.replace('-', "_")));
    let mut cases: Vec<String> = Vec::new();
    for row in rows {
        if !cases.contains(&row.case) {
            cases.push(row.case.clone());
        }
    }
    let asking = rows.iter().filter(|row| row.updates == 0).count();
    let chart = LineChart {
        title: format!("{name}, {} objects", rows[0].objects),
        x_text: axis(rows[0].experiment),
        y_text: match asking {
            0 => "million updates/s",
            some if some == rows.len() => "million queries/s",
            _ => "millions a second",
        },
        lines: &lines(rows, &cases),
        cases: &cases,
        colours: &COLOURS,
    };
    save(&path, SIZE, |area| chart.draw(area))
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

/// One line for each series.
fn lines(rows: &[Row], cases: &[String]) -> Vec<Line> {
    let mut lines: Vec<Line> = Vec::new();
    for row in rows {
        let series = row.series();
        let known = lines.iter().position(|(name, _)| *name == series);
        let at = known.unwrap_or_else(|| {
            lines.push((series, Vec::new()));
            lines.len() - 1
        });
        let case = cases.iter().position(|case| *case == row.case);
        lines[at].1.extend(case.map(|case| (case as f64, row.rate() / 1e6)));
    }
    lines
}
