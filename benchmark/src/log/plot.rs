//! Plots: the rates of each experiment over group sizes, plans or numbers of objects.

use std::path::Path;

use super::options::Experiment;
use super::row::Row;
use crate::error::BenchmarkError;
use crate::harness::command::value_name;
use crate::harness::plot::{Cases, Chart, distinct, series_of};

/// Draws `log_NAME.svg`; for `append`, one file for each durability.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    for durability in distinct(rows.iter().map(|row| row.durability)) {
        let of_level = rows.iter().filter(|row| row.durability == durability);
        let level = durability.map_or_else(String::new, |level| format!("_{}", value_name(&level)));
        let is_recovery = rows[0].experiment == Experiment::Recover;
        let case = |row: &Row| if is_recovery { plan(row) } else { row.size() };
        let cases = distinct(of_level.clone().map(case));
        let is_rows = rows[0].group_bytes.is_none() || is_recovery;
        let point = |row: &Row| {
            let place = cases.iter().position(|name| *name == case(row))?;
            Some((place as f64, if is_rows { row.rows_per_s / 1e6 } else { row.mb_per_s }))
        };
        let series = |row: &Row| match row.objects {
            None => format!("{}, {}", row.contender.name(), plan(row)),
            Some(_) => row.contender.name().to_owned(),
        };
        let chart = Chart {
            title: format!("{name}{}, {}", level.replace('_', ", "), rows[0].file_system),
            x_text: match rows[0].experiment {
                Experiment::Append | Experiment::Read => "bytes of a group",
                Experiment::Recover => "plan of the blocks",
                Experiment::Checkpoint | Experiment::Busy => "objects",
            },
            y_text: if is_rows { "million rows/s" } else { "MB/s of blocks" },
            series: &series_of(&of_level, series, point),
            cases: Cases::Named(&cases),
            has_lines: true,
        };
        chart.save(&folder.join(format!("log_{name}{level}.svg")))?;
    }
    Ok(())
}

fn plan(row: &Row) -> String {
    row.plan.unwrap_or("-").to_owned()
}
