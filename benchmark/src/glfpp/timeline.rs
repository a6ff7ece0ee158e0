//! When did each stage of each cycle run on the device?
//!
//! Told for contenders that can say so: a drawing of some cycles in the middle of the run. What the
//! times add up to is in breakdown.rs.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

use crate::error::BenchmarkError;
use crate::experiments::failed;

const SIZE: (u32, u32) = (1_000, 360);
/// Cycles that are drawn.
const DRAWN: u64 = 5;
/// The stages of a cycle in their order.
pub(super) const STAGES: [&str; 5] = ["copy in", "dispatch", "update", "query", "copy out"];
const COLOURS: [RGBColor; 3] =
    [RGBColor(0x1F, 0x77, 0xB4), RGBColor(0xD6, 0x27, 0x28), RGBColor(0x2C, 0xA0, 0x2C)];

type Failure = DrawingAreaErrorKind<std::io::Error>;

/// One stage of one cycle, milliseconds from the start of recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) epoch: u64,
    pub(super) stage: &'static str,
    pub(super) begin_ms: f64,
    pub(super) end_ms: f64,
}

/// What was recorded of some cycles.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub(super) spans: Vec<Span>,
    /// Bytes copied to the device, and from it.
    pub(super) in_bytes: u64,
    pub(super) out_bytes: u64,
}

/// Tells when stages ran.
pub(super) trait Recorder {
    fn start(&self) -> Result<(), BenchmarkError>;
    fn stop(&self) -> Result<Recording, BenchmarkError>;
}

/// Draws cycles from the middle of the run into a folder, as `timeline_LABEL.svg`.
pub(super) fn draw(folder: &Path, label: &str, spans: &[Span]) -> Result<(), BenchmarkError> {
    std::fs::create_dir_all(folder).map_err(|source| failed(folder, source))?;
    let name: String =
        label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    let path = folder.join(format!("timeline_{name}.svg"));
    let area = SVGBackend::new(&path, SIZE).into_drawing_area();
    draw_on(&area, label, spans)
        .map_err(|error| failed(&path, std::io::Error::other(error.to_string())))
}

fn draw_on(
    area: &DrawingArea<SVGBackend<'_>, Shift>,
    label: &str,
    spans: &[Span],
) -> Result<(), Failure> {
    let epochs = || spans.iter().map(|span| span.epoch);
    let (first, last) = (epochs().min().unwrap_or(0), epochs().max().unwrap_or(0));
    let from = first + (last - first) / 2;
    let drawn: Vec<&Span> =
        spans.iter().filter(|span| (from..from + DRAWN).contains(&span.epoch)).collect();
    let begin = drawn.iter().map(|span| span.begin_ms).fold(f64::INFINITY, f64::min);
    let end = drawn.iter().map(|span| span.end_ms).fold(begin, f64::max);
    area.fill(&WHITE)?;
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{label}: cycles {from} to {}", from + DRAWN - 1), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..end - begin, -0.5..STAGES.len() as f64 - 0.5)?;
    let stage_of = |at: &f64| {
        let is_whole = (at - at.round()).abs() < 1e-6;
        let stage = is_whole.then(|| STAGES.iter().rev().nth(at.round() as usize)).flatten();
        stage.map_or_else(String::new, |stage| (*stage).to_owned())
    };
    chart
        .configure_mesh()
        .disable_mesh()
        .y_labels(2 * STAGES.len() + 1)
        .y_label_formatter(&stage_of)
        .x_desc("milliseconds")
        .draw()?;
    chart.draw_series(drawn.iter().filter_map(|span| {
        let lane = STAGES.iter().rev().position(|stage| *stage == span.stage)? as f64;
        let colour = COLOURS[(span.epoch % COLOURS.len() as u64) as usize];
        let corners = [(span.begin_ms - begin, lane - 0.4), (span.end_ms - begin, lane + 0.4)];
        Some(Rectangle::new(corners, colour.filled()))
    }))?;
    area.present()
}
