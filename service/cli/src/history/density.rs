//! `shoal history density`: how many fixes each square of the map has. It is drawn for people, and
//! written as CSV or JSON for programs.

use std::io::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use serde_json::json;
use shoal_client::{Client, DensityCounts, duration, v1};
use shoal_service::fleet_space;
use shoal_service::timestamp::rfc3339;

use super::{WindowArgs, write_file};
use crate::connection::FleetArgs;
use crate::error::{CliError, Exit};
use crate::output::{DensityMap, decimal, stdout};
use crate::query::{AttributeFilterArgs, RegionArgs};
use crate::values::span;

/// Flags of `shoal history density`.
#[derive(Args, Debug)]
#[command(mut_group("RegionArgs", |group| group.required(false)))]
pub struct DensityArgs {
    /// Side of a square, in degrees or metres
    #[arg(long, value_name = "SIZE")]
    pub cell: f64,
    #[command(flatten)]
    window: WindowArgs,
    /// Count each step of this length on its own, as in 1h
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["png", "svg"])]
    pub step: Option<Duration>,
    #[command(flatten)]
    region: Option<RegionArgs>,
    #[command(flatten)]
    filter: AttributeFilterArgs,
    #[command(flatten)]
    fleet: FleetArgs,
    /// Draw a PNG file
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub png: Option<PathBuf>,
    /// Draw an SVG file
    #[arg(long, help_heading = "Output", value_name = "FILE")]
    pub svg: Option<PathBuf>,
    /// Write one JSON document
    #[arg(long, help_heading = "Output", conflicts_with = "csv")]
    pub json: bool,
    /// Write CSV: first time of the step, least x and y of the square, fixes
    #[arg(long, help_heading = "Output")]
    pub csv: bool,
}

impl DensityArgs {
    /// The request; reads the polygon's file.
    ///
    /// # Errors
    /// As [`RegionArgs::region`].
    pub(super) fn request(&self) -> Result<v1::DensityRequest, CliError> {
        Ok(v1::DensityRequest {
            fleet: self.fleet.fleet.clone(),
            filter: self.filter.filter(),
            region: self.region.as_ref().map(RegionArgs::region).transpose()?,
            window: self.window.window(),
            cell: self.cell,
            step: self.step.map(duration::from_std),
        })
    }
}

/// Asks, and writes the answer.
///
/// # Errors
/// Those of the server, and of writing.
pub(super) async fn run(
    client: &Client,
    args: &DensityArgs,
    request: v1::DensityRequest,
) -> Result<Exit, CliError> {
    let is_geographic = fleet_space::is_geographic(&client.get_fleet(&args.fleet.fleet).await?);
    let density = client.density(request).await?;
    let mut out = stdout();
    if args.json {
        write_json(&density, &mut out)?;
    } else if args.csv {
        write_csv(&density, is_geographic, &mut out)?;
    } else if args.step.is_some() {
        write_steps(&density, &mut out)?;
    } else {
        let map = DensityMap::new(&density, is_geographic);
        let (svg, png) = (args.svg.as_ref(), args.png.as_ref());
        for (file, picture) in [(svg, DensityMap::svg as fn(&_) -> Vec<u8>), (png, DensityMap::png)]
        {
            let Some(file) = file else { continue };
            write_file(file, &picture(&map))?;
        }
        if svg.or(png).is_none() {
            write!(out, "{}", map.text())?;
        }
        writeln!(out, "{}", map.summary())?;
    }
    out.flush()?;
    Ok(Exit::Done)
}

fn write_json(density: &DensityCounts, out: &mut impl std::io::Write) -> Result<(), CliError> {
    let v1::HistoryHeader { fleet, term, epoch, clock_ms, .. } = &density.header;
    let squares = density
        .squares
        .iter()
        .map(|square| json!([square.time_ms, square.column, square.row, square.fixes]));
    let document = json!({
        "fleet": fleet,
        "term": term.to_string(),
        "epoch": epoch,
        "clock_ms": clock_ms,
        "cell": density.cell,
        "fields": ["time_ms", "column", "row", "fixes"],
        "squares": squares.collect::<Vec<_>>(),
    });
    writeln!(out, "{document}")?;
    Ok(())
}

fn write_csv(
    density: &DensityCounts,
    is_geographic: bool,
    out: &mut impl std::io::Write,
) -> Result<(), CliError> {
    let position = if is_geographic { "lon,lat" } else { "x,y" };
    writeln!(out, "t_ms,{position},fixes")?;
    for square in &density.squares {
        let side = |index: i32| decimal(f64::from(index) * density.cell);
        let (x, y) = (side(square.column), side(square.row));
        writeln!(out, "{},{x},{y},{}", square.time_ms, square.fixes)?;
    }
    Ok(())
}

/// Writes one line for each step that has fixes.
fn write_steps(density: &DensityCounts, out: &mut impl std::io::Write) -> Result<(), CliError> {
    for step in density.squares.chunk_by(|one, next| one.time_ms == next.time_ms) {
        let fixes: u64 = step.iter().map(|square| square.fixes).sum();
        let time = rfc3339(step[0].time_ms);
        writeln!(out, "{time}  {fixes} fixes in {} squares", step.len())?;
    }
    Ok(())
}
