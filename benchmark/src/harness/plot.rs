//! SVG plots: series over named cases, and points of one value over another, on logarithmic scales.
//!
//! The files contain text as text, so drawing needs no fonts.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::command::failed;
use crate::error::BenchmarkError;

pub(crate) type Failure = DrawingAreaErrorKind<std::io::Error>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const SIZE: (u32, u32) = (960, 540);
pub(crate) const COLOURS: [RGBColor; 11] = [
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

/// Writes an SVG file with the output of `drawing` on a white background.
pub(crate) fn save(
    path: &Path,
    drawing: impl FnOnce(&Area<'_>) -> Result<(), Failure>,
) -> Result<(), BenchmarkError> {
    let area = SVGBackend::new(path, SIZE).into_drawing_area();
    let done = area.fill(&WHITE).and_then(|()| drawing(&area)).and_then(|()| area.present());
    done.map_err(|error| failed(path, std::io::Error::other(error.to_string())))
}

/// The distinct values of a list, in order of first occurrence.
pub(crate) fn distinct<T: PartialEq>(values: impl Iterator<Item = T>) -> Vec<T> {
    values.fold(Vec::new(), |mut found, value| {
        if !found.contains(&value) {
            found.push(value);
        }
        found
    })
}

/// A named series of points (x, y).
pub(crate) type Series = (String, Vec<(f64, f64)>);

/// Series from rows: each row names its series and gives a point, or none.
pub(crate) fn series_of<'a, R: 'a>(
    rows: &(impl Iterator<Item = &'a R> + Clone),
    name: impl Fn(&R) -> String,
    point: impl Fn(&R) -> Option<(f64, f64)>,
) -> Vec<Series> {
    let points = |of: &String| {
        rows.clone().filter(|row| name(row) == *of).filter_map(&point).collect::<Vec<_>>()
    };
    distinct(rows.clone().map(&name)).into_iter().map(|of| (of.clone(), points(&of))).collect()
}

/// The scale of x.
pub(crate) enum Cases<'a> {
    /// Named cases: x is the index of a name.
    Named(&'a [String]),
    /// Values on a logarithmic scale.
    Values,
}

/// A chart of series.
pub(crate) struct Chart<'a> {
    pub(crate) title: String,
    pub(crate) cases: Cases<'a>,
    pub(crate) x_text: &'a str,
    pub(crate) y_text: &'a str,
    /// y is greater than 0.
    pub(crate) series: &'a [Series],
    /// Connects the points of a series.
    pub(crate) has_lines: bool,
}

impl Chart<'_> {
    /// Writes the chart to an SVG file.
    pub(crate) fn save(&self, path: &Path) -> Result<(), BenchmarkError> {
        save(path, |area| self.draw(area))
    }

    fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let points = || self.series.iter().flat_map(|(_, points)| points);
        let (least, most) = limits(points().map(|(_, y)| *y));
        let mut builder = ChartBuilder::on(area);
        builder
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70);
        match self.cases {
            Cases::Named(names) => {
                let x = -0.5..names.len() as f64 - 0.5;
                let mut chart = builder.build_cartesian_2d(x, (least..most).log_scale())?;
                let label = |at: &f64| name_at(names, *at);
                let mut mesh = chart.configure_mesh();
                mesh.x_labels(2 * names.len() + 1).x_label_formatter(&label).disable_x_mesh();
                mesh.x_desc(self.x_text).y_desc(self.y_text).draw()?;
                self.draw_series(&mut chart)
            }
            Cases::Values => {
                let (first, last) = limits(points().map(|(x, _)| *x));
                let x = (first..last).log_scale();
                let mut chart = builder.build_cartesian_2d(x, (least..most).log_scale())?;
                chart.configure_mesh().x_desc(self.x_text).y_desc(self.y_text).draw()?;
                self.draw_series(&mut chart)
            }
        }
    }

    fn draw_series<'a, X: Ranged<ValueType = f64>, Y: Ranged<ValueType = f64>>(
        &self,
        chart: &mut ChartContext<'a, SVGBackend<'a>, Cartesian2d<X, Y>>,
    ) -> Result<(), Failure> {
        for ((name, points), colour) in self.series.iter().zip(COLOURS.iter().cycle()) {
            if self.has_lines {
                let line = LineSeries::new(points.iter().copied(), colour.stroke_width(2));
                chart.draw_series(line)?;
            }
            chart
                .draw_series(points.iter().map(|at| Circle::new(*at, 4, colour.filled())))?
                .label(name)
                .legend(|(x, y)| Circle::new((x + 8, y), 4, colour.filled()));
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()
    }
}

/// The name at a place of the axis; empty between names.
pub(crate) fn name_at(names: &[String], at: f64) -> String {
    let is_whole = (at - at.round()).abs() < 1e-6;
    let name = is_whole.then(|| names.get(at.round() as usize)).flatten();
    name.cloned().unwrap_or_default()
}

/// Limits that enclose all values with a margin.
fn limits(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let (least, most) = values
        .fold((f64::INFINITY, 0.0_f64), |(least, most), value| (least.min(value), most.max(value)));
    (least / 1.2, most * 1.2)
}
