//! Plot: the time of an experiment by aim.

use std::path::Path;

use super::row::Row;
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart};

/// Draws `resident_NAME.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    let cases: Vec<String> = rows.iter().map(|row| row.aim.clone()).collect();
    let points = rows.iter().enumerate().map(|(at, row)| (at as f64, row.ms)).collect();
    let chart = Chart {
        title: format!("runs on the device, {name}"),
        cases: Cases::Named(&cases),
        x_text: "aim of the blocks",
        y_text: "milliseconds",
        series: &[("median".to_owned(), points)],
        has_lines: false,
    };
    chart.save(&folder.join(format!("resident_{}.svg", name.replace('-', "_"))))
}
