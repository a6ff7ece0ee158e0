//! Plots of an experiment: ratio over data sets, and ratio over decoding speed.

use std::path::Path;

use super::row::{ALL, Row};
use super::table::totals;
use crate::error::BenchmarkError;
use crate::harness::plot::{Cases, Chart, Series, distinct, series_of};

const RATIO: &str = "raw bytes / encoded bytes";

/// Draws the rows of one experiment into a folder: `codec_NAME_ROWS.svg` for each block size, and
/// `codec_NAME_ROWS_speed.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    for size in distinct(rows.iter().map(|row| row.block_rows)) {
        let title = format!("{name}, blocks of {size}");
        let of_size = rows.iter().filter(|row| row.column == ALL && row.block_rows == size);
        let sets = distinct(of_size.clone().map(|row| row.dataset.clone()));
        let point = |row: &Row| {
            let set = sets.iter().position(|set| *set == row.dataset)?;
            Some((set as f64, row.ratio))
        };
        let ratios = Chart {
            title: title.clone(),
            cases: Cases::Named(&sets),
            x_text: "data set",
            y_text: RATIO,
            series: &series_of(&of_size, |row| row.codec.text(), point),
            has_lines: false,
        };
        ratios.save(&folder.join(format!("codec_{name}_{size}.svg")))?;
        let totals = totals(rows, size).into_iter();
        let speeds: Vec<Series> =
            totals.map(|total| (total.codec, vec![(total.decode_gb_s, total.ratio)])).collect();
        let speeds = Chart {
            title: format!("{title}, all data sets, one core"),
            cases: Cases::Values,
            x_text: "decoded GB/s",
            y_text: RATIO,
            series: &speeds,
            has_lines: false,
        };
        speeds.save(&folder.join(format!("codec_{name}_{size}_speed.svg")))?;
    }
    Ok(())
}
