//! SVG plots of an experiment: ratio over data sets, and ratio over speed.
//!
//! Both axes of speed and ratio are logarithmic.

use std::path::Path;

use plotters::prelude::*;

use super::row::{ALL, Row};
use super::table::totals;
use crate::error::BenchmarkError;
use crate::experiments::failed;
use crate::svg::{Area, Failure, save};

const SIZE: (u32, u32) = (960, 540);
const COLOURS: [RGBColor; 11] = [
    RGBColor(0x1F, 0x77, 0xB4),
    RGBColor(0xD6, 0x27, 0x28),
    RGBColor(0x2C, 0xA0, 0x2C),
    RGBColor(0xFF, 0x7F, 0x0E),
    RGBColor(0x94, 0x67, 0xBD),
    RGBColor(0x8C, 0x56, 0x4B),
    RGBColor(0xE3, 0x77, 0xC2),
    RGBColor(0x7F, 0x7F, 0x7F),
    RGBColor(0xBC, 0xBD, 0x22),
    RGBColor(0x17, 0xBE, 0xCF),
    BLACK,
];

/// Draws the rows of one experiment into a folder: `codec_NAME_ROWS.svg` for each size of block,
/// and `codec_NAME_ROWS_speed.svg`.
pub(super) fn draw(folder: &Path, name: &str, rows: &[Row]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let mut sizes: Vec<u32> = rows.iter().map(|row| row.block_rows).collect();
    sizes.sort_unstable();
    sizes.dedup();
    for size in sizes {
        let title = format!("{name}, blocks of {size}");
        let of_size: Vec<&Row> =
            rows.iter().filter(|row| row.column == ALL && row.block_rows == size).collect();
        save(&folder.join(format!("codec_{name}_{size}.svg")), SIZE, |area| {
            ratios(area, &title, &of_size)
        })?;
        save(&folder.join(format!("codec_{name}_{size}_speed.svg")), SIZE, |area| {
            speeds(area, &title, rows, size)
        })?;
    }
    Ok(())
}

/// Limits that enclose all values with a little room, for a logarithmic axis.
fn limits(values: impl Iterator<Item = f64> + Clone) -> (f64, f64) {
    let least = values.clone().fold(f64::INFINITY, f64::min);
    let most = values.fold(0.0, f64::max);
    (least / 1.2, most * 1.2)
}

/// Ratio of each codec over the data sets.
fn ratios(area: &Area<'_>, title: &str, rows: &[&Row]) -> Result<(), Failure> {
    let mut sets: Vec<&str> = Vec::new();
    let mut codecs = Vec::new();
    for row in rows {
        if !sets.contains(&row.dataset.as_str()) {
            sets.push(&row.dataset);
        }
        if !codecs.contains(&row.codec) {
            codecs.push(row.codec);
        }
    }
    let (least, most) = limits(rows.iter().map(|row| row.ratio));
    let right = sets.len() as f64 - 0.5;
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(-0.5..right, (least..most).log_scale())?;
    let label = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 1e-6;
        let set = is_whole.then(|| sets.get(at.round() as usize)).flatten();
        set.map_or_else(String::new, |set| (*set).to_owned())
    };
    chart
        .configure_mesh()
        .x_labels(2 * sets.len() + 1)
        .x_label_formatter(&label)
        .y_desc("raw bytes / encoded bytes")
        .disable_x_mesh()
        .draw()?;
    for (codec, colour) in codecs.iter().zip(COLOURS.iter().cycle()) {
        let points = rows.iter().filter(|row| row.codec == *codec).filter_map(|row| {
            let set = sets.iter().position(|set| *set == row.dataset)?;
            Some((set as f64, row.ratio))
        });
        let marks = points.map(|at| Circle::new(at, 4, colour.filled()));
        chart
            .draw_series(marks)?
            .label(codec.text())
            .legend(|(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()
}

/// Ratio of each codec over its speed of decoding, all data sets together.
fn speeds(area: &Area<'_>, title: &str, rows: &[Row], block_rows: u32) -> Result<(), Failure> {
    let totals = totals(rows, block_rows);
    let (slow, fast) = limits(totals.iter().map(|total| total.decode_gb_s));
    let (least, most) = limits(totals.iter().map(|total| total.ratio));
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{title}, all data sets, one core"), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d((slow..fast).log_scale(), (least..most).log_scale())?;
    chart.configure_mesh().x_desc("decoded GB/s").y_desc("raw bytes / encoded bytes").draw()?;
    for (total, colour) in totals.iter().zip(COLOURS.iter().cycle()) {
        let at = (total.decode_gb_s, total.ratio);
        chart
            .draw_series([Circle::new(at, 5, colour.filled())])?
            .label(&total.codec)
            .legend(|(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
    }
    chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()
}
