//! Draws the stages of cycles in the middle of a run, for contenders that record them.

use std::path::Path;

use plotters::prelude::*;

use crate::error::BenchmarkError;
use crate::harness::plot::{Area, COLOURS, Failure, name_at, save};

/// Cycles drawn.
const DRAWN: u64 = 5;
/// The stages of a cycle, in order.
pub(super) const STAGES: [&str; 5] = ["copy in", "dispatch", "update", "query", "copy out"];

/// One stage of one cycle, milliseconds from the start of recording.
#[derive(Clone, Copy, Debug)]
pub(super) struct Span {
    pub(super) epoch: u64,
    pub(super) stage: &'static str,
    pub(super) begin_ms: f64,
    pub(super) end_ms: f64,
}

/// A recording of some cycles.
#[derive(Clone, Debug)]
pub(super) struct Recording {
    pub(super) spans: Vec<Span>,
    /// Bytes copied to the device, and from it.
    pub(super) in_bytes: u64,
    pub(super) out_bytes: u64,
}

/// Records when stages run.
pub(super) trait Recorder {
    fn start(&self) -> Result<(), BenchmarkError>;
    fn stop(&self) -> Result<Recording, BenchmarkError>;
}

/// Draws cycles from the middle of the run into a folder, as `timeline_LABEL.svg`.
pub(super) fn draw(folder: &Path, label: &str, spans: &[Span]) -> Result<(), BenchmarkError> {
    let name: String =
        label.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    save(&folder.join(format!("timeline_{name}.svg")), |area| draw_on(area, label, spans))
}

fn draw_on(area: &Area<'_>, label: &str, spans: &[Span]) -> Result<(), Failure> {
    let epochs = || spans.iter().map(|span| span.epoch);
    let (first, last) = (epochs().min().unwrap_or(0), epochs().max().unwrap_or(0));
    let from = first + (last - first) / 2;
    let drawn: Vec<&Span> =
        spans.iter().filter(|span| (from..from + DRAWN).contains(&span.epoch)).collect();
    let begin = drawn.iter().map(|span| span.begin_ms).fold(f64::INFINITY, f64::min);
    let end = drawn.iter().map(|span| span.end_ms).fold(begin, f64::max);
    // The first stage is the highest lane.
    let lanes: Vec<String> = STAGES.iter().rev().map(|stage| (*stage).to_owned()).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(format!("{label}: cycles {from} to {}", from + DRAWN - 1), ("sans-serif", 20))
        .margin(12)
        .x_label_area_size(40)
        .y_label_area_size(80)
        .build_cartesian_2d(0.0..end - begin, -0.5..lanes.len() as f64 - 0.5)?;
    chart
        .configure_mesh()
        .disable_mesh()
        .y_labels(2 * lanes.len() + 1)
        .y_label_formatter(&|at: &f64| name_at(&lanes, *at))
        .x_desc("milliseconds")
        .draw()?;
    chart.draw_series(drawn.iter().filter_map(|span| {
        let lane = lanes.iter().position(|stage| stage == span.stage)? as f64;
        let colour = COLOURS[(span.epoch % 3) as usize];
        let corners = [(span.begin_ms - begin, lane - 0.4), (span.end_ms - begin, lane + 0.4)];
        Some(Rectangle::new(corners, colour.filled()))
    }))?;
    Ok(())
}
