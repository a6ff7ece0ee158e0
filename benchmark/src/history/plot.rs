//! Plot: the times of an experiment's questions.

use std::path::Path;

use super::row::Row;
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart};

/// Draws `history_NAME.svg`: median and 99th percentile.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    let case = |row: &Row| match &row.aim {
        None => format!("{} fixes", row.fixes),
        Some(aim) => format!("{} fixes, {aim}", row.fixes),
    };
    let cases: Vec<String> = rows.iter().map(case).collect();
    let points = |time: fn(&Row) -> f64| {
        rows.iter().enumerate().map(|(at, row)| (at as f64, time(row))).collect()
    };
    let chart = Chart {
        title: format!("history, {name}"),
        cases: Cases::Named(&cases),
        x_text: "past",
        y_text: "milliseconds",
        series: &[
            ("p50".to_owned(), points(|row| row.p50_ms)),
            ("p99".to_owned(), points(|row| row.p99_ms)),
        ],
        has_lines: false,
    };
    chart.save(&folder.join(format!("history_{}.svg", name.replace('-', "_"))))
}
