//! SVG plots: nanoseconds an update over the number of circles, a line per backend and radius.
//!
//! The cost without circles begins every line.

use std::path::Path;

use plotters::prelude::{BLACK, RGBColor};

use super::options::{BackendName, Distribution};
use super::row::Row;
use crate::error::BenchmarkError;
use crate::experiments::failed;
use crate::svg::{Line, LineChart, save};

const SIZE: (u32, u32) = (800, 480);
const COLOURS: [RGBColor; 6] = [
    RGBColor(0x1F, 0x77, 0xB4),
    RGBColor(0xD6, 0x27, 0x28),
    RGBColor(0x2C, 0xA0, 0x2C),
    RGBColor(0xFF, 0x7F, 0x0E),
    RGBColor(0x94, 0x67, 0xBD),
    BLACK,
];

/// Draws the rows of one experiment into a folder, as `subscription_NAME_DISTRIBUTION.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    for distribution in [Distribution::Uniform, Distribution::Gauss] {
        let of: Vec<&Row> = rows.iter().filter(|row| row.distribution == distribution).collect();
        let Some(first) = of.first() else { continue };
        let file = format!("subscription_{}_{}.svg", name.replace('-', "_"), distribution.name());
        let path = folder.join(file);
        let title = format!("{name}, {}, {} objects", distribution.name(), first.objects);
        let mut numbers: Vec<u64> = of.iter().map(|row| row.regions).collect();
        numbers.sort_unstable();
        numbers.dedup();
        let cases: Vec<String> = numbers.iter().map(u64::to_string).collect();
        let chart = LineChart {
            title,
            x_text: "circles",
            y_text: "nanoseconds an update",
            lines: &lines(&of, &numbers),
            cases: &cases,
            colours: &COLOURS,
        };
        save(&path, SIZE, |area| chart.draw(area))?;
    }
    Ok(())
}

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
