//! Plots: searches a second over the number of keys, by structure; inner nodes over the keys.

use std::path::Path;

use super::options::Experiment;
use super::row::Row;
use crate::error::BenchmarkError;
use crate::harness::command::value_name;
use crate::harness::plot::{Cases, Chart, distinct, series_of};

/// Draws `index_NAME_PLACE_KEYTYPE_REQUESTS.svg` for each of an experiment's cases.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    for (place, key_type, requests) in
        distinct(rows.iter().map(|row| (row.place, row.key_type, row.requests)))
    {
        let is_case =
            |row: &&Row| (row.place, row.key_type, row.requests) == (place, key_type, requests);
        let of_case = rows.iter().filter(is_case);
        let mut words = vec![name.to_owned(), value_name(&place), value_name(&key_type)];
        words.extend(requests.map(|requests| value_name(&requests)));
        let is_build = rows[0].experiment == Experiment::Inner;
        let series = |row: &Row| match (row.experiment, row.threads) {
            (Experiment::Border, _) => format!("{}, {} searches", row.structure, row.searches),
            (_, 0 | 1) => row.structure.clone(),
            (_, threads) => format!("{}, {threads} threads a request", row.structure),
        };
        let point = |row: &Row| {
            let y = if is_build { row.ms * 1e3 } else { row.per_s / 1e6 };
            Some((f64::from(row.keys), y))
        };
        let mut lines = series_of(&of_case, series, point);
        // Sizes may be measured in any order.
        lines.iter_mut().for_each(|(_, line)| line.sort_unstable_by(|a, b| a.0.total_cmp(&b.0)));
        let chart = Chart {
            title: words.join(", "),
            x_text: "keys",
            y_text: if is_build { "microseconds" } else { "million searches/s" },
            series: &lines,
            cases: Cases::Values,
            has_lines: true,
        };
        chart.save(&folder.join(format!("index_{}.svg", words.join("_").replace('-', "_"))))?;
    }
    Ok(())
}
