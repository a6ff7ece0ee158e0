//! SVG plots: nanoseconds an update over the number of circles, a line per backend and radius.
//!
//! Text stays text in the file, so drawing needs no fonts of the machine. The cost without circles
//! begins every line.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::options::{BackendName, Distribution};
use super::row::Row;
use crate::error::BenchmarkError;
use crate::experiments::failed;

const SIZE: (u32, u32) = (800, 480);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1F, 0x77, 0xB4),
    RGBColor(0xD6, 0x27, 0x28),
    RGBColor(0x2C, 0xA0, 0x2C),
    RGBColor(0xFF, 0x7F, 0x0E),
    RGBColor(0x94, 0x67, 0xBD),
    BLACK,
];

type Failure = DrawingAreaErrorKind<std::io::Error>;

/// Draws the rows of one experiment into a folder, as `subscription_NAME_DISTRIBUTION.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    for distribution in [Distribution::Uniform, Distribution::Gauss] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.distribution == distribution).collect();
        let Some(first) = of.first() else { continue };
        let file = format!("subscription_{}_{}.svg", name.replace('-', "_"), distribution.name());
        let path = folder.join(file);
        let title = format!("{name}, {}, {} objects", distribution.name(), first.objects);
        let area = SVGBackend::new(&path, SIZE).into_drawing_area();
        draw_on(&area, &title, &of)
            .map_err(|error| failed(&path, std::io::Error::other(error.to_string())))?;
    }
    Ok(())
}

/// A line: its name, and the cost at the places of its numbers of circles.
type Line = (String, Vec<(f64, f64)>);

/// One line for each backend and radius that has circles; without any, one per backend.
fn lines(rows: &[&Row], numbers: &[u64]) -> Vec<Line> {
    let mut lines: Vec<(String, BackendName, Option<f64>)> = Vec::new();
    for row in rows.iter().filter(|row| row.regions > 0) {
        let line = (row.series(), row.backend, Some(row.radius_m));
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    for row in rows {
        if lines.iter().all(|(_, backend, _)| *backend != row.backend) {
            lines.push((row.backend.name().to_owned(), row.backend, None));
        }
    }
    let points = |backend: BackendName, radius_m: Option<f64>| {
        let mut points = Vec::new();
        for row in rows.iter().filter(|row| row.backend == backend) {
            let is_radius =
                radius_m.is_some_and(|radius_m| row.radius_m.total_cmp(&radius_m).is_eq());
            let at = numbers.iter().position(|regions| *regions == row.regions);
            if let (true, Some(at)) = (row.regions == 0 || is_radius, at) {
                points.push((at as f64, row.ns_per_update));
            }
        }
        points
    };
    lines.into_iter().map(|(name, backend, radius)| (name, points(backend, radius))).collect()
}

/// The powers of ten that enclose all costs.
fn decades(rows: &[&Row]) -> (f64, f64) {
    let logs = || rows.iter().map(|row| row.ns_per_update.log10());
    let least = logs().fold(f64::INFINITY, f64::min).floor();
    let most = logs().fold(f64::NEG_INFINITY, f64::max).ceil().max(least + 1.0);
    (10.0_f64.powf(least), 10.0_f64.powf(most))
}

fn draw_on(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    title: &str,
    rows: &[&Row],
) -> Result<(), Failure> {
    let mut numbers: Vec<u64> = rows.iter().map(|row| row.regions).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let (least, most) = decades(rows);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(70)
        .build_cartesian_2d(-0.5..numbers.len() as f64 - 0.5, (least..most).log_scale())?;
    let label = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 1e-6;
        let regions = is_whole.then(|| numbers.get(at.round() as usize)).flatten();
        regions.map_or_else(String::new, u64::to_string)
    };
    chart
        .configure_mesh()
        .x_labels(2 * numbers.len() + 1)
        .x_label_formatter(&label)
        .x_desc("circles")
        .y_desc("nanoseconds an update")
        .disable_x_mesh()
        .draw()?;
    for ((name, points), colour) in lines(rows, &numbers).into_iter().zip(COLOURS.iter().cycle()) {
        chart
            .draw_series(LineSeries::new(points.clone(), colour.stroke_width(2)))?
            .label(name)
            .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
        chart.draw_series(points.iter().map(|at| Circle::new(*at, 4, colour.filled())))?;
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()?;
    area.present()
}
