//! What do the SVG plots of all commands have in common? How a file is written, and the chart of
//! one line per series over named cases with a logarithmic scale.
//!
//! Text stays text in the file, so drawing needs no fonts of the machine. What is drawn is the
//! command's own.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::BenchmarkError;
use crate::experiments::failed;

pub(crate) type Failure = DrawingAreaErrorKind<std::io::Error>;
pub(crate) type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// Writes a file of this size with what `drawing` puts on white.
pub(crate) fn save(
    path: &Path,
    size: (u32, u32),
    drawing: impl FnOnce(&Area<'_>) -> Result<(), Failure>,
) -> Result<(), BenchmarkError> {
    let area = SVGBackend::new(path, size).into_drawing_area();
    let done = area.fill(&WHITE).and_then(|()| drawing(&area)).and_then(|()| area.present());
    done.map_err(|error| failed(path, std::io::Error::other(error.to_string())))
}

/// A line: its name, and its values at the places of their cases.
pub(crate) type Line = (String, Vec<(f64, f64)>);

/// Lines over cases.
pub(crate) struct LineChart<'a> {
    pub(crate) title: String,
    /// Names along the axis.
    pub(crate) cases: &'a [String],
    pub(crate) x_text: &'a str,
    pub(crate) y_text: &'a str,
    /// Values are above 0.
    pub(crate) lines: &'a [Line],
    pub(crate) colours: &'a [RGBColor],
}

impl LineChart<'_> {
    /// The powers of ten that enclose all values.
    fn decades(&self) -> (f64, f64) {
        let logs = || self.lines.iter().flat_map(|(_, points)| points).map(|(_, y)| y.log10());
        let least = logs().fold(f64::INFINITY, f64::min).floor();
        let most = logs().fold(f64::NEG_INFINITY, f64::max).ceil().max(least + 1.0);
        (10.0_f64.powf(least), 10.0_f64.powf(most))
    }

    pub(crate) fn draw(&self, area: &Area<'_>) -> Result<(), Failure> {
        let (least, most) = self.decades();
        let mut chart = ChartBuilder::on(area)
            .caption(&self.title, ("sans-serif", 20))
            .margin(12)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(-0.5..self.cases.len() as f64 - 0.5, (least..most).log_scale())?;
        let label = |at: &f64| {
            let is_whole = (at - at.round()).abs() < 1e-6;
            let case = is_whole.then(|| self.cases.get(at.round() as usize)).flatten();
            case.cloned().unwrap_or_default()
        };
        chart
            .configure_mesh()
            .x_labels(2 * self.cases.len() + 1)
            .x_label_formatter(&label)
            .x_desc(self.x_text)
            .y_desc(self.y_text)
            .disable_x_mesh()
            .draw()?;
        for ((name, points), colour) in self.lines.iter().zip(self.colours.iter().cycle()) {
            chart
                .draw_series(LineSeries::new(points.iter().copied(), colour.stroke_width(2)))?
                .label(name)
                .legend(|(x, y)| PathElement::new([(x, y), (x + 16, y)], colour.stroke_width(2)));
            chart.draw_series(points.iter().map(|at| Circle::new(*at, 4, colour.filled())))?;
        }
        chart.configure_series_labels().border_style(BLACK).background_style(WHITE).draw()
    }
}
